import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from source_rows import FILES

from curate.dataset.output_folder import commit_output, find_finished_manifest, open_work_folder
from curate.errors import CurateError
from curate.json_records import to_json
from curate.manifest import Manifest, Plan
from curate.problem import Rejection
from curate.work import create_work_file, has_records

PLAN = Plan("1", {}, {"min_tests": 5})
OTHER = Plan("1", {}, {"min_tests": 6})


def manifest(plan):
    return Manifest(plan, "c0ffee", {})


def complete(out, plan=PLAN):
    with open_work_folder(out, plan, overwrite=True) as work:
        for name in ("data", "evidence", "rejected"):
            (work / "final" / name).mkdir(parents=True)
            (work / "final" / name / "train.parquet").write_text(json.dumps(to_json(plan)))
        for name in ("README.md", "report.json", "report.html", "digests.parquet"):
            (work / "final" / name).write_text(name)
        return commit_output(work, out, manifest(plan))


def test_a_finished_folder_is_recognised_by_its_plan(tmp_path):
    out = tmp_path / "out"
    assert find_finished_manifest(out, PLAN, overwrite=False) is None
    published = complete(out)
    assert find_finished_manifest(out, PLAN, overwrite=False) == published
    assert [file.name for file in published.files] == [
        "data/train.parquet",
        "rejected/train.parquet",
        "evidence/train.parquet",
        "digests.parquet",
    ]
    assert {path.name for path in out.iterdir()} == FILES


def test_another_plan_is_refused_and_the_difference_named(tmp_path):
    complete(tmp_path)
    with pytest.raises(CurateError, match=r"min_tests was 5, now 6.*--overwrite"):
        find_finished_manifest(tmp_path, OTHER, overwrite=False)
    assert find_finished_manifest(tmp_path, OTHER, overwrite=True) is None


def work_file(work):
    return work / "shards" / "00000" / "rows.sqlite"


def keep_record(work):
    """Keep the result of an execution, as a build does."""
    with create_work_file(work_file(work).parent) as new:
        new.add(Rejection("taco/0", "taco", "parse", "unparsable"))
    with closing(sqlite3.connect(work_file(work), isolation_level=None)) as file:
        file.execute("INSERT INTO record VALUES (0, 'verify', 'key', '{}')")


def test_an_unfinished_build_of_an_older_version_starts_again(tmp_path):
    with open_work_folder(tmp_path, PLAN, overwrite=False) as work:
        (work / "findings.jsonl").write_text("work")
    older = pytest.raises(CurateError, match="older version. Add --overwrite to start again")
    with older, open_work_folder(tmp_path, PLAN, overwrite=False):
        pass
    with open_work_folder(tmp_path, PLAN, overwrite=True) as work:
        assert not (work / "findings.jsonl").exists()


def test_overwriting_replaces_every_file(tmp_path):
    complete(tmp_path)
    (tmp_path / "data" / "second.parquet").write_text("")
    published = complete(tmp_path, OTHER)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["train.parquet"]
    assert find_finished_manifest(tmp_path, OTHER, overwrite=False) == published


def test_a_dataset_stays_whole_until_its_replacement_is_complete(tmp_path):
    published = complete(tmp_path)
    with open_work_folder(tmp_path, OTHER, overwrite=True) as work:
        keep_record(work)
    assert find_finished_manifest(tmp_path, PLAN, overwrite=False) == published
    assert json.loads((tmp_path / "data" / "train.parquet").read_text()) == to_json(PLAN)
    with open_work_folder(tmp_path, OTHER, overwrite=True) as work:
        assert has_records(work_file(work))


def test_files_that_other_commands_added_are_removed_with_their_dataset(tmp_path):
    complete(tmp_path)
    for name in ("contamination", "difficulty"):
        (tmp_path / name).mkdir()
    complete(tmp_path, OTHER)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)


def test_the_samples_of_a_model_outlive_the_dataset_they_were_drawn_for(tmp_path):
    complete(tmp_path)
    (tmp_path / "difficulty" / ".work").mkdir(parents=True)
    (tmp_path / "difficulty" / ".work" / "model.jsonl").write_text("samples")
    (tmp_path / "difficulty" / "train.parquet").write_text("solve rates")
    complete(tmp_path, OTHER)
    assert not (tmp_path / "difficulty" / "train.parquet").exists()
    assert (tmp_path / "difficulty" / ".work" / "model.jsonl").read_text() == "samples"


def test_foreign_files_are_never_touched(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(CurateError, match="--out"):
            find_finished_manifest(tmp_path, PLAN, overwrite=overwrite)
    for text in ("{}", '{"plan": {}}', '{"plan": {"configuration": []}}', "[]", "{"):
        (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(CurateError, match="--out"):
            find_finished_manifest(tmp_path, PLAN, overwrite=True)


def test_an_unfinished_build_is_continued_only_by_its_own_plan(tmp_path):
    with open_work_folder(tmp_path, PLAN, overwrite=False) as work:
        keep_record(work)
    assert find_finished_manifest(tmp_path, PLAN, overwrite=False) is None
    with open_work_folder(tmp_path, PLAN, overwrite=False) as work:
        assert has_records(work_file(work))
    with pytest.raises(CurateError, match="min_tests"), open_work_folder(tmp_path, OTHER, overwrite=False):
        pass
    with open_work_folder(tmp_path, OTHER, overwrite=True) as work:
        assert not work_file(work).exists()


def test_an_unfinished_plan_that_executed_nothing_may_be_replaced(tmp_path):
    with open_work_folder(tmp_path, PLAN, overwrite=False) as work, create_work_file(work_file(work).parent):
        pass
    with open_work_folder(tmp_path, OTHER, overwrite=False):
        pass


@pytest.mark.parametrize("text", ["{", "[3]", "\0"])
def test_a_work_folder_without_a_readable_plan_is_not_continued(tmp_path, text):
    with open_work_folder(tmp_path, PLAN, overwrite=False) as work:
        keep_record(work)
        (work / "plan.json").write_text(text)
    with pytest.raises(CurateError, match="--overwrite"), open_work_folder(tmp_path, PLAN, overwrite=False):
        pass


def test_two_builds_do_not_write_to_one_folder(tmp_path):
    with (
        open_work_folder(tmp_path, PLAN, overwrite=False),
        pytest.raises(CurateError, match="another command is writing to .*. Wait for it, or choose another --out"),
        open_work_folder(tmp_path, PLAN, overwrite=False),
    ):
        pass


def test_a_build_that_another_command_has_finished_meanwhile_is_not_repeated(tmp_path):
    assert find_finished_manifest(tmp_path, PLAN, overwrite=False) is None
    (tmp_path / "manifest.json").write_text("{}")
    with (
        pytest.raises(CurateError, match="just finished .* same command"),
        open_work_folder(tmp_path, PLAN, overwrite=False),
    ):
        pass


def test_a_folder_that_cannot_be_created_is_named(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for out in (tmp_path / "loop", tmp_path / "loop" / "out", Path("/proc/nowhere")):
        with pytest.raises(CurateError, match="cannot be written to .* Choose another --out"):
            open_work_folder(out, PLAN, overwrite=False).__enter__()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(CurateError, match="is a file"):
        find_finished_manifest(tmp_path / "out", PLAN, overwrite=False)
