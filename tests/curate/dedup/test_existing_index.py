from dataclasses import replace

import pytest
from source_rows import words

from curate.dataset import writer
from curate.dedup.duplicates import duplicates
from curate.dedup.existing_index import Existing
from curate.dedup.sketches import Sketches
from curate.errors import CurateError
from curate.problem import Problem, to_row
from sandbox import Case, Suite

SOURCES = ["taco", "apps"]


def problem(id, statement, **changes):
    suite = Suite([Case(f"{n}", f"{n}") for n in range(5)])
    return replace(Problem(id, id.partition("/")[0], statement, suite, (), "", verified=True), **changes)


def dataset(folder, *problems):
    writer.write(map(to_row, problems), [], folder)
    return folder


def removed(existing, *problems, threshold=0.7):
    by_id = {problem.id: problem for problem in problems}
    with Sketches(problems, SOURCES) as sketches, Existing(existing) as index:
        return list(duplicates(sketches, threshold=threshold, load=by_id.__getitem__, existing=index))


def changed(text, n):
    return " ".join(text.split()[:-n] + ["zz"] * n)


def test_rows_that_the_dataset_holds_are_removed_and_name_its_row(tmp_path):
    folder = dataset(tmp_path, *(problem(f"old/{n:04}", words(n)) for n in range(600)))  # more than a row group
    found = removed(
        folder,
        problem("taco/0", words(7).upper()),
        problem("taco/1", changed(words(599), 3)),
        problem("taco/2", words("new")),
    )
    assert [(r.id, r.stage, r.reason) for r in found] == [
        ("taco/0", "dedup", "duplicate_exact"),
        ("taco/1", "dedup", "duplicate_near"),
    ]
    assert [r.detail for r in found] == [
        "cluster=old/0007 kept=old/0007 jaccard=1.000",
        "cluster=old/0599 kept=old/0599 jaccard=0.898",
    ]


def test_a_row_of_the_dataset_stays_though_the_new_one_is_worth_more(tmp_path):
    folder = dataset(tmp_path, problem("old/0", words(0), verified=False))
    assert [r.id for r in removed(folder, problem("taco/0", changed(words(0), 2)))] == ["taco/0"]


def test_new_rows_are_still_compared_with_each_other(tmp_path):
    folder = dataset(tmp_path, problem("old/0", words(0)))
    found = removed(folder, problem("taco/0", words(1)), problem("apps/0", changed(words(1), 2)))
    assert [(r.id, r.detail.split()[1]) for r in found] == [("apps/0", "kept=taco/0")]


def test_the_more_similar_of_both_is_named(tmp_path):
    text = words(0)
    folder = dataset(tmp_path, problem("old/0", changed(text, 6)))
    found = removed(folder, problem("taco/0", text), problem("apps/0", changed(text, 1)), threshold=0.85)
    assert [(r.id, r.detail.split()[1]) for r in found] == [("apps/0", "kept=taco/0")]


def test_a_part_of_a_series_in_the_dataset_takes_nothing_away(tmp_path):
    folder = dataset(tmp_path, problem("old/0", words(0), title="Sum I"))
    assert removed(folder, problem("taco/0", changed(words(0), 1), title="Sum II")) == []


def test_an_empty_dataset_takes_nothing_away(tmp_path):
    assert removed(dataset(tmp_path), problem("taco/0", words(0))) == []


def test_what_is_no_dataset_is_explained(tmp_path):
    with pytest.raises(CurateError, match="no data/\\*.parquet inside"):
        Existing(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train-00000-of-00001.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(CurateError, match="damaged"):
        Existing(tmp_path)
