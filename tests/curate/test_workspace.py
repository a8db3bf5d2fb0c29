import json

import pytest

from curate.errors import CurateError
from curate.workspace import PARTS, finished, opened, publish

PLAN = {"curate": "1", "inputs": {}, "configuration": {"min_tests": 5}}
OTHER = {"curate": "1", "inputs": {}, "configuration": {"min_tests": 6}}


def complete(out, plan=PLAN):
    with opened(out, plan, overwrite=False) as work:
        for name in ("data", "rejected"):
            (work / "final" / name).mkdir(parents=True)
            (work / "final" / name / "train.parquet").write_text(json.dumps(plan))
        for name in ("README.md", "report.json", "report.html"):
            (work / "final" / name).write_text(name)
        publish(work, out, {"plan": plan})


def test_a_finished_folder_is_recognised_by_its_plan(tmp_path):
    out = tmp_path / "out"
    assert finished(out, PLAN, overwrite=False) is None
    complete(out)
    assert finished(out, PLAN, overwrite=False) == {"plan": PLAN}
    assert {path.name for path in out.iterdir()} == {*PARTS, "manifest.json"}


def test_another_plan_is_refused_and_the_difference_named(tmp_path):
    complete(tmp_path)
    with pytest.raises(CurateError, match=r"min_tests was 5, now 6.*--overwrite"):
        finished(tmp_path, OTHER, overwrite=False)
    assert finished(tmp_path, OTHER, overwrite=True) is None


def test_overwriting_replaces_every_file(tmp_path):
    complete(tmp_path)
    (tmp_path / "data" / "second.parquet").write_text("")
    complete(tmp_path, OTHER)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["train.parquet"]
    assert finished(tmp_path, OTHER, overwrite=False) == {"plan": OTHER}


def test_foreign_files_are_never_touched(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(CurateError, match="--out"):
            finished(tmp_path, PLAN, overwrite=overwrite)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(CurateError, match="--out"):
        finished(tmp_path, PLAN, overwrite=True)


def test_an_unfinished_build_is_continued_by_its_own_plan_only(tmp_path):
    with opened(tmp_path, PLAN, overwrite=False) as work:
        (work / "findings.jsonl").write_text("work")
    assert finished(tmp_path, PLAN, overwrite=False) is None
    with opened(tmp_path, PLAN, overwrite=False) as work:
        assert (work / "findings.jsonl").read_text() == "work"
    with pytest.raises(CurateError, match="min_tests"), opened(tmp_path, OTHER, overwrite=False):
        pass
    with opened(tmp_path, OTHER, overwrite=True) as work:
        assert not (work / "findings.jsonl").exists()


def test_two_builds_do_not_write_to_one_folder(tmp_path):
    with (
        opened(tmp_path, PLAN, overwrite=False),
        pytest.raises(CurateError, match="another build"),
        opened(tmp_path, PLAN, overwrite=False),
    ):
        pass


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(CurateError, match="is a file"):
        finished(tmp_path / "out", PLAN, overwrite=False)
