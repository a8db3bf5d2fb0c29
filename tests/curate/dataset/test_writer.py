import datasets
import pyarrow.parquet as pq
import pytest
from exported import write_tables
from source_rows import read_parquet

from curate.dataset import writer
from curate.dataset.digests import RowHasher
from curate.problem import COLUMNS, Problem, Rejection, from_row, to_row
from sandbox import Case, Program, Suite


def problem(n, **changes):
    suite = Suite([Case(f"{n}\n", "ü\n")], entry_point="f", checker="exact")
    return Problem(
        f"taco/{n:03}",
        "taco",
        f"Statement {n}",
        suite,
        solutions=(Program("a"), Program("b", "cpp")),
        licence="x",
        **changes,
    )


REJECTIONS = [Rejection("taco/9", "taco", "parse", "unparsable", "no JSON")]


def test_a_problem_survives_being_written_as_a_row():
    for whole in (problem(1, tags=("a",), verified=True, reference=Program("b", "cpp"), cpu_seconds=0.5), problem(2)):
        assert from_row(to_row(whole)) == whole
        assert list(to_row(whole)) == list(COLUMNS)


def test_written_files_open_with_datasets(tmp_path):
    folder = tmp_path / "out"
    write_tables(map(to_row, [problem(1), problem(2)]), REJECTIONS, folder)
    kept = datasets.load_dataset("parquet", data_dir=str(folder / "data"), cache_dir=str(tmp_path / "cache"))["train"]
    assert [from_row(row) for row in kept] == [problem(1), problem(2)]
    rejected = read_parquet(folder / "rejected")
    assert rejected == [
        {"id": "taco/9", "source": "taco", "stage": "parse", "reason": "unparsable", "detail": "no JSON", "cause": ""}
    ]


def test_an_empty_dataset_still_has_files_with_columns(tmp_path):
    write_tables([], [], tmp_path)
    table = pq.read_table(tmp_path / "data")
    assert (table.num_rows, table.column_names) == (0, list(COLUMNS))


def test_row_groups_and_files_have_a_largest_size(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "ROW_GROUP_BYTES", 1000)
    monkeypatch.setattr(writer, "FILE_BYTES", 5000)
    write_tables((to_row(problem(n)) for n in range(100)), [], tmp_path)
    files = sorted((tmp_path / "data").iterdir())
    assert len(files) > 1
    assert files[0].name == f"train-00000-of-{len(files):05}.parquet"
    assert pq.ParquetFile(files[0]).metadata.num_row_groups > 1
    assert pq.read_table(tmp_path / "data").column("id").to_pylist() == [f"taco/{n:03}" for n in range(100)]


def test_a_table_merged_of_sorted_parts_is_the_table_written_in_one_go(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "ROW_GROUP_ROWS", 7)
    monkeypatch.setattr(writer, "FILE_BYTES", 5000)
    rows = [to_row(problem(n, tags=("a",) * (n % 3), cpu_seconds=n / 8 if n % 2 else None)) for n in range(100)]
    hasher = write_tables(rows, [], tmp_path / "whole")
    parts = []
    for name, part in (("even", rows[:60:2]), ("odd", rows[1:60:2]), ("last", rows[60:]), ("empty", [])):
        parts.append(tmp_path / name)
        writer.write_part(part, COLUMNS, parts[-1], table="data")
    merged = RowHasher()
    assert sum(writer.merge_parts(parts, ("id",), COLUMNS, tmp_path / "merged" / "data", merged)) == 100
    assert contents(tmp_path / "merged" / "data") == contents(tmp_path / "whole" / "data")
    assert merged.content_hash == hasher.content_hash
    assert merged.reward_hash == hasher.reward_hash
    assert list(merged.digests) == list(hasher.digests)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_content_hash_covers_rows_and_rejections_but_nothing_measured(tmp_path):
    def content_hash(problems, rejections=REJECTIONS):
        return write_tables(
            map(to_row, problems), rejections, tmp_path / str(len(list(tmp_path.iterdir())))
        ).content_hash

    plain = content_hash([problem(1)])
    assert content_hash([problem(1, cpu_seconds=1.5)]) == plain
    assert content_hash([problem(1, verified=True)]) != plain
    assert content_hash([problem(1)], []) != plain


def test_the_reward_hash_covers_rows_alone_and_a_column_that_a_row_lacks_counts_as_absent():
    def reward_hash(row):
        hasher = RowHasher()
        hasher.add(row, "data")
        hasher.add({"id": "taco/9"}, "rejected")
        return hasher.reward_hash

    row = to_row(problem(1, time_limit_seconds=1.0))
    lacking = {name: value for name, value in row.items() if name != "strongest_tests"}
    assert reward_hash(row) == reward_hash(row | {"title": "x", "time_limit_seconds": 1})
    assert len({reward_hash(row), reward_hash(lacking), reward_hash(row | {"strongest_tests": [1]})}) == 3
    assert reward_hash(lacking | {"title": "x"}) == reward_hash(lacking)


@pytest.mark.parametrize("column", list(COLUMNS))
def test_every_column_has_a_meaning(column):
    assert COLUMNS[column][1]
