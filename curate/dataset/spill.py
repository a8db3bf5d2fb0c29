"""Keep problems and texts on disk between the stages, so that memory holds ids and offsets rather than tests."""

import json
from collections.abc import Iterator
from pathlib import Path

from curate.problem import Problem, decode_problem, encode_problem
from sandbox.closeable import Closeable


class ProblemSpill:
    """A file to which problems are appended and from which each can be loaded by id. An existing file is emptied."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b")
        self._offsets: dict[str, int] = {}

    def close(self) -> None:
        self._file.close()

    def __contains__(self, id: str) -> bool:
        return id in self._offsets

    def __iter__(self) -> Iterator[str]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, problem: Problem) -> None:
        """Append a problem. If a text has half a surrogate pair, write nothing and raise UnicodeEncodeError."""
        line = encode_problem(problem)
        self._offsets[problem.id] = self._file.seek(0, 2)
        self._file.write(line + b"\n")

    def load(self, id: str) -> Problem:
        self._file.seek(self._offsets[id])
        return decode_problem(self._file.readline())


class TextSpill(Closeable):
    """A file to which texts are appended, and from which each can be loaded. An existing file is emptied."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b")

    def close(self) -> None:
        self._file.close()

    def add(self, text: str) -> int:
        """Append a text and return its offset."""
        offset = self._file.seek(0, 2)
        self._file.write(json.dumps(text).encode() + b"\n")
        return offset

    def load(self, offset: int) -> str:
        self._file.seek(offset)
        text: str = json.loads(self._file.readline())
        return text
