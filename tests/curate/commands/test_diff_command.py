import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import showcase
from click.testing import CliRunner
from source_rows import taco_row, words, write_parquet

from cli import main
from curate.dataset.diff import ABSENT, CHANGED, KEPT, changes
from curate.dataset.folder import DatasetFolder
from curate.pipeline import Options, build


def invoke(*words):
    return CliRunner().invoke(main, ["diff", *map(str, words)])


def compared(old, new):
    return changes(DatasetFolder.opened(old), DatasetFolder.opened(new))


def edited(folder, change):
    """Change the rows of a copy, and its content hash with them."""
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
    """The same sources with one more problem, another one's tests gone, and a higher threshold."""
    folder = tmp_path_factory.mktemp("stricter")
    locations = showcase.write(folder)
    path = folder / "taco" / "train.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[7] |= {"input_output": "{"}
    rows[8] |= {"solutions": json.dumps(["a, b = map(int, input().split())\nprint(a + b)"])}
    write_parquet(path, [*rows, taco_row(words("new"))])
    build(locations, folder / "out", Options(mutants=0, cross_checks=0, dedup=0.88))
    return folder / "out"


def test_a_build_does_not_differ_from_itself(showcase_build):
    result = invoke(showcase_build, showcase_build)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Same content: ")


def test_what_is_measured_does_not_count(showcase_build, tmp_path):
    def slower(rows):
        for row in rows:
            row["cpu_seconds"] = 1.0

    copy = edited(shutil.copytree(showcase_build, tmp_path / "copy"), slower)
    found = compared(showcase_build, copy)
    assert found.fates == {}
    assert found.columns == {}


def test_rows_are_told_apart_by_what_became_of_them(showcase_build, stricter):
    result = invoke(showcase_build, stricter)
    assert result.exit_code == 1
    found = compared(showcase_build, stricter)
    assert not found.same
    fates = {fate: (group.n, group.examples) for fate, group in found.fates.items()}
    assert fates[KEPT, "parse unparsable"] == (1, ("taco/7",))
    assert fates[ABSENT, KEPT] == (1, ("taco/17",))
    assert fates[KEPT, CHANGED][1] == ("taco/8",)
    stays = fates["dedup duplicate_near", KEPT]
    assert "synthetic1/t9" in [row["id"] for row in pq.read_table(stricter / "data").to_pylist()]
    assert stays[0] > 3
    assert len(stays[1]) == 3
    assert {"solutions", "reference"} <= found.columns.keys()
    assert found.columns["reference"].examples == ("taco/8",)


def test_options_inputs_and_counts_that_differ_are_named(showcase_build, stricter):
    found = compared(showcase_build, stricter)
    assert ("dedup", "0.7", "0.88") in found.plan
    assert ("mutants", "4", "0") in found.plan
    assert [name for name, _, _ in found.inputs] == ["taco train.parquet"]
    assert ("taco read", "17", "18") in found.counts
    assert ("taco parse unparsable", "", "1") in found.counts
    output = invoke(showcase_build, stricter).stdout
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

    found = compared(showcase_build, edited(shutil.copytree(showcase_build, tmp_path / "copy"), change))
    assert {name: group.n for name, group in found.columns.items()} == {"title": 2, "tags": 1}
    assert {fate: group.n for fate, group in found.fates.items()} == {(KEPT, CHANGED): 2, (KEPT, ABSENT): 1}


def test_columns_that_only_one_has_are_named_and_not_compared(showcase_build, tmp_path):
    copy = edited(shutil.copytree(showcase_build, tmp_path / "copy"), lambda rows: None)
    (path,) = (copy / "data").glob("*.parquet")
    pq.write_table(pq.read_table(path).drop_columns(["licence"]), path)
    found = compared(showcase_build, copy)
    assert (found.only_old, found.only_new, found.fates) == (("licence",), (), {})
    assert "Only the first has the columns licence" in invoke(showcase_build, copy).stdout


def test_what_cannot_be_compared_has_a_status_of_its_own(showcase_build, tmp_path):
    result = invoke(showcase_build, tmp_path)
    assert result.exit_code == 2
    assert "is not a dataset of ours" in result.stderr


def test_the_order_of_rows_in_a_file_does_not_matter(showcase_build, tmp_path):
    copy = edited(shutil.copytree(showcase_build, tmp_path / "copy"), lambda rows: rows.reverse())
    assert compared(showcase_build, copy).fates == {}
