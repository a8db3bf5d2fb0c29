"""Problems parked on disk between the stages, so that memory holds ids and offsets rather than tests."""

import json
from collections.abc import Iterator
from pathlib import Path

from curate.problem import Problem, from_row, to_row


class Spill:
    """Append problems, then load any of them by id. The file is started anew each time."""

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
        """Raises UnicodeEncodeError, and parks nothing, if some text holds half a surrogate pair."""
        line = json.dumps(to_row(problem), ensure_ascii=False).encode()
        self._offsets[problem.id] = self._file.seek(0, 2)
        self._file.write(line + b"\n")

    def load(self, id: str) -> Problem:
        self._file.seek(self._offsets[id])
        return from_row(json.loads(self._file.readline()))
