"""What deduplication remembers of each problem: its worth, the digest of its text, its shingles and their signature.

Shingles and signatures are in files that the system pages in as they are read, with some 1.6 KB for a problem of
ordinary length. Memory holds some 600 bytes per problem.
"""

import hashlib
import tempfile
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import cache
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

from curate.dedup import lsh
from curate.dedup.minhash import PERMUTATIONS, TEXT_BATCH, permutations, signatures
from curate.dedup.shingles import ShingleSets, shingles
from curate.problem import Problem
from curate.reading.prompt_templates import strip_prompt_template
from curate.text.ngrams import encode_texts, normalize
from sandbox.closeable import Closeable

if TYPE_CHECKING:
    from curate.dedup.minhash import Signatures
    from curate.dedup.shingles import Set


_PLAIN = bytes(
    ord(" ") if chr(byte).isspace() else ord(chr(byte).lower()) if byte < 128 else byte for byte in range(256)
)


# Importing numba and loading the kernel takes 1 s of CPU time, as much as the kernel saves for this many texts.
MIN_KERNEL_TEXTS = 25_000

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
        for problem, plain in zip(problems, _plain(texts), strict=True):
            called = " ".join(problem.tests.called_names)
            self.digests.append(hashlib.sha256(f"{called}\n".encode() + plain).digest())
            self.ids.append(problem.id)
            self.sources.append(problem.source)
            self.rank_keys.append(self._worth(problem))
        is_loaded = load_kernel.cache_info().currsize  # by an earlier object of this process
        sets, signed = sketch(texts, load_kernel() if is_loaded or len(self.ids) > MIN_KERNEL_TEXTS else None)
        self._ends.extend((sets.offsets[1:] + self._ends[-1]).tolist())
        self.keys.append(lsh.band_keys(signed))
        shingle_file.write(sets.values.data)
        signature_file.write(signed.data)

    def _worth(self, problem: Problem) -> RankKey:
        """Return a key that ranks problems: verified ones first, then by most tests, source and smallest id."""
        place = self._places.get(problem.source, len(self._places))
        return not problem.verified, -len(problem.tests.cases), place, problem.id


def _plain(texts: Sequence[str]) -> list[bytes]:
    """Return the words and signs of each text, in lower case with single spaces."""
    import numpy as np

    encoded = [
        text.encode().translate(_PLAIN)
        if text.isascii()
        else " ".join(normalize(text).split()).encode(errors="surrogatepass")
        for text in texts
    ]
    # Now no text has a line end. Spaces are removed from all texts at once, since it would be slow for each.
    data = np.frombuffer(b"\n".join(encoded), dtype=np.uint8)
    spaces = data == ord(" ")
    kept = np.ones(len(data), dtype=bool)
    np.logical_not(spaces[1:] & spaces[:-1], out=kept[1:])
    return [text.strip(b" ") for text in data[kept].tobytes().split(b"\n")]


def sketch(texts: Sequence[str], kernel: Callable[..., int] | None) -> tuple[ShingleSets, "Signatures"]:
    """Return the shingles and the signatures of some hundred texts, which fit into the cache.

    kernel: the compiled one; numpy computes the same without it, and for texts with words longer than 64 bytes
    """
    import numpy as np

    if kernel is not None:
        data, ends = encode_texts(texts)
        values = np.empty(len(data) // 2 + len(texts), dtype=np.uint32)
        offsets = np.zeros(len(texts) + 1, dtype=np.int64)
        signed = np.empty((len(texts), PERMUTATIONS), dtype=np.uint32)
        n_values = kernel(np.frombuffer(data, dtype=np.uint8), ends, *permutations(), values, offsets, signed)
        if n_values >= 0:
            return ShingleSets(values[:n_values], offsets), signed
    sets = shingles(texts)
    return sets, signatures(sets.values, sets.offsets)


@cache
def load_kernel() -> Callable[..., int] | None:
    """Return the compiled kernel, or None if numba is not installed or has no folder to keep it in."""
    try:
        from curate.dedup.kernel import sketch
    except (ImportError, RuntimeError, OSError):
        return None
    compiled: Callable[..., int] = sketch
    return compiled


def _values(file: IO[bytes]) -> "Set":
    """Return the numbers that were written to the file. They stay on disk until they are read."""
    import numpy as np

    if not file.tell():
        return np.empty(0, dtype=np.uint32)  # an empty file cannot be mapped
    file.flush()
    return np.asarray(np.memmap(file, dtype=np.uint32, mode="r"))
