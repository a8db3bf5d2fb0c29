"""What deduplication remembers of each problem: its worth, the digest of its text, its shingles and their signature.

Shingles and signatures are in files that the system pages in as they are read, with some 1.6 KB for a problem of
ordinary length. Memory holds some 600 bytes per problem.
"""

import hashlib
import re
import tempfile
from array import array
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

from curate.dedup import lsh
from curate.dedup.minhash import PERMUTATIONS, TEXT_BATCH, signatures
from curate.dedup.shingles import shingles
from curate.problem import Problem
from curate.reading.prompt_templates import strip_prompt_template
from curate.text.ngrams import normalize
from sandbox.closeable import Closeable

if TYPE_CHECKING:
    from curate.dedup.minhash import Signatures
    from curate.dedup.shingles import Set


_PLAIN = bytes(
    ord(" ") if chr(byte).isspace() else ord(chr(byte).lower()) if byte < 128 else byte for byte in range(256)
)
_SPACES = re.compile(rb"  +")


# Unverified, tests (negative), place of the source, id: the smallest is worth most. A plain tuple, since a million
# of any other kind would be visited by each full garbage collection.
RankKey = tuple[bool, int, int, str]


class Sketches(Closeable):
    """The sketches of problems, by row. Rows are numbered in the order in which the problems were given."""

    def __init__(self, problems: Iterable[Problem], sources: Sequence[str], *, folder: Path | None = None) -> None:
        """Make the sketches of all these problems.

        sources  names of the sources; their order decides between equally good rows
        folder   folder for the unnamed files, which exist until this object is closed; None: the usual temporary folder
        """
        self.ids: list[str] = []
        self.sources: list[str] = []
        self.rank_keys: list[RankKey] = []
        self.digests: list[bytes] = []
        self.keys: list[lsh.Keys] = []
        self._ends = array("q", [0])
        self._places = {source: place for place, source in enumerate(sources)}
        with ExitStack() as opened:
            shingle_file = opened.enter_context(tempfile.TemporaryFile(dir=folder))
            signature_file = opened.enter_context(tempfile.TemporaryFile(dir=folder))
            rest = iter(problems)
            while batch := list(islice(rest, TEXT_BATCH)):
                self._add(batch, shingle_file, signature_file)
            self._shingles = _values(shingle_file)
            self.signatures: Signatures = _values(signature_file).reshape(-1, PERMUTATIONS)
            self._opened = opened.pop_all()

    def close(self) -> None:
        self._opened.close()

    def __len__(self) -> int:
        return len(self.ids)

    def shingles(self, row: int) -> "Set":
        """Return the distinct shingles of a row, sorted. There is at least one."""
        return self._shingles[self._ends[row] : self._ends[row + 1]]

    def _add(self, problems: Sequence[Problem], shingle_file: IO[bytes], signature_file: IO[bytes]) -> None:
        texts = [strip_prompt_template(problem.statement) for problem in problems]
        for problem, text in zip(problems, texts, strict=True):
            self.ids.append(problem.id)
            self.sources.append(problem.source)
            self.rank_keys.append(self._worth(problem))
            self.digests.append(_digest(text, " ".join(problem.tests.called_names)))
        sets = shingles(texts)
        signed = signatures(sets.values, sets.offsets)
        self._ends.extend((sets.offsets[1:] + self._ends[-1]).tolist())
        self.keys.append(lsh.band_keys(signed))
        shingle_file.write(sets.values.data)
        signature_file.write(signed.data)

    def _worth(self, problem: Problem) -> RankKey:
        """Return a key that ranks problems: verified ones first, then by most tests, source and smallest id."""
        place = self._places.get(problem.source, len(self._places))
        return not problem.verified, -len(problem.tests.cases), place, problem.id


def _digest(text: str, called: str) -> bytes:
    """Return a digest of the task, made from the words and signs of the statement and the names that tests call."""
    return hashlib.sha256(f"{called}\n".encode() + _plain(text)).digest()


def _plain(text: str) -> bytes:
    """Return the text in lower case with single spaces. For ASCII text this makes no object for each word."""
    if not text.isascii():
        return " ".join(normalize(text).split()).encode(errors="surrogatepass")
    return _SPACES.sub(b" ", text.encode().translate(_PLAIN)).strip(b" ")


def _values(file: IO[bytes]) -> "Set":
    """Return the numbers that were written to the file. They stay on disk until they are read."""
    import numpy as np

    if not file.tell():
        return np.empty(0, dtype=np.uint32)  # an empty file cannot be mapped
    file.flush()
    return np.asarray(np.memmap(file, dtype=np.uint32, mode="r"))
