"""The sketches of a build's shards on disk, and of those rows of all shards that have something in common.

A shard has a file for each part of its sketches, some 1.1 KB for a problem of ordinary length. Equal keys of a band are
found by sorting the keys of all shards, one band after another, which needs less than 100 bytes of memory a row. Only
rows that share a key or a text with another row are compared, and only these have their ids and keys in memory, some
700 bytes.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.dedup import lsh
from curate.dedup.minhash import PERMUTATIONS
from curate.dedup.sketches import RankKey, Sketches
from curate.problem import Problem
from sandbox.closeable import Closeable

if TYPE_CHECKING:
    import numpy as np

    from curate.dedup.shingles import Set

    Numbers = np.ndarray[Any, np.dtype[np.int64]]

_NUMBERS, _DIGESTS, _BANDS, _SIGNATURES, _ENDS, _SHINGLES = (
    f"{name}.bin" for name in ("numbers", "digests", "bands", "signatures", "shingle_ends", "shingles")
)
_DIGEST_BYTES = 32
_SIGNATURE_BYTES = 4 * PERMUTATIONS


def write_sketches(problems: Iterable[Problem], numbers: Sequence[int], folder: Path) -> None:
    """Write the sketches of problems into a folder.

    numbers  by which the shard knows the problems; may grow while the problems are read
    """
    import numpy as np

    with Sketches(problems, (), folder=folder) as sketches:
        np.array(numbers, dtype=np.uint32).tofile(folder / _NUMBERS)
        (folder / _DIGESTS).write_bytes(b"".join(sketches.digests))
        with (folder / _BANDS).open("wb") as file:
            for band in range(lsh.BANDS):
                for block in sketches.keys:
                    file.write(np.ascontiguousarray(block[:, band]).data)
        sketches.signatures.tofile(folder / _SIGNATURES)
        ends = [0]
        with (folder / _SHINGLES).open("wb") as file:
            for row in range(len(sketches)):
                shingles = np.ascontiguousarray(sketches.shingles(row))
                file.write(shingles.data)
                ends.append(ends[-1] + len(shingles))
        np.array(ends, dtype=np.int64).tofile(folder / _ENDS)


@dataclass(frozen=True, slots=True)
class ShardRows:
    """The rows of a shard that are compared.

    folder             where their sketches are
    numbers            numbers of the rows, ascending
    verified, n_tests  of each row; with source and id, they decide which of several duplicates stays
    id                 returns the id of a row by its number
    """

    folder: Path
    source: str
    numbers: "Numbers"
    verified: "Numbers"
    n_tests: "Numbers"
    id: Callable[[int], str]

    def places(self) -> "Numbers":
        """Return the place of each row among the sketches of the shard."""
        import numpy as np

        return np.searchsorted(np.fromfile(self.folder / _NUMBERS, dtype=np.uint32), self.numbers)


class ShardSketches(Closeable):
    """The sketches of rows that share a key of a band, or a text, with another row: an object like `Sketches`.

    addresses: the index of the shard and the number of the row in it, for each row
    """

    def __init__(self, shards: Sequence[ShardRows], sources: Sequence[str]) -> None:
        """Find the rows in all shards. sources: their order decides between equally good rows"""
        import numpy as np

        order = {source: place for place, source in enumerate(sources)}
        self.ids: list[str] = []
        self.sources: list[str] = []
        self.rank_keys: list[RankKey] = []
        self.digests: list[bytes] = []
        self.addresses: list[tuple[int, int]] = []
        self._places: list[int] = []
        self._shingle_ends: list[tuple[int, int]] = []
        self._blocks: list[tuple[ShardRows, Numbers]] = []
        self._opened = ExitStack()
        self._signature_files: list[int] = []
        self._shingle_files: list[int] = []
        shared = _shared_rows(shards)
        for index, (shard, chosen) in enumerate(zip(shards, shared, strict=True)):
            self._signature_files.append(self._open(shard.folder / _SIGNATURES))
            self._shingle_files.append(self._open(shard.folder / _SHINGLES))
            places = shard.places()[chosen]
            self._blocks.append((shard, places))
            digests = np.fromfile(shard.folder / _DIGESTS, dtype=f"V{_DIGEST_BYTES}")[places]
            ends = np.fromfile(shard.folder / _ENDS, dtype=np.int64)
            self._shingle_ends += zip(ends[places].tolist(), ends[places + 1].tolist(), strict=True)
            self._places += places.tolist()
            self.digests += [digest.tobytes() for digest in digests]
            numbers = shard.numbers[chosen].tolist()
            self.addresses += [(index, number) for number in numbers]
            rows = zip(numbers, shard.verified[chosen].tolist(), shard.n_tests[chosen].tolist(), strict=True)
            for number, verified, n_tests in rows:
                id = shard.id(number)
                self.ids.append(id)
                self.sources.append(shard.source)
                self.rank_keys.append((not verified, -n_tests, order[shard.source], id))

    def close(self) -> None:
        self._opened.close()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def keys(self) -> "Iterator[lsh.Keys]":
        """The keys of all bands, for the rows of one shard after another; each access reads them."""
        import numpy as np

        for shard, places in self._blocks:
            yield np.stack([band[places] for band in _bands(shard.folder)], axis=1)

    @property
    def signatures(self) -> "ShardSketches":
        """An object that is indexed like an array of signatures."""
        return self

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), PERMUTATIONS

    def __getitem__(self, rows: Any) -> Any:
        """Return the signature of a row, or of several."""
        import numpy as np

        if isinstance(rows, int):
            offset = self._places[rows] * _SIGNATURE_BYTES
            file = self._signature_files[self.addresses[rows][0]]
            return np.frombuffer(os.pread(file, _SIGNATURE_BYTES, offset), dtype=np.uint32)
        return np.stack([self[row] for row in rows.tolist()])

    def shingles(self, row: int) -> "Set":
        """Return the distinct shingles of a row, sorted. There is at least one."""
        import numpy as np

        begin, end = self._shingle_ends[row]
        file = self._shingle_files[self.addresses[row][0]]
        return np.frombuffer(os.pread(file, 4 * (end - begin), 4 * begin), dtype=np.uint32)

    def _open(self, path: Path) -> int:
        descriptor = os.open(path, os.O_RDONLY)
        self._opened.callback(os.close, descriptor)
        return descriptor


def _shared_rows(shards: Sequence[ShardRows]) -> list["Numbers"]:
    """Return for each shard the indexes of the rows that share a key of a band, or a text, with any other row."""
    import numpy as np

    places = [shard.places() for shard in shards]
    shared = np.zeros(sum(map(len, places)), dtype=bool)
    for band in range(lsh.BANDS):
        parts = [_band(shard.folder, band)[rows] for shard, rows in zip(shards, places, strict=True)]
        _mark_repeated(np.concatenate([np.empty(0, dtype=np.uint64), *parts]), shared)
    # The first bytes of a digest suffice to find rows that may have the same text.
    parts = [
        np.fromfile(shard.folder / _DIGESTS, dtype=np.uint64)[:: _DIGEST_BYTES // 8][rows]
        for shard, rows in zip(shards, places, strict=True)
    ]
    _mark_repeated(np.concatenate([np.empty(0, dtype=np.uint64), *parts]), shared)
    ends = np.cumsum([0, *map(len, places)])
    return [np.flatnonzero(shared[begin:end]) for begin, end in zip(ends[:-1], ends[1:], strict=True)]


def _mark_repeated(keys: "np.ndarray[Any, np.dtype[np.uint64]]", marked: "np.ndarray[Any, np.dtype[np.bool_]]") -> None:
    import numpy as np

    order = np.argsort(keys)
    keys = keys[order]
    like_next = np.flatnonzero(keys[1:] == keys[:-1])
    marked[order[like_next]] = marked[order[like_next + 1]] = True


def _band(folder: Path, band: int) -> "np.ndarray[Any, np.dtype[np.uint64]]":
    import numpy as np

    n_rows = (folder / _NUMBERS).stat().st_size // 4
    return np.fromfile(folder / _BANDS, dtype=np.uint64, count=n_rows, offset=8 * n_rows * band)


def _bands(folder: Path) -> Iterator["np.ndarray[Any, np.dtype[np.uint64]]"]:
    return (_band(folder, band) for band in range(lsh.BANDS))
