"""A dataset whose rows are not those that its manifest describes is noticed, whatever was done to it."""

import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from curate_command import curate
from exported import problem, problems, write
from source_rows import read_parquet, write_jsonl

from curate.dataset.dataset import Dataset
from curate.dataset.integrity import check_integrity
from curate.decontamination.clean_copy import write_clean_copy
from sandbox import Case, Suite


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write(tmp_path_factory.mktemp("written") / "out", problems())


@pytest.fixture
def dataset(written, tmp_path):
    return shutil.copytree(written, tmp_path / "dataset")


def faults(folder, **options):
    return list(map(str, check_integrity(Dataset.open(folder), **options).faults))


def rewrite(folder, change, table="data"):
    """Replace a table by what `change` makes of its list of rows."""
    (path,) = (folder / table).glob("*.parquet")
    rows = change(read_parquet(path))
    pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(path)), path)


def with_other_answers(rows):
    for row in rows:
        row["tests"] = replace_expected(row["tests"])
    return rows


def replace_expected(tests):
    suite = Suite.from_json(tests)
    return replace(suite, cases=tuple(Case(case.input, "42") for case in suite.cases)).to_json()


def with_longer_limits(rows):
    for row in rows:
        row["slowest_cpu_seconds"] = 3.0
    return rows


def without_first_column(folder):
    (path,) = (folder / "data").glob("*.parquet")
    pq.write_table(pq.read_table(path).drop_columns(["starter_code"]), path)


def cut(folder):
    (path,) = (folder / "data").glob("*.parquet")
    path.write_bytes(path.read_bytes()[:-200])


def test_a_dataset_as_it_was_written_has_no_faults(dataset):
    assert faults(dataset) == faults(dataset, read_rows=True) == []
    found = check_integrity(Dataset.open(dataset), read_rows=True)
    assert found.n_rows == {"data": 8, "rejected": 0}
    assert found.content_hash == Dataset.open(dataset).manifest.content_hash


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(
            with_other_answers, "data: 8 rows were changed (taco/call, taco/dict, taco/none, ...)", id="changed"
        ),
        pytest.param(lambda rows: rows[1:], "data: 1 row was removed (taco/call)", id="removed"),
        pytest.param(lambda rows: [*rows, rows[0] | {"id": "x"}], "data: 1 row was added (x)", id="added"),
        pytest.param(lambda rows: [*rows, rows[0]], "data: 1 id occurs more than once (taco/call)", id="repeated"),
        pytest.param(lambda rows: rows[::-1], "data: the order of the rows was changed", id="another order"),
        pytest.param(
            with_longer_limits,
            "data: 8 rows were changed in measured columns (taco/call, taco/dict",
            id="time",
        ),
    ],
)
def test_rows_that_were_changed_removed_or_added_are_named(dataset, change, said):
    rewrite(dataset, change)
    assert any(fault.startswith(said) for fault in faults(dataset)), faults(dataset)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        pytest.param(cut, "data: cannot be read: ", id="a file that was cut"),
        pytest.param(without_first_column, "data: has no column starter_code", id="a column is missing"),
        pytest.param(lambda folder: shutil.rmtree(folder / "data"), "is not a curate dataset", id="no rows at all"),
    ],
)
def test_files_that_were_cut_are_noticed(dataset, damage, said):
    damage(dataset)
    result = curate("verify", dataset)
    assert result.exit_code == 1
    assert said in result.output


def test_without_digests_the_content_hash_still_tells(dataset):
    rewrite(dataset, with_other_answers)
    (dataset / "digests.parquet").unlink()
    assert faults(dataset)[0].startswith("data: the content hash is ")


def test_files_that_another_program_wrote_with_the_same_rows_are_no_fault(dataset):
    rewrite(dataset, lambda rows: rows)
    found = check_integrity(Dataset.open(dataset))
    assert (found.faults, found.rewritten_files) == ((), ("data/train-00000-of-00001.parquet",))


def test_other_tables_and_further_files_are_compared_too(dataset):
    shutil.copy(next((dataset / "data").iterdir()), dataset / "data" / "train-00001-of-00002.parquet")
    assert "data: 8 ids occur more than once (taco/call, taco/dict, taco/none, ...)" in faults(dataset)
    assert "data/train-00001-of-00002.parquet: the manifest does not list this file" in faults(dataset)


def test_a_dataset_that_curate_only_decontaminated_is_checked_by_its_files(tmp_path):
    mine = write_jsonl(tmp_path / "mine.jsonl", [{"id": n, "question": f"Count to {n}."} for n in range(3)])
    write_clean_copy(
        str(mine), [f"held={write_jsonl(tmp_path / 'e.jsonl', [{'question': 'Something else.'}])}"], tmp_path / "out"
    )
    assert faults(tmp_path / "out") == []
    (path,) = (tmp_path / "out" / "data").iterdir()
    path.write_text(path.read_text().replace("Count", "Cuont"))
    assert any("data/mine.jsonl: size or hash differs from the manifest" in fault for fault in faults(tmp_path / "out"))


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["export", "--to", "jsonl", "--out", "OUT"], id="export"),
        pytest.param(["push", "me/mine", "--dry-run"], id="push"),
    ],
)
def test_an_altered_dataset_is_refused_unless_it_is_included(dataset, tmp_path, words):
    rewrite(dataset, with_other_answers)
    words = [words[0], str(dataset), *(str(tmp_path / "out") if word == "OUT" else word for word in words[1:])]
    refused = curate(*words)
    assert refused.exit_code == 1
    assert "the dataset differs from manifest.json: data: 8 rows were changed" in refused.output
    assert f"`curate verify {dataset}` shows all. Pass --include altered to use the dataset anyway." in refused.output
    assert curate(*words, "--include", "altered").exit_code == 0


def test_a_copy_with_other_answers_is_not_the_same_content(written, dataset):
    rewrite(dataset, with_other_answers)
    result = curate("diff", written, dataset)
    assert result.exit_code == 1
    assert f"Warning: {dataset}: the dataset differs from manifest.json" in result.stderr
    assert "Different content: " in result.stdout
    assert "kept  kept, but changed     8" in result.stdout


def test_an_altered_dataset_is_not_copied_under_a_new_manifest(dataset, tmp_path):
    rewrite(dataset, with_other_answers)
    held = write_jsonl(tmp_path / "e.jsonl", [{"question": "Something else entirely, in a few words."}])
    words = ["decontaminate", str(dataset), "--against", f"held={held}", "--out", str(tmp_path / "out")]
    result = curate(*words)
    assert result.exit_code == 1
    assert "Build it again, or download it again." in result.output
    assert not (tmp_path / "out").exists()


def test_tests_that_cannot_be_read_are_named(tmp_path):
    folder = write(tmp_path / "out", [problem("p", Suite([Case("1", "2")]), None)])
    rewrite(folder, lambda rows: [row | {"tests": "{}"} for row in rows])
    assert "data: 1 row has tests that cannot be read (taco/p)" in faults(folder, read_rows=True)
