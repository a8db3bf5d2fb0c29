import json
import shutil

import datasets
import pytest
from source_rows import livecodebench_row, read_parquet, words, write_jsonl

from curate.decontamination.clean_copy import write_clean_copy
from curate.difficulty import table
from curate.difficulty.band import SolveRateBand, filter_by_solve_rate
from curate.errors import CurateError
from curate.manifest import from_json
from curate.pipeline import BuildOptions, build
from sandbox import SandboxOptions

SETTINGS = {"model": "m", "k": 8, "temperature": 0.6, "top_p": 0.95, "max_tokens": 99, "seed": 0}


def record(correct):
    return {"verdict": "accepted" if correct else "wrong_answer", "n_tokens": 5, "truncated": False}


def known(dataset, model, counts, n=8):
    """Record how often the model solved each problem, by number. The count is None if all runs were lost."""
    rows = [
        table.build_row(
            f"livecodebench/{number}",
            "name",
            {**SETTINGS, "model": model},
            [] if count is None else [record(place < count) for place in range(n)],
            n_sampled=n,
        )
        for number, count in counts.items()
    ]
    with table.lock_samples(dataset, model):
        table.replace_model_rows(dataset, model, rows)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    rows = [livecodebench_row(str(n), words(n), question_title=f"Title {n}") for n in range(9)]
    rows.append(livecodebench_row("9", words(0), question_title="Title 9"))
    raw = write_jsonl(folder / "raw" / "test.jsonl", rows)
    build([("livecodebench", str(raw))], folder / "out", BuildOptions(), sandbox=SandboxOptions(workers=1))
    return folder / "out"


@pytest.fixture
def dataset(built, tmp_path):
    dataset = shutil.copytree(built, tmp_path / "dataset")
    known(dataset, "m", {n: n for n in range(9)})
    return dataset


def kept(folder):
    return [int(row["id"].rpartition("/")[2]) for row in read_parquet(folder / "data")]


def test_intellect_2s_band_keeps_one_to_four_of_eight(dataset, tmp_path):
    manifest = filter_by_solve_rate(dataset, tmp_path / "out", SolveRateBand(0.125, 0.5), ["m"])
    assert kept(tmp_path / "out") == [1, 2, 3, 4]
    assert read_parquet(tmp_path / "out" / "data") == [
        row for row in read_parquet(dataset / "data") if row["id"][-1] in "1234"
    ]
    assert {
        row["id"][-1]: (row["stage"], row["reason"], row["detail"])
        for row in read_parquet(tmp_path / "out" / "rejected")
    } == {
        "9": ("dedup", "duplicate_exact", read_parquet(dataset / "rejected")[0]["detail"]),
        "0": ("difficulty", "too_hard", "m 0 of 8"),
        **{str(n): ("difficulty", "too_easy", f"m {n} of 8") for n in range(5, 9)},
    }
    written = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert written["counts"]["livecodebench"] == {
        "read": 10,
        "rejected": {"dedup": {"duplicate_exact": 1}, "difficulty": {"too_hard": 1, "too_easy": 4}},
        "kept": 4,
        "verified": 0,
    }
    assert manifest == from_json(written)


def test_every_model_must_agree(dataset, tmp_path):
    known(dataset, "n", dict.fromkeys(range(8), 4))
    filter_by_solve_rate(dataset, tmp_path / "out", SolveRateBand(0.25, 0.75), ["m", "n"])
    assert kept(tmp_path / "out") == [2, 3, 4, 5, 6]
    details = {row["id"][-1]: (row["reason"], row["detail"]) for row in read_parquet(tmp_path / "out" / "rejected")}
    assert details["1"] == ("too_hard", "m 1 of 8, n 4 of 8")
    assert details["8"] == ("not_sampled", "m 8 of 8, n 0 of 0")
    filter_by_solve_rate(dataset, tmp_path / "all", SolveRateBand(0.25, 0.75), [])
    assert kept(tmp_path / "all") == [2, 3, 4, 5, 6]
    filter_by_solve_rate(dataset, tmp_path / "one", SolveRateBand(0.25, 0.75), ["n"])
    assert kept(tmp_path / "one") == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_problem_that_was_never_judged_is_neither_hard_nor_easy(dataset, tmp_path):
    known(dataset, "m", {3: None})
    filter_by_solve_rate(dataset, tmp_path / "out", SolveRateBand(0, 1), ["m"])
    assert kept(tmp_path / "out") == [0, 1, 2, 4, 5, 6, 7, 8]
    assert [row["reason"] for row in read_parquet(tmp_path / "out" / "rejected")] == ["not_sampled", "duplicate_exact"]


def test_the_folder_opens_with_datasets_and_its_card_says_what_was_done(dataset, tmp_path):
    out = tmp_path / "out"
    manifest = filter_by_solve_rate(dataset, out, SolveRateBand(0.125, 0.5), [])
    for config, n_rows in (("default", 4), ("rejected", 6), ("difficulty", 9)):
        read = datasets.load_dataset(str(out), config, split="train", cache_dir=str(tmp_path / "cache"))
        assert len(read) == n_rows
    card = (out / "README.md").read_text()
    assert manifest.content_hash in card
    assert manifest.content_hash != json.loads((dataset / "manifest.json").read_text())["content_hash"]
    assert "solve rate of 0.125:0.5 (both included) were kept: m." in card
    assert "| livecodebench | difficulty | too_easy | 4 |" in card
    known(out, "later", {n: 1 for n in range(1, 5)})
    assert "solve rate of 0.125:0.5 (both included) were kept: m." in (out / "README.md").read_text()


def test_a_band_with_few_problems_causes_a_warning(dataset, tmp_path):
    assert (
        "only 4 of 9 problems are left"
        in filter_by_solve_rate(dataset, tmp_path / "out", SolveRateBand(0.125, 0.5), []).solve_rate.warning
    )


def test_the_same_command_again_changes_nothing_and_another_band_is_refused(dataset, tmp_path):
    out = tmp_path / "out"
    first = filter_by_solve_rate(dataset, out, SolveRateBand(0.125, 0.5), [])
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert filter_by_solve_rate(dataset, out, SolveRateBand(0.125, 0.5), []) == first
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    with pytest.raises(CurateError, match="made from another plan"):
        filter_by_solve_rate(dataset, out, SolveRateBand(0, 0.5), [])
    filter_by_solve_rate(dataset, out, SolveRateBand(0, 0.5), [], overwrite=True)
    assert kept(out) == [0, 1, 2, 3, 4]


def test_new_counts_make_another_plan(dataset, tmp_path):
    filter_by_solve_rate(dataset, tmp_path / "out", SolveRateBand(0.125, 0.5), [])
    known(dataset, "m", {1: 7})
    with pytest.raises(CurateError, match="made from another plan"):
        filter_by_solve_rate(dataset, tmp_path / "out", SolveRateBand(0.125, 0.5), [])


def test_bands_and_decontamination_can_follow_each_other(dataset, tmp_path):
    filter_by_solve_rate(dataset, tmp_path / "one", SolveRateBand(0.125, 1), [])
    filter_by_solve_rate(tmp_path / "one", tmp_path / "two", SolveRateBand(0, 0.5), [])
    assert kept(tmp_path / "two") == [1, 2, 3, 4]
    evaluation = write_jsonl(tmp_path / "eval.jsonl", [{"task_id": "E", "prompt": words(2)}])
    write_clean_copy(str(tmp_path / "two"), [f"humaneval={evaluation}"], tmp_path / "three")
    assert kept(tmp_path / "three") == [1, 3, 4]
    known(tmp_path / "three", "m", {n: n for n in (1, 3, 4)})
    filter_by_solve_rate(tmp_path / "three", tmp_path / "four", SolveRateBand(0.25, 1), [])
    assert kept(tmp_path / "four") == [3, 4]
    assert [hit["id"] for hit in read_parquet(tmp_path / "four" / "contamination")] == ["livecodebench/2"]
    read = datasets.load_dataset(
        str(tmp_path / "four"), "contamination", split="train", cache_dir=str(tmp_path / "cache")
    )
    assert len(read) == 1


def test_error_messages_say_what_to_type_next(dataset, built, tmp_path):
    with pytest.raises(CurateError, match="Type: curate difficulty .* --model MODEL"):
        filter_by_solve_rate(built, tmp_path / "out", SolveRateBand(0, 1), [])
    with pytest.raises(CurateError, match="has no solve rates of other. Choose among m"):
        filter_by_solve_rate(dataset, tmp_path / "out", SolveRateBand(0, 1), ["other"])
    with pytest.raises(CurateError, match="is not a curate dataset"):
        filter_by_solve_rate(tmp_path, tmp_path / "out", SolveRateBand(0, 1), [])
    for out in (dataset, dataset / "data" / "x", tmp_path):
        with pytest.raises(CurateError, match="Choose another --out"):
            filter_by_solve_rate(dataset, out, SolveRateBand(0, 1), [], overwrite=True)
    assert len(kept(dataset)) == 9
