import json

import pyarrow.parquet as pq
from source_rows import words

from curate import BuildOptions, build
from sandbox import SandboxOptions

OPTIONS = BuildOptions(mutants=0, cross_checks=0)
FIELDS = {name: name for name in ("id", "statement", "inputs", "outputs", "solutions")}


def row(id, statement, n_tests=5, *, solved=True):
    tests = [f"{n}" for n in range(1, n_tests + 1)]
    solutions = ["print(input())"] if solved else None
    return {"id": id, "statement": statement, "inputs": tests, "outputs": tests, "solutions": solutions}


def changed(text):
    return " ".join([*text.split()[:-2], "zz", "zz"])


def test_the_verified_copy_stays_then_that_with_most_tests_then_that_of_the_first_source_then_the_first_id(tmp_path):
    first = [row("9", words(1), 9), row("2", words(2)), row("4", changed(words(3))), row("3", words(3))]
    second = [row("1", changed(words(1)), 6), row("2", words(1), 10), row("0", changed(words(2)))]
    second += [row("7", words(4)), row("8", words(4), 9, solved=False)]
    sources = []
    for name, rows in (("one", first), ("another", second)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(of_source) + "\n" for of_source in rows))
        sources.append((name, {"location": str(path), "fields": FIELDS}))
    build(sources, tmp_path / "out", OPTIONS, sandbox=SandboxOptions(workers=1))
    ids = pq.read_table(tmp_path / "out" / "data").column("id").to_pylist()
    assert ids == ["another/2", "another/7", "one/2", "one/3"]
