"""The split of a dataset into parts, each a separate dataset: OUT/train, OUT/validation and, if requested, OUT/test.

Parts are folders rather than splits of one dataset, because every command takes the folder of a dataset. In each part,
the rows of the others are in `rejected` with the stage `split`.

A split never separates a cluster of rows, a connected component of links. Two rows are linked by a minimum Jaccard
similarity of word 5-grams, by the same text, or by a common key such as a URL. Deduplication removes rows, so it does
not follow such chains; a split removes nothing, so excess links do no harm.

Clusters are drawn in the order of a hash of ids and seed, independent of the order of rows and the number of parts.
Each source contributes rows in proportion to its share of the dataset, as far as its clusters allow.
"""

import hashlib
import shutil
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from curate.dataset import output_folder
from curate.dataset.dataset import Dataset, require_outside
from curate.decontamination.problem_keys import derive_keys
from curate.dedup import lsh
from curate.dedup.duplicates import find_similar
from curate.dedup.sketches import create_temporary_sketches
from curate.derivation import Key, create_step_plan, derive, find_existing_parent
from curate.difficulty.table import select_remaining_tables
from curate.errors import CurateError, PlanMismatchError
from curate.manifest import MANIFEST, Manifest
from curate.problem import Problem, Rejection
from curate.progress import Progress, ignore_progress, track_progress
from curate.recipe import SplitConfig, add_step
from sandbox import Suite

STEP = "split"
TRAIN, VALIDATION, TEST = "train", "validation", "test"
PARTS = (TRAIN, VALIDATION, TEST)
_COLUMNS = ("id", "source", "statement", "url", "platform", "title")


def split(
    dataset: Path,
    out: Path,
    options: SplitConfig,
    *,
    overwrite: bool = False,
    progress: Progress = ignore_progress,
    recipe: Mapping[str, Any] | None = None,
) -> dict[str, Manifest]:
    """Write the parts of a dataset into `out`/NAME, and return their manifests by name.

    dataset    folder or Hub id of a dataset that curate built
    out        the parent folder of the parts
    options    the sizes of the parts, the similarity and the seed
    overwrite  whether to replace an existing split in the folder
    recipe     the recipe of the result; None: derived from the dataset's recipe

    Finished parts with the same plan stay unchanged. Raises CurateError if the dataset cannot be read, a part would be
    empty, or a folder cannot be written.
    """
    origin = Dataset.open_built(dataset)
    require_outside(out, origin.path, origin.list_files("data"))
    if (out / MANIFEST).exists():
        raise CurateError(f"{out} is a dataset itself. Choose another --out for the parts.")
    removed = _reject_other_parts(origin, options, find_existing_parent(out), progress)
    chosen = {"sizes": options.sizes, "similarity": options.similarity, "seed": options.seed}
    plans = {
        part: create_step_plan(origin.manifest, STEP, {"part": part, **chosen}, rejections.values())
        for part, rejections in removed.items()
    }
    recipe = recipe or add_step(origin.manifest.recipe, STEP, options)
    with output_folder.lock_output(out, out / ".lock", temporary=True):
        finished = {
            part: output_folder.find_finished_manifest(out / part, plan, overwrite=overwrite)
            for part, plan in plans.items()
        }
        _remove_obsolete_parts(out, list(plans), overwrite=overwrite)
        for part in plans:
            if finished[part] is None and (out / part).exists():
                output_folder.mark_unfinished(out / part)  # its rows may also be in a new part
        return {
            part: finished[part]
            or derive(
                [origin],
                removed[part],
                plan,
                select_remaining_tables(origin, {rejection.id for rejection in removed[part].values()}),
                out / part,
                overwrite=overwrite,
                omit_evidence=True,
                recipe=recipe,
            )
            for part, plan in plans.items()
        }


def _reject_other_parts(
    origin: Dataset, options: SplitConfig, work: Path, progress: Progress
) -> dict[str, dict[Key, Rejection]]:
    """Return the rejections of rows of other parts, by part."""
    of_row = find_clusters(origin, similarity=options.similarity, work=work, progress=progress)
    rows = list(origin.iter_rows("data", ("id", "source")))
    ids, sources = [row["id"] for row in rows], [row["source"] for row in rows]
    parts = assign_parts(ids, sources, of_row, options.sizes, options.seed)
    sizes = Counter(of_row)
    removed: dict[str, dict[Key, Rejection]] = {part: {} for part in (TRAIN, *options.sizes)}
    for position, (id, source, cluster, own) in enumerate(zip(ids, sources, of_row, parts, strict=True)):
        detail = f"cluster={ids[cluster]} rows={sizes[cluster]}"
        for part in removed.keys() - {own}:
            removed[part][0, position] = Rejection(id, source, STEP, own, detail)
    return removed


def _remove_obsolete_parts(out: Path, names: Sequence[str], *, overwrite: bool) -> None:
    """Remove parts of an earlier split that this split lacks, because their rows may be in its parts."""
    for name in PARTS:
        if name in names or not (out / name).is_dir():
            continue
        steps = output_folder.read_manifest(out / name).plan.steps
        if not steps or steps[-1].step != STEP:
            raise CurateError(f"{out / name} is not a part of a split. Choose another --out.")
        if not overwrite:
            raise PlanMismatchError(f"{out / name} belongs to another split. Choose another --out, or add --overwrite.")
        shutil.rmtree(out / name)


class UnionFind:
    """A union-find structure over rows."""

    def __init__(self, n_rows: int) -> None:
        self._parents = list(range(n_rows))
        self._first: dict[Hashable, int] = {}

    def union(self, row: int, other: int) -> None:
        """Put two rows into one cluster."""
        first, second = sorted((self.find(row), self.find(other)))
        self._parents[second] = first

    def union_by_key(self, key: Hashable, row: int) -> None:
        """Put all rows with this key into one cluster."""
        self.union(self._first.setdefault(key, row), row)

    def find(self, row: int) -> int:
        """Return the cluster of a row, identified by its smallest row."""
        while (parent := self._parents[row]) != row:
            self._parents[row] = row = self._parents[parent]
        return row


def find_clusters(dataset: Dataset, *, similarity: float, work: Path, progress: Progress) -> list[int]:
    """Return the cluster of each row of a dataset, in order. Memory holds ids and sketches.

    similarity: minimum Jaccard similarity, above 0, that links two statements
    work: folder for temporary files
    """
    links = UnionFind(len(dataset))

    def iter_problems() -> Iterator[Problem]:
        rows = track_progress(dataset.iter_rows("data", _COLUMNS), "read", progress, total=len(dataset))
        for row, values in enumerate(rows):
            names = (values["id"].rpartition("/")[2], values["title"])
            for key in derive_keys(url=values["url"], platform=values["platform"], names=names):
                links.union_by_key(key, row)
            # Problems with the same text stay together regardless of their tests, so the tests are not read.
            yield Problem(values["id"], values["source"], values["statement"], Suite(()), None, "")

    with create_temporary_sketches(iter_problems(), folder=work, shape=lsh.choose_shape(similarity)) as sketches:
        for row in track_progress(range(len(sketches)), "compare", progress, total=len(sketches)):
            for _, other in find_similar(row, sketches, similarity):
                links.union(int(sketches.number[row]), int(sketches.number[other]))
            sketches.index.add_kept(row)
    return [links.find(row) for row in range(len(dataset))]


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

    ids, sources, clusters: id, source and cluster of each row
    sizes: share or number of rows of each part except `train`, which gets the remaining rows
    """
    members: dict[int, list[int]] = defaultdict(list)
    for row, cluster in enumerate(clusters):
        members[cluster].append(row)
    keys = {cluster: min((_hash_id(ids[row], seed), row) for row in rows) for cluster, rows in members.items()}
    order = sorted(members, key=keys.__getitem__)
    source_of = {cluster: sources[keys[cluster][1]] for cluster in members}
    parts = [TRAIN] * len(ids)
    free = set(order)
    for part, size in sizes.items():
        wanted = size if isinstance(size, int) else max(round(size * len(ids)), 1)
        for cluster in _draw_clusters([c for c in order if c in free], wanted, members, source_of, Counter(sources)):
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


def _hash_id(id: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\n{id}".encode()).digest()


def _draw_clusters(
    order: Sequence[int],
    max_rows: int,
    members: Mapping[int, Sequence[int]],
    source_of: Mapping[int, str],
    n_rows: Mapping[str, int],
) -> list[int]:
    """Draw clusters with at most `max_rows` rows in total, from each source in proportion to its rows.

    order: the clusters in the order of drawing
    """
    remaining = _compute_quotas(max_rows, n_rows)
    drawn = []
    for cluster in order:
        if len(members[cluster]) <= remaining[source_of[cluster]]:
            remaining[source_of[cluster]] -= len(members[cluster])
            drawn.append(cluster)
    # Sources with other clusters make up for sources whose clusters are too large or too few.
    rest = sum(remaining.values())
    taken = set(drawn)
    for cluster in order:
        if cluster not in taken and len(members[cluster]) <= rest:
            rest -= len(members[cluster])
            drawn.append(cluster)
    return drawn


def _compute_quotas(wanted: int, n_rows: Mapping[str, int]) -> dict[str, int]:
    """Divide a number of rows in proportion to the sources' rows, by the largest remainder method."""
    total = sum(n_rows.values())
    exact = {source: wanted * n / total for source, n in n_rows.items()}
    quotas = {source: int(share) for source, share in exact.items()}
    largest = sorted(exact, key=lambda source: (quotas[source] - exact[source], source))
    for source in largest[: wanted - sum(quotas.values())]:
        quotas[source] += 1
    return quotas
