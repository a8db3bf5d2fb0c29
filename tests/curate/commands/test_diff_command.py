import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import showcase
from curate_command import curate
from source_rows import read_parquet, taco_row, words, write_parquet

from curate.dataset.dataset import Dataset
from curate.dataset.diff import ABSENT, CHANGED, KEPT, diff_datasets
from curate.pipeline import BuildOptions, build


def compared(old, new):
    return diff_datasets(Dataset.open(old), Dataset.open(new))


def edited(folder, change):
    """Change the rows of a copy, and so its content hash."""
    (path,) = (folder / "data").glob("*.parquet")
    table = pq.read_table(path)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"content_hash": "another"}))
    return folder


@pytest.fixture(scope="module")
def stricter(tmp_path_factory):
    """Return a build of these sources with one more problem, one problem without its tests, and a higher threshold."""
    folder = tmp_path_factory.mktemp("stricter")
    locations = showcase.write(folder)
    path = folder / "taco" / "train.parquet"
    rows = read_parquet(path)
    rows[7] |= {"input_output": "{"}
    rows[8] |= {"solutions": json.dumps(["a, b = map(int, input().split())\nprint(a + b)"])}
    write_parquet(path, [*rows, taco_row(words("new"))])
    build(locations, folder / "out", BuildOptions(mutants=0, cross_checks=0, dedup=0.88))
    return folder / "out"


def test_a_build_does_not_differ_from_itself(showcase_build):
    result = curate("diff", showcase_build, showcase_build, check=True)
    assert result.stdout.startswith("Same content: ")


def test_measured_values_do_not_count_as_differences(showcase_build, tmp_path):
    def slower(rows):
        for row in rows:
            row["cpu_seconds"] = 1.0

    copy = edited(shutil.copytree(showcase_build, tmp_path / "copy"), slower)
    difference = compared(showcase_build, copy)
    assert difference.fates == {}
    assert difference.columns == {}


def test_rows_are_grouped_by_what_became_of_them(showcase_build, stricter):
    result = curate("diff", showcase_build, stricter)
    assert result.exit_code == 1
    difference = compared(showcase_build, stricter)
    assert not difference.same_content
    fates = {fate: (group.n, group.examples) for fate, group in difference.fates.items()}
    assert fates[KEPT, "parse unparsable"] == (1, ("taco/7",))
    assert fates[ABSENT, KEPT] == (1, ("taco/17",))
    assert fates[KEPT, CHANGED][1] == ("taco/8",)
    stays = fates["dedup duplicate_near", KEPT]
    assert "synthetic1/t9" in [row["id"] for row in read_parquet(stricter / "data")]
    assert stays[0] > 3
    assert len(stays[1]) == 3
    assert {"solutions", "reference"} <= difference.columns.keys()
    assert difference.columns["reference"].examples == ("taco/8",)


def test_options_inputs_and_counts_that_differ_are_named(showcase_build, stricter):
    difference = compared(showcase_build, stricter)
    assert ("dedup", "0.7", "0.88") in difference.plan_changes
    assert ("mutants", "4", "0") in difference.plan_changes
    assert [name for name, _, _ in difference.input_changes] == ["taco train.parquet"]
    assert ("taco read", "17", "18") in difference.count_changes
    assert ("taco parse unparsable", "", "1") in difference.count_changes
    output = curate("diff", showcase_build, stricter).stdout
    assert [line.split() for line in output.splitlines() if line.split()[:1] == ["dedup"]][0] == [
        "dedup",
        "0.7",
        "0.88",
    ]


def test_every_column_that_changed_is_counted(showcase_build, tmp_path):
    def change(rows):
        rows[0]["title"] = "another"
        rows[1]["title"] = "another"
        rows[1]["tags"] = ["another"]
        del rows[2]

    difference = compared(showcase_build, edited(shutil.copytree(showcase_build, tmp_path / "copy"), change))
    assert {name: group.n for name, group in difference.columns.items()} == {"title": 2, "tags": 1}
    assert {fate: group.n for fate, group in difference.fates.items()} == {(KEPT, CHANGED): 2, (KEPT, ABSENT): 1}


def test_columns_of_only_one_dataset_are_named_and_not_compared(showcase_build, tmp_path):
    copy = edited(shutil.copytree(showcase_build, tmp_path / "copy"), lambda rows: None)
    (path,) = (copy / "data").glob("*.parquet")
    pq.write_table(pq.read_table(path).drop_columns(["licence"]), path)
    difference = compared(showcase_build, copy)
    assert (difference.only_old, difference.only_new, difference.fates) == (("licence",), (), {})
    assert "Only the first dataset has the columns licence" in curate("diff", showcase_build, copy).stdout


def test_a_column_may_have_any_name(showcase_build, tmp_path):
    for name in ("old", "new"):
        copy = edited(shutil.copytree(showcase_build, tmp_path / name), lambda rows: None)
        (path,) = (copy / "data").glob("*.parquet")
        table = pq.read_table(path)
        pq.write_table(table.append_column("a\"'{}b", pa.array([name] * len(table))), path)
        manifest = json.loads((copy / "manifest.json").read_text())
        (copy / "manifest.json").write_text(json.dumps(manifest | {"content_hash": name}))
    difference = compared(tmp_path / "old", tmp_path / "new")
    assert difference.columns["a\"'{}b"].n == len(pq.read_table(showcase_build / "data"))


def test_datasets_that_cannot_be_compared_have_an_exit_status_of_their_own(showcase_build, tmp_path):
    result = curate("diff", showcase_build, tmp_path)
    assert result.exit_code == 2
    assert "is not a curate dataset" in result.stderr


def test_the_order_of_rows_in_a_file_does_not_matter(showcase_build, tmp_path):
    copy = edited(shutil.copytree(showcase_build, tmp_path / "copy"), lambda rows: rows.reverse())
    assert compared(showcase_build, copy).fates == {}
