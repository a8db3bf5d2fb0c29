"""Find near-duplicates among more rows than fit on one machine, with Ray Data between two steps of ours.

    python examples/dedup_on_ray.py DATASET... --out removed.jsonl        (local, or on the cluster at RAY_ADDRESS)

Each DATASET is a folder that `curate build-dataset` has written, and a shard of the whole.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import ray

from curate.dataset.dataset_reader import DatasetReader
from curate.dataset.writer import rejected_row
from curate.dedup.distributed import duplicates_of_pairs, write_signatures
from curate.dedup.shingles import jaccard

THRESHOLD = 0.7
# In a bucket of boilerplate, each row is only compared with the first ones; it meets the others in other bands.
MAX_COMPARED = 200
PARTITIONS = 2  # partitions of the shuffled data; for real sizes, use a few for each core of the cluster

# The rows that are shuffled: the set of a row, or a pair with or without the partner's set.
TRAVELLING = pa.schema({"id": pa.string(), "partner": pa.string(), "set": pa.list_(pa.uint32())})


def exploded(rows: pa.Table) -> pa.Table:
    """Return a row for each band of each problem."""
    keys = np.stack(rows["bands"].to_numpy())
    return pa.table({"key": keys.ravel(), "id": np.repeat(rows["id"].to_numpy(), keys.shape[1])})


def pairs_in(bucket: pa.Table) -> pa.Table:
    """Return the candidate pairs of one bucket."""
    ids = sorted(bucket["id"].to_pylist())
    pairs = [(first, second) for index, first in enumerate(ids) for second in ids[: min(index, MAX_COMPARED)]]
    return pa.table([[first for first, _ in pairs], [second for _, second in pairs], [None] * len(pairs)], TRAVELLING)


def with_set(group: pa.Table) -> pa.Table:
    """Return the pairs of one row swapped, so that each belongs to the partner and carries this row's set."""
    rows = group.to_pylist()
    own = next(row["set"] for row in rows if row["partner"] is None)
    partners = sorted({row["partner"] for row in rows} - {None})
    return pa.table([partners, [rows[0]["id"]] * len(partners), [own] * len(partners)], TRAVELLING)


def compared(group: pa.Table) -> pa.Table:
    """Return those pairs of one row that reach the threshold; each pair in the group carries its partner's set."""
    rows = group.to_pylist()
    own = next(row["set"] for row in rows if row["partner"] is None)
    similarities = [
        (row["id"], row["partner"], jaccard(np.array(own, np.uint32), np.array(row["set"], np.uint32)))
        for row in rows
        if row["partner"] is not None
    ]
    similar = [pair for pair in similarities if pair[2] >= THRESHOLD]
    columns = ("one", "other", "jaccard")
    return pa.table({name: [pair[index] for pair in similar] for index, name in enumerate(columns)})


def similar_pairs(files: list[str]) -> list[tuple[str, str, float]]:
    """Return all candidate pairs at or above the threshold. This is the step that needs a cluster."""
    bands = ray.data.read_parquet(files, columns=["id", "bands"]).map_batches(exploded, batch_format="pyarrow")
    sets = ray.data.read_parquet(files, columns=["id", "shingles"]).map_batches(
        lambda rows: pa.table([rows["id"], pa.nulls(len(rows), pa.string()), rows["shingles"]], TRAVELLING),
        batch_format="pyarrow",
    )
    pairs = bands.groupby("key").map_groups(pairs_in, batch_format="pyarrow")
    swapped = sets.union(pairs).groupby("id").map_groups(with_set, batch_format="pyarrow")
    similar = sets.union(swapped).groupby("id").map_groups(compared, batch_format="pyarrow").take_all()
    return [(row["one"], row["other"], row["jaccard"]) for row in similar]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", type=Path, nargs="+", metavar="DATASET")
    parser.add_argument("--out", type=Path, required=True, help="file for the rows to remove, with their reasons")
    arguments = parser.parse_args()
    shards = [DatasetReader(folder) for folder in arguments.datasets]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.parquet" for number in range(len(shards))]
        for shard, file in zip(shards, files, strict=True):
            write_signatures(shard, file)  # in practice, this runs on the machine that has the shard
        ray.init(os.environ.get("RAY_ADDRESS", "local"), include_dashboard=False)
        ray.data.DataContext.get_current().default_hash_shuffle_parallelism = PARTITIONS
        pairs = similar_pairs([str(file) for file in files])
        places = {problem.id: (shard, row) for shard in shards for row, problem in enumerate(shard)}

        def load(id):
            shard, row = places[id]
            return shard.load(row)

        removed = list(duplicates_of_pairs(files, pairs, sources=[], load=load))
    arguments.out.write_text("".join(json.dumps(rejected_row(rejection)) + "\n" for rejection in removed))
    print(f"{len(pairs)} similar pairs, {len(removed)} rows to remove: {arguments.out}")


if __name__ == "__main__":
    main()
