"""Sketches of problems for deduplication: the digest of the text, its shingles, their signature and bands.

Files in a folder have the sketches of many problems, in some 1.9 KB for an ordinary problem. `Sketches` reads
several such folders, and loads only the rows that share a band with another row, in some 200 bytes each.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.dedup.lsh import BANDS, ROWS, LshIndex, compute_band_keys
from curate.dedup.signatures import (
    PERMUTATIONS,
    TEXT_BATCH,
    ShingleSets,
    compute_shingles,
    compute_signatures,
    create_permutations,
)
from curate.problem import Problem
from curate.reading.prompt_templates import strip_prompt_template
from curate.text.ngrams import join_texts, normalize
from sandbox.closeable import Closeable

if TYPE_CHECKING:
    import numpy as np

    from curate.dedup.lsh import Keys
    from curate.dedup.signatures import Set, Signatures

    Numbers = np.ndarray[Any, np.dtype[Any]]

_NUMBERS, _DIGESTS, _BANDS, _SIGNATURES, _ENDS, _SHINGLES = (
    f"{name}.bin" for name in ("numbers", "digests", "bands", "signatures", "shingle_ends", "shingles")
)
_SIGNATURE_BYTES = 4 * PERMUTATIONS
# Translation of ASCII: uppercase to lowercase, each whitespace character to a space.
PLAIN_BYTES = bytes(
    ord(" ") if chr(byte).isspace() else ord(chr(byte).lower()) if byte < 128 else byte for byte in range(256)
)
MIN_KERNEL_TEXTS = 25_000  # for fewer texts, the kernel saves less than the 1 s of CPU time for its import


def write_sketches(
    problems: Iterable[tuple[int, Problem]], folder: Path, *, shape: tuple[int, int] = (BANDS, ROWS)
) -> None:
    """Write the sketches of numbered problems into a folder.

    problems  problems with their ascending numbers
    shape     number of bands, and of minima per band
    """
    import numpy as np

    keys: list[Keys] = []
    n_rows = n_values = 0
    rest = iter(problems)
    with ExitStack() as opened:
        files = (opened.enter_context((folder / name).open("wb")) for name in (_NUMBERS, _DIGESTS, _SIGNATURES, _ENDS))
        numbers, digests, signatures, ends = files
        values = opened.enter_context((folder / _SHINGLES).open("wb"))
        ends.write(bytes(8))
        while batch := list(islice(rest, TEXT_BATCH)):
            n_rows += len(batch)
            is_loaded = load_kernel.cache_info().currsize
            kernel = load_kernel() if is_loaded or n_rows > MIN_KERNEL_TEXTS else None
            plain, sets, signed = sketch([strip_prompt_template(problem.statement) for _, problem in batch], kernel)
            digested = b"".join(
                hashlib.sha256(" ".join(problem.tests.called_names).encode() + b"\n" + text).digest()
                for (_, problem), text in zip(batch, plain, strict=True)
            )
            numbers.write(np.array([number for number, _ in batch], dtype=np.uint32).data)
            digests.write(digested)
            signatures.write(signed.data)
            ends.write((sets.offsets[1:] + n_values).data)
            values.write(sets.values.data)
            n_values += len(sets.values)
            # The first bytes of the digest are an additional band; rows with the same text share its buckets.
            first_bytes = np.frombuffer(digested, dtype=np.uint64).reshape(-1, 4)[:, 0]
            keys.append(np.column_stack((compute_band_keys(signed, shape), first_bytes)))
    with (folder / _BANDS).open("wb") as file:
        for band in range(shape[0] + 1):
            for block in keys:
                file.write(np.ascontiguousarray(block[:, band]).data)


class Sketches(Closeable):
    """The sketches of the rows that share a band with another row. All other rows have no duplicates.

    A parameter `row` is an index into these rows.

    rows    index of each row among all problems of the shards
    shard   index of each row's shard
    number  number of each row in its shard
    index   the buckets of the bands
    """

    def __init__(self, shards: Sequence[tuple[Path, "Numbers | None"]]) -> None:
        """Find the rows. shards: folders of sketches, and ascending numbers of problems to compare; None for all"""
        import numpy as np

        row_indices = [_find_indices(folder, numbers) for folder, numbers in shards]
        n_bands = max((_count_bands(folder) for folder, _ in shards), default=0)
        folders = [folder for folder, _ in shards]
        bands = (
            np.concatenate([_load_band(folder, band)[rows] for folder, rows in zip(folders, row_indices, strict=True)])
            for band in range(n_bands)
        )
        self.index = LshIndex(sum(map(len, row_indices)), bands)
        self.rows = self.index.rows
        starts = np.cumsum([0, *map(len, row_indices)])
        self.shard = (np.searchsorted(starts, self.rows, side="right") - 1).astype(np.int32)
        self._index_in_shard = np.concatenate([np.zeros(0, np.int32), *row_indices])[self.rows]
        chosen = [self._index_in_shard[slice(*np.searchsorted(self.shard, (n, n + 1)))] for n in range(len(shards))]
        self.number = _load_values(folders, _NUMBERS, np.uint32, chosen)
        self._digests = _load_values(folders, _DIGESTS, "V32", chosen)
        self._begins = _load_values(folders, _ENDS, np.int64, chosen)
        self._ends = _load_values(folders, _ENDS, np.int64, [rows + 1 for rows in chosen])
        with ExitStack() as stack:
            self._signatures = [_open_descriptor(folder / _SIGNATURES, stack) for folder in folders]
            self._shingles = [_open_descriptor(folder / _SHINGLES, stack) for folder in folders]
            self._resources = stack.pop_all()

    def close(self) -> None:
        self._resources.close()

    def __len__(self) -> int:
        return len(self.rows)

    def get_digest(self, row: int) -> bytes:
        """Return the SHA-256 of the functions called by tests and the text without case and spacing."""
        digest: bytes = self._digests[row].tobytes()
        return digest

    def load_shingles(self, row: int) -> "Set":
        """Return the distinct shingles of a row, sorted; at least one."""
        import numpy as np

        begin, end = int(self._begins[row]), int(self._ends[row])
        file = self._shingles[self.shard[row]]
        return np.frombuffer(os.pread(file, 4 * (end - begin), 4 * begin), dtype=np.uint32)

    def load_signatures(self, rows: Sequence[int]) -> "Signatures":
        import numpy as np

        signed = [
            os.pread(
                self._signatures[self.shard[row]], _SIGNATURE_BYTES, int(self._index_in_shard[row]) * _SIGNATURE_BYTES
            )
            for row in rows
        ]
        return np.frombuffer(b"".join(signed), dtype=np.uint32).reshape(-1, PERMUTATIONS)


@contextmanager
def create_temporary_sketches(
    problems: Iterable[Problem], *, folder: Path | None = None, shape: tuple[int, int] = (BANDS, ROWS)
) -> Iterator[Sketches]:
    """Yield the sketches of problems, numbered from 0. folder: parent of the temporary folder; None: the system's"""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        write_sketches(enumerate(problems), Path(temporary), shape=shape)
        with Sketches([(Path(temporary), None)]) as sketches:
            yield sketches


def sketch(texts: Sequence[str], kernel: Callable[..., int] | None) -> tuple[list[bytes], ShingleSets, "Signatures"]:
    """Return the plain form (lower case, single spaces), the shingles and the signatures of at most TEXT_BATCH texts.

    kernel: the compiled kernel; if None, and for words longer than 64 bytes, numpy computes the same
    """
    import numpy as np

    if kernel is not None:
        data, ends = join_texts(texts)
        plain, plain_ends = np.empty(len(data), dtype=np.uint8), np.zeros(len(texts) + 1, dtype=np.int64)
        values, offsets = np.empty(len(data) // 2 + len(texts), dtype=np.uint32), np.zeros_like(plain_ends)
        signed = np.empty((len(texts), PERMUTATIONS), dtype=np.uint32)
        outputs = plain, plain_ends[1:], values, offsets, signed
        n_values = kernel(np.frombuffer(data, dtype=np.uint8), ends, create_permutations(), *outputs)
        if n_values >= 0:
            joined, bounds = plain.tobytes(), plain_ends.tolist()
            parts = [
                joined[bounds[number] : bounds[number + 1]] if text.isascii() else _normalize_unicode(text)
                for number, text in enumerate(texts)
            ]
            return parts, ShingleSets(values[:n_values], offsets), signed
    sets = compute_shingles(texts)
    return _normalize_texts(texts), sets, compute_signatures(sets.values, sets.offsets)


def _normalize_texts(texts: Sequence[str]) -> list[bytes]:
    import numpy as np

    encoded = [text.encode().translate(PLAIN_BYTES) if text.isascii() else _normalize_unicode(text) for text in texts]
    # Encoded texts contain no line ends, so they can be joined; one numpy pass then removes repeated spaces.
    data = np.frombuffer(b"\n".join(encoded), dtype=np.uint8)
    spaces = data == ord(" ")
    kept = np.ones(len(data), dtype=bool)
    np.logical_not(spaces[1:] & spaces[:-1], out=kept[1:])
    return [text.strip(b" ") for text in data[kept].tobytes().split(b"\n")]


def _normalize_unicode(text: str) -> bytes:
    return " ".join(normalize(text).split()).encode(errors="surrogatepass")


@cache
def load_kernel() -> Callable[..., int] | None:
    """Return the compiled kernel, or None if numba is missing or cannot write its cache."""
    try:
        from curate.dedup.kernel import sketch
    except (ImportError, RuntimeError, OSError):
        return None
    compiled: Callable[..., int] = sketch
    return compiled


def _find_indices(folder: Path, numbers: "Numbers | None") -> "Numbers":
    import numpy as np

    numbers_in_folder = np.fromfile(folder / _NUMBERS, dtype=np.uint32)
    indices = np.arange(len(numbers_in_folder)) if numbers is None else np.searchsorted(numbers_in_folder, numbers)
    return indices.astype(np.int32)


def _count_bands(folder: Path) -> int:
    n_rows = (folder / _NUMBERS).stat().st_size // 4
    return (folder / _BANDS).stat().st_size // (8 * n_rows) if n_rows else 0


def _load_band(folder: Path, band: int) -> "Keys":
    import numpy as np

    n_rows = (folder / _NUMBERS).stat().st_size // 4
    return np.fromfile(folder / _BANDS, dtype=np.uint64, count=n_rows, offset=8 * n_rows * band)


def _load_values(folders: Sequence[Path], name: str, dtype: Any, indices: Sequence["Numbers"]) -> "Numbers":
    """Return the values at these indices in the files of this name, file by file."""
    import numpy as np

    parts = [np.fromfile(folder / name, dtype=dtype)[chosen] for folder, chosen in zip(folders, indices, strict=True)]
    return np.concatenate([np.empty(0, dtype=dtype), *parts])


def _open_descriptor(path: Path, stack: ExitStack) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    stack.callback(os.close, descriptor)
    return descriptor
