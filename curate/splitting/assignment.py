"""Decide which rows go into which part of a split.

Clusters are drawn in the order of a hash of their ids and the seed, so neither the order of the rows nor the number of
parts matters. Each source gives rows in proportion to its share of the dataset, as far as its clusters allow.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from curate.errors import CurateError

TRAIN, VALIDATION, TEST = "train", "validation", "test"
PARTS = (TRAIN, VALIDATION, TEST)


def parse_size(text: str) -> float | int:
    """Parse the size of a part: a share such as 0.1, or a number of rows. Raises ValueError for anything else."""
    if text.isdecimal() and int(text) > 0:
        return int(text)
    share = float(text)
    if not 0 < share < 1:
        raise ValueError(f"{text} is neither a share between 0 and 1 nor a number of rows")
    return share


def assign_parts(
    ids: Sequence[str], sources: Sequence[str], clusters: Sequence[int], sizes: Mapping[str, float | int], seed: int
) -> list[str]:
    """Return the part of each row. Raises CurateError if a part would have no rows.

    ids, sources, clusters: one for each row
    sizes: sizes of all parts but `train`, which gets all other rows: a share of the rows, or a number of rows
    """
    members: dict[int, list[int]] = defaultdict(list)
    for row, cluster in enumerate(clusters):
        members[cluster].append(row)
    keys = {cluster: min((_key(ids[row], seed), row) for row in rows) for cluster, rows in members.items()}
    order = sorted(members, key=keys.__getitem__)
    source_of = {cluster: sources[keys[cluster][1]] for cluster in members}
    parts = [TRAIN] * len(ids)
    free = set(order)
    for part, size in sizes.items():
        wanted = size if isinstance(size, int) else max(round(size * len(ids)), 1)
        for cluster in _drawn([c for c in order if c in free], wanted, members, source_of, Counter(sources)):
            free.remove(cluster)
            for row in members[cluster]:
                parts[row] = part
        if part not in parts:
            smallest = min(map(len, members.values()), default=0)
            raise CurateError(
                f"no cluster of similar rows fits into the part {part} of {wanted} rows; the smallest has {smallest}. "
                "Choose a larger part, or a higher --similarity."
            )
    if TRAIN not in parts:
        raise CurateError(f"nothing is left to train on: the dataset has {len(ids)} rows. Choose smaller parts.")
    return parts


def _key(id: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\n{id}".encode()).digest()


def _drawn(
    order: Sequence[int],
    wanted: int,
    members: Mapping[int, Sequence[int]],
    source_of: Mapping[int, str],
    n_rows: Mapping[str, int],
) -> list[int]:
    """Return clusters with together `wanted` rows or a few less, from each source in proportion to its rows."""
    left = _quotas(wanted, n_rows)
    drawn = []
    for cluster in order:
        if len(members[cluster]) <= left[source_of[cluster]]:
            left[source_of[cluster]] -= len(members[cluster])
            drawn.append(cluster)
    rest = sum(left.values())  # sources whose clusters are too large, or too few, are made up for by others
    taken = set(drawn)
    for cluster in order:
        if cluster not in taken and len(members[cluster]) <= rest:
            rest -= len(members[cluster])
            drawn.append(cluster)
    return drawn


def _quotas(wanted: int, n_rows: Mapping[str, int]) -> dict[str, int]:
    """Divide a number of rows in proportion to the sources' rows (by largest remainder)."""
    total = sum(n_rows.values())
    exact = {source: wanted * n / total for source, n in n_rows.items()}
    quotas = {source: int(share) for source, share in exact.items()}
    largest = sorted(exact, key=lambda source: (quotas[source] - exact[source], source))
    for source in largest[: wanted - sum(quotas.values())]:
        quotas[source] += 1
    return quotas
