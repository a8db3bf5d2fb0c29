import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from datasketch import MinHash
from source_rows import words

from curate.dataset import writer
from curate.dedup.distributed import duplicates_of_pairs, write_signatures
from curate.dedup.duplicates import find_duplicates
from curate.dedup.shingles import jaccard
from curate.dedup.sketches import Sketches
from curate.problem import Problem, to_row
from sandbox import Case, Suite

ROOT = Path(__file__).parents[3]
SOURCES = ["taco", "apps"]


def problems():
    """Return forty statements with three variants each; some are worth more, some are equal, some are in a series."""
    rng = random.Random(0)
    created = []
    for seed in range(40):
        text = words(seed, 70).split()
        for number, share in enumerate((0, 0, 0.02, 0.05)):
            suite = Suite([Case(str(n), str(n)) for n in range(rng.randint(4, 6))])
            changed = " ".join("other" if rng.random() < share else word for word in text)
            problem = Problem(f"{rng.choice(SOURCES)}/{seed}-{number}", "", changed, suite, (), "")
            title = f"Sum {'I' * rng.randint(1, 2)}" if seed % 5 == 0 else ""
            source = problem.id.partition("/")[0]
            created.append(replace(problem, source=source, title=title, verified=rng.random() < 0.7))
    return created


@pytest.fixture
def shards(tmp_path):
    created = problems()
    for number in range(2):
        rows = sorted(created[number::2], key=lambda problem: problem.id)
        writer.write(map(to_row, rows), [], tmp_path / str(number))
    return [tmp_path / "0", tmp_path / "1"]


def on_one_machine():
    by_id = {problem.id: problem for problem in problems()}
    with Sketches(by_id.values(), []) as sketches:
        return list(find_duplicates(sketches, threshold=0.7, load=by_id.__getitem__))


def test_a_file_of_signatures_holds_what_a_cluster_needs(tmp_path):
    created = problems()
    write_signatures(created, tmp_path / "a.parquet")
    rows = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert [row["id"] for row in rows] == [problem.id for problem in created]
    first = rows[0]
    (theirs,) = MinHash.bulk([first["shingles"]], num_perm=128, hashfunc=int)
    assert first["signature"] == theirs.hashvalues.tolist()
    assert first["shingles"] == sorted(set(first["shingles"]))
    assert (first["verified"], first["n_tests"]) == (created[0].verified, len(created[0].tests.cases))
    assert rows[0]["digest"] == rows[1]["digest"] != rows[4]["digest"]
    assert set(rows[0]["bands"]) == set(rows[1]["bands"])
    assert not set(rows[0]["bands"]) & set(rows[4]["bands"])


def test_pairs_found_elsewhere_remove_the_same_rows(tmp_path):
    by_id = {problem.id: problem for problem in problems()}
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for number, file in enumerate(files):
        write_signatures(list(by_id.values())[number::2], file)
    sets = {
        row["id"]: np.array(row["shingles"], dtype=np.uint32)
        for file in files
        for row in pq.read_table(file).to_pylist()
    }
    all_pairs = ((one, other, jaccard(sets[one], sets[other])) for one, other in combinations(sets, 2))
    pairs = [pair for pair in all_pairs if pair[2] >= 0.7]
    rejections = list(duplicates_of_pairs(files, pairs, [], load=by_id.__getitem__))
    assert rejections == on_one_machine()
    assert {rejection.reason for rejection in rejections} == {"duplicate_exact", "duplicate_near"}
    named = {rejection.id for rejection in duplicates_of_pairs(files, pairs, ["taco", "apps"], load=by_id.__getitem__)}
    assert named != {rejection.id for rejection in rejections}


def test_no_rows_make_an_empty_file(tmp_path):
    write_signatures([], tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").num_rows == 0
    assert list(duplicates_of_pairs([tmp_path / "a.parquet"], [], [], load=lambda id: None)) == []


@pytest.fixture
def patient(monkeypatch):
    """Let Ray wait longer for a silent node. Its default is half a minute, which is too short for a busy machine."""
    monkeypatch.setenv("RAY_health_check_timeout_ms", "120000")


@pytest.mark.thorough
def test_the_example_on_ray_removes_what_one_machine_removes(patient, request, shards, tmp_path):
    ray_cluster = request.getfixturevalue("ray_cluster")  # it starts with the environment as it is now
    for _ in range(2):
        ray_cluster.add_node()
    out = tmp_path / "removed.jsonl"
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "dedup_on_ray.py", *shards, "--out", out],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "RAY_ADDRESS": ray_cluster.address},
    )
    assert done.returncode == 0, done.stderr
    removed = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["id"], row["detail"]) for row in removed] == [(r.id, r.detail) for r in on_one_machine()]
