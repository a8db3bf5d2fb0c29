"""The sample that ships with the repository gives the dataset that its authors describe."""

import json
from pathlib import Path

from source_rows import read_parquet

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_sample_dataset_comes_out_as_expected(demo):
    kept = {row["id"] for row in read_parquet(demo / "data")}
    rejected = {row["id"]: row for row in read_parquet(demo / "rejected")}
    lines = (EXAMPLES / "expected.jsonl").read_text().splitlines()
    expected = {row["id"]: row for row in map(json.loads, lines)}
    assert {id for id, row in expected.items() if row["expect"] == "keep"} == kept
    assert {id: row["reason"] for id, row in expected.items() if row["expect"] == "reject"} == {
        id: row["reason"] for id, row in rejected.items()
    }
    for id, row in expected.items():
        if row.get("duplicate_of"):
            assert f"kept={row['duplicate_of']} " in rejected[id]["detail"]
