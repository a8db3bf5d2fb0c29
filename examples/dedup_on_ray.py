"""Near-duplicates of more rows than one machine takes, with Ray Data between two steps of ours.

    python examples/dedup_on_ray.py DATASET... --out removed.jsonl        (local, or a cluster by RAY_ADDRESS)

Each DATASET is a folder that `curate build-dataset` wrote, a shard of the whole.
"""

import argparse
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import ray

from curate.dataset.reader import Stored
from curate.dedup.distributed import duplicates_of_pairs, write_signatures
from curate.dedup.shingles import jaccard

THRESHOLD = 0.7
# In a bucket of boilerplate each row is compared with so many of the first; it meets the others in other bands.
MOST_COMPARED = 200
PARTITIONS = 2  # of what is shuffled; for real sizes, a few for each core of the cluster

# What travels: the set of a row, or a pair of which the partner's set is known (or not yet).
TRAVELLING = pa.schema({"id": pa.string(), "partner": pa.string(), "set": pa.list_(pa.uint32())})


def exploded(rows: pa.Table) -> pa.Table:
    """A row for each band of each problem."""
    keys = np.stack(rows["bands"].to_numpy())
    return pa.table({"key": keys.ravel(), "id": np.repeat(rows["id"].to_numpy(), keys.shape[1])})


def pairs_in(bucket: pa.Table) -> pa.Table:
    """The candidates of one bucket."""
    ids = sorted(bucket["id"].to_pylist())
    pairs = [(one, other) for place, one in enumerate(ids) for other in ids[: min(place, MOST_COMPARED)]]
    return pa.table([[one for one, _ in pairs], [other for _, other in pairs], [None] * len(pairs)], TRAVELLING)


def with_set(together: pa.Table) -> pa.Table:
    """Of all that is known of one row, its pairs, turned round: now the partner's turn, with this row's set."""
    rows = together.to_pylist()
    own = next(row["set"] for row in rows if row["partner"] is None)
    partners = sorted({row["partner"] for row in rows} - {None})
    return pa.table([partners, [rows[0]["id"]] * len(partners), [own] * len(partners)], TRAVELLING)


def compared(together: pa.Table) -> pa.Table:
    """The pairs of one row, the partners' sets at hand, that reach the threshold."""
    rows = together.to_pylist()
    own = next(row["set"] for row in rows if row["partner"] is None)
    similarities = [
        (row["id"], row["partner"], jaccard(np.array(own, np.uint32), np.array(row["set"], np.uint32)))
        for row in rows
        if row["partner"] is not None
    ]
    found = [pair for pair in similarities if pair[2] >= THRESHOLD]
    return pa.table({name: [pair[place] for pair in found] for place, name in enumerate(("one", "other", "jaccard"))})


def similar_pairs(files: list[str]) -> list[tuple[str, str, float]]:
    """All candidates at or above the threshold: this is what takes a cluster."""
    bands = ray.data.read_parquet(files, columns=["id", "bands"]).map_batches(exploded, batch_format="pyarrow")
    sets = ray.data.read_parquet(files, columns=["id", "shingles"]).map_batches(
        lambda rows: pa.table([rows["id"], pa.nulls(len(rows), pa.string()), rows["shingles"]], TRAVELLING),
        batch_format="pyarrow",
    )
    pairs = bands.groupby("key").map_groups(pairs_in, batch_format="pyarrow")
    turned = sets.union(pairs).groupby("id").map_groups(with_set, batch_format="pyarrow")
    found = sets.union(turned).groupby("id").map_groups(compared, batch_format="pyarrow").take_all()
    return [(row["one"], row["other"], row["jaccard"]) for row in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", type=Path, nargs="+", metavar="DATASET")
    parser.add_argument("--out", type=Path, required=True, help="file for the rows to remove, with their reasons")
    chosen = parser.parse_args()
    shards = [Stored(folder) for folder in chosen.datasets]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.parquet" for number in range(len(shards))]
        for shard, file in zip(shards, files, strict=True):
            write_signatures(shard, file)  # of a real shard, on the machine that has it
        ray.init(os.environ.get("RAY_ADDRESS", "local"), include_dashboard=False)
        ray.data.DataContext.get_current().default_hash_shuffle_parallelism = PARTITIONS
        pairs = similar_pairs([str(file) for file in files])
        places = {problem.id: (shard, row) for shard in shards for row, problem in enumerate(shard)}

        def load(id):
            shard, row = places[id]
            return shard.load(row)

        removed = list(duplicates_of_pairs(files, pairs, sources=[], load=load))
    chosen.out.write_text("".join(json.dumps(asdict(rejection)) + "\n" for rejection in removed))
    print(f"{len(pairs)} similar pairs, {len(removed)} rows to remove: {chosen.out}")


if __name__ == "__main__":
    main()
