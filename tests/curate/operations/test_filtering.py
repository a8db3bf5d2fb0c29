import json
import os
import shutil

import datasets
import pytest
from curate_command import curate
from solve_rates import write_solve_rates
from source_rows import livecodebench_row, read_parquet, taco_row, words, write_jsonl, write_parquet

from curate.dataset.output_folder import read_manifest
from curate.decontamination.clean_copy import write_clean_copy
from curate.difficulty import table as solve_rates
from curate.difficulty.band import SolveRateBand, filter_by_solve_rate
from curate.errors import CurateError
from curate.operations.row_filter import write_filtered
from curate.pipeline import BuildOptions, build

TESTS = [(f"{n}\n", f"{n}\n") for n in range(12)]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return a build of eight rows of LiveCodeBench, with 5 to 12 tests, and two verified rows of TACO."""
    folder = tmp_path_factory.mktemp("built")
    rows = [livecodebench_row(str(n), words(n), TESTS[: n + 5], question_title=f"Title {n}") for n in range(8)]
    taco = [taco_row(words(f"taco {n}"), date="2021-02-23") for n in range(2)]
    sources = [
        ("livecodebench", str(write_jsonl(folder / "raw" / "test.jsonl", rows))),
        ("taco", str(write_parquet(folder / "taco" / "train.parquet", taco))),
    ]
    build(sources, folder / "out", BuildOptions(mutants=4, cross_checks=0))
    return folder / "out"


@pytest.fixture
def dataset(built, tmp_path):
    return shutil.copytree(built, tmp_path / "dataset")


def kept(folder):
    return [row["id"] for row in read_parquet(folder / "data")]


def test_rows_that_fulfil_every_condition_stay_as_they_are(dataset, tmp_path):
    out = tmp_path / "out"
    manifest, _ = write_filtered(dataset, ["n_tests >= 7", "source == 'taco' or n_tests < 11"], out)
    assert kept(out) == [f"livecodebench/{n}" for n in (2, 3, 4, 5)]
    assert read_parquet(out / "data") == [row for row in read_parquet(dataset / "data") if row["id"] in kept(out)]
    assert {row["id"]: (row["stage"], row["reason"], row["detail"]) for row in read_parquet(out / "rejected")} == {
        **{f"livecodebench/{n}": ("filter", "not_matching", "n_tests >= 7") for n in (0, 1)},
        **{f"livecodebench/{n}": ("filter", "not_matching", "source == 'taco' or n_tests < 11") for n in (6, 7)},
        **{f"taco/{n}": ("filter", "not_matching", "n_tests >= 7") for n in (0, 1)},
    }
    assert manifest.counts["livecodebench"].rejected == {"filter": {"not_matching": 4}}
    assert manifest == read_manifest(out)


def test_rows_for_which_the_answer_is_not_known_do_not_stay_and_are_counted(dataset, tmp_path):
    _, outcome = write_filtered(dataset, ["test_strength >= 0"], tmp_path / "out")
    assert kept(tmp_path / "out") == ["taco/0", "taco/1"]
    assert outcome.condition_counts == {"test_strength >= 0": {True: 2, None: 8}}
    assert {row["reason"] for row in read_parquet(tmp_path / "out" / "rejected")} == {"unknown"}


def test_the_manifest_and_the_card_say_what_was_done(dataset, tmp_path):
    out = tmp_path / "out"
    manifest, _ = write_filtered(dataset, ["verified"], out)
    before = read_manifest(dataset)
    (step,) = manifest.plan.steps
    assert (step.step, step.parent_content_hash, step.options) == (
        "filter",
        before.content_hash,
        {"where": ["verified"]},
    )
    assert manifest.content_hash != before.content_hash
    card = (out / "README.md").read_text()
    assert "- Filtered: only rows that fulfil all of these conditions: `verified`." in card
    assert manifest.content_hash in card
    read = datasets.load_dataset(str(out), "rejected", split="train", cache_dir=str(tmp_path / "cache"))
    assert len(read) == 8


def test_solve_rates_and_contamination_go_with_the_rows(dataset, tmp_path):
    evaluation = write_jsonl(tmp_path / "eval.jsonl", [{"task_id": "E", "prompt": words(3)}])
    write_clean_copy(str(dataset), [f"humaneval={evaluation}"], tmp_path / "clean")
    write_solve_rates(tmp_path / "clean", "m", {id: number % 9 for number, id in enumerate(kept(tmp_path / "clean"))})
    filter_by_solve_rate(tmp_path / "clean", tmp_path / "band", SolveRateBand(0.125, 1), [])
    out = tmp_path / "out"
    manifest, _ = write_filtered(tmp_path / "band", ["solve_rate('m') between 0.25 and 0.5"], out)
    assert kept(out) == ["livecodebench/2", "livecodebench/4", "livecodebench/5"]
    rates = {row["id"].rpartition("/")[2]: row["n_correct"] for row in solve_rates.read(out)}
    assert rates == {"0": 0, "2": 2, "4": 3, "5": 4}  # 0 was removed by the band, which keeps all rates
    assert [hit["id"] for hit in read_parquet(out / "contamination")] == ["livecodebench/3"]
    assert manifest.decontamination["humaneval"].removed == 1
    assert manifest.solve_rate is not None
    assert [row["stage"] for row in read_parquet(out / "rejected")].count("decontaminate") == 1
    for config in ("difficulty", "contamination"):
        assert datasets.load_dataset(str(out), config, split="train", cache_dir=str(tmp_path / "cache"))


def test_the_same_filter_again_changes_nothing_and_another_one_is_refused(dataset, tmp_path):
    out = tmp_path / "out"
    first, _ = write_filtered(dataset, ["n_tests > 6"], out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert write_filtered(dataset, ["n_tests > 6"], out)[0] == first
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    with pytest.raises(CurateError, match="made from another plan"):
        write_filtered(dataset, ["n_tests > 7"], out)
    write_filtered(dataset, ["n_tests > 7"], out, overwrite=True)
    assert len(kept(out)) == 5


def test_new_solve_rates_make_another_plan(dataset, tmp_path):
    write_solve_rates(dataset, "m", {f"livecodebench/{n}": n for n in range(8)})
    write_filtered(dataset, ["solve_rate() > 0.5"], tmp_path / "out")
    write_solve_rates(dataset, "m", {"livecodebench/1": 8})
    with pytest.raises(CurateError, match="made from another plan"):
        write_filtered(dataset, ["solve_rate() > 0.5"], tmp_path / "out")


def test_filters_follow_each_other(dataset, tmp_path):
    write_filtered(dataset, ["n_tests > 6"], tmp_path / "one")
    manifest, _ = write_filtered(tmp_path / "one", ["n_tests < 9"], tmp_path / "two")
    assert kept(tmp_path / "two") == ["livecodebench/2", "livecodebench/3"]
    assert [step.options["where"] for step in manifest.plan.steps] == [["n_tests > 6"], ["n_tests < 9"]]
    assert manifest.n_read == 10


def test_the_command_counts_and_writes(dataset, tmp_path):
    dry = curate("filter", dataset, "--where", "verified", "--where", "test_strength > 2", "--dry-run", check=True)
    assert [line.split() for line in dry.stdout.splitlines()] == [
        ["true", "false", "unknown", "condition"],
        ["2", "8", "0", "verified"],
        ["0", "2", "8", "test_strength", ">", "2"],
        ["0", "of", "10", "rows", "remain"],
    ]
    written = curate("filter", dataset, "--where", "verified", "--out", tmp_path / "out", check=True)
    assert f"2 problems in {tmp_path / 'out'}" in written.stdout
    assert written.stdout.splitlines()[-1] == f"content hash {read_manifest(tmp_path / 'out').content_hash}"
    nothing = curate("filter", dataset, "--where", "n_tests > 99", "--out", tmp_path / "nothing")
    assert nothing.exit_code == 1
    assert read_manifest(tmp_path / "nothing").n_kept == 0


def test_the_output_is_a_dataset_for_the_other_commands(dataset, tmp_path):
    out = tmp_path / "out"
    write_filtered(dataset, ["verified"], out)
    assert "  filter  not_matching" in curate("stats", out).stdout
    assert "not_matching" in curate("inspect", out, "livecodebench/1").stdout
    differing = curate("diff", dataset, out)
    assert differing.exit_code == 1
    assert "kept  filter not_matching     8" in differing.stdout
    exported = curate("export", out, "--to", "trl", "--out", tmp_path / "trl")
    assert exported.stdout.startswith("2 of 2 problems")
    assert curate("push", out, "me/mine", "--dry-run").exit_code == 0


def test_mistakes_are_explained_before_anything_is_written(dataset, tmp_path):
    out = tmp_path / "out"
    mistyped = curate("filter", dataset, "--where", "test_strenght > 1", "--out", out)
    assert mistyped.exit_code == 1
    assert "column 1: unknown name test_strenght. Did you mean test_strength?" in mistyped.stderr
    assert curate("filter", dataset, "--where", "verified").exit_code == 2
    assert "n_tests" in curate("filter", dataset, "--where", "solve_rate('m') > n_tests", "--dry-run").stderr
    assert "not a curate dataset" in curate("filter", tmp_path, "--where", "verified", "--out", out).stderr
    assert "Choose another --out" in curate("filter", dataset, "--where", "verified", "--out", dataset / "x").stderr
    assert not out.exists()
    (tmp_path / "begun" / ".work").mkdir(parents=True)
    assert "is not finished" in curate("filter", tmp_path / "begun", "--where", "verified", "--out", out).stderr
    foreign = write_jsonl(tmp_path / "rows.jsonl", [{"text": words(1)}])
    evaluation = write_jsonl(tmp_path / "eval.jsonl", [{"text": words(2)}])
    write_clean_copy(str(foreign), [f"a={evaluation}"], tmp_path / "foreign")
    assert (
        "did not build this dataset"
        in curate("filter", tmp_path / "foreign", "--where", "verified", "--out", out).stderr
    )


def test_a_damaged_dataset_is_named(dataset, tmp_path):
    (file,) = (dataset / "data").iterdir()
    os.truncate(file, 1000)
    result = curate("filter", dataset, "--where", "verified", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert f"{file}: " in result.stderr


def test_a_filter_that_was_killed_starts_again(dataset, tmp_path):
    out = tmp_path / "out"
    write_filtered(dataset, ["verified"], out)
    content = json.loads((out / "manifest.json").read_text())["content_hash"]
    shutil.rmtree(out / "data")
    (out / "manifest.json").unlink()
    (out / ".work" / "final" / "data").mkdir(parents=True)
    assert write_filtered(dataset, ["verified"], out)[0].content_hash == content
    assert not (out / ".work").exists()
