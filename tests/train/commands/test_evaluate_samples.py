"""`curate evaluate --samples` judges programs of other tools like sampled ones."""

import json

import pytest
from canned_server import answering
from curate_command import curate
from evalplus_rows import humaneval_plus_row, mbpp_plus_row
from source_rows import SUM, humaneval_row, livecodebench_row, mbpp_row, write_jsonl

UP = "def up(ns):\n    return [n + 1 for n in ns]"
DOWN = "def up(ns):\n    return [n - 1 for n in ns]"

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def plus(tmp_path):
    return write_jsonl(tmp_path / "plus.jsonl", [humaneval_plus_row(0), humaneval_plus_row(1)])


@pytest.fixture
def lcb(tmp_path):
    dates = {"a": "2024-08-03T00:00:00", "b": "2025-01-30T15:30:00", "c": "2025-02-01T00:00:00"}
    rows = [livecodebench_row(id, f"Task {id}.", contest_date=day) for id, day in dates.items()]
    return write_jsonl(tmp_path / "lcb.jsonl", rows)


def judged(samples, *words, out=None):
    done = curate(
        "evaluate", "--samples", samples, "--workers", 2, *words, *(["--out", out] if out else []), check=True
    )
    return done, {problem["id"]: problem["bits"] for problem in json.loads(out.read_text())["problems"]} if out else {}


def solutions(path, *pairs, field="solution"):
    return write_jsonl(path, [{"task_id": task, field: text} for task, text in pairs])


def test_programs_of_evalplus_are_judged_and_the_result_says_where_they_are_from(tmp_path, plus):
    samples = solutions(
        tmp_path / "m.jsonl", ("HumanEval/0", UP), ("HumanEval/1", DOWN), ("HumanEval/0", ""), ("HumanEval/1", UP)
    )
    out = tmp_path / "r.json"
    done, bits = judged(samples, "--suite", f"humaneval+={plus}", out=out)
    assert done.stdout.splitlines()[0] == f"m: humaneval+, 2 problems x 2, samples of {samples}"
    assert bits == {"HumanEval/0": "10", "HumanEval/1": "01"}
    result = json.loads(out.read_text())
    assert result["model"] == {"name": "m", "base_url": None}
    assert result["sampling"].keys() == {"k", "file", "field", "file_sha256"}
    assert result["protocol"]["table"]["extraction"] == "whole"
    assert result["numbers"]["tokens"] == {"prompt": None, "answer": None}
    assert result["numbers"]["verdicts"] == {"accepted": 2, "no_code": 1, "wrong_answer": 1}
    journal, before = tmp_path / "r.json.samples.jsonl", out.read_bytes()
    lines = journal.read_bytes()
    again, _ = judged(samples, "--suite", f"humaneval+={plus}", out=out)
    assert (again.stdout, journal.read_bytes(), out.read_bytes()) == (done.stdout, lines, before)
    journal.write_bytes(lines[:-40])  # as after a power cut
    judged(samples, "--suite", f"humaneval+={plus}", out=out)
    assert out.read_bytes() == before


def test_results_of_files_and_of_models_are_compared_rescored_and_exported_alike(tmp_path, plus):
    from_file, sampled = tmp_path / "file.json", tmp_path / "sampled.json"
    samples = solutions(tmp_path / "m.jsonl", ("HumanEval/0", UP), ("HumanEval/1", DOWN))
    judged(samples, "--model", "org/mine", "--suite", f"humaneval+={plus}", out=from_file)
    with answering(f"```python\n{UP}\n```") as (url, _):
        done = curate(
            "evaluate", "--model", "m", "--base-url", url, "--suite", f"humaneval+={plus}", "--k", 1, "--out", sampled
        )
    assert done.exit_code == 0, done.output
    compared = curate("compare", from_file, sampled, check=True)
    assert "+0.500" in compared.stdout
    assert "mine" in curate("results", from_file, sampled).stdout
    rescored = curate("rescore", from_file, "--workers", 2)
    assert "0 of 2 verdicts changed" in rescored.stdout
    exported = tmp_path / "exported.jsonl"
    assert curate("export-evaluation", from_file, "--to", "evalplus", "--out", exported).exit_code == 0
    assert exported.read_text() == samples.read_text()


@pytest.mark.parametrize(
    ("suite", "row", "task", "completion"),
    [
        ("humaneval", humaneval_row(0), "HumanEval/0", "    return x + y\n"),
        ("humaneval+", humaneval_plus_row(0), "HumanEval/0", "    return [n + one() for n in ns]\n"),
        ("mbpp+", mbpp_plus_row(2), "Mbpp/2", mbpp_plus_row()["canonical_solution"]),
        ("mbpp", mbpp_row(11), 11, mbpp_row(11)["code"]),
    ],
)
def test_a_completion_continues_the_prompt_of_its_task(tmp_path, suite, row, task, completion):
    rows = write_jsonl(tmp_path / "rows.jsonl", [row])
    samples = solutions(tmp_path / "m.jsonl", (task, completion), (task, "    return 0\n"), field="completion")
    out = tmp_path / "r.json"
    _, bits = judged(samples, "--suite", f"{suite}={rows}", out=out)
    assert list(bits.values()) == ["10"]
    assert "0 of 2 verdicts changed" in curate("rescore", out, "--workers", 2).stdout


def test_uneven_samples_of_livecodebench_keep_their_numbers(tmp_path, lcb):
    entries = [
        {"question_id": "a", "code_list": [SUM, "print(0)", SUM], "output_list": ["", "", f"```\n{SUM}\n```"]},
        {"question_id": "b", "code_list": ["print(0)"], "output_list": [""]},
        {"question_id": "elsewhere", "code_list": [SUM], "output_list": [""]},
    ]
    samples, out = tmp_path / "custom.json", tmp_path / "r.json"
    samples.write_text(json.dumps(entries))
    words = ["--suite", f"lcb={lcb}", "--protocol", "lcb", "--window", "2024-08-01..2025-01-31"]
    done, bits = judged(samples, *words, out=out)
    assert bits == {"livecodebench/a": "101", "livecodebench/b": "0"}
    assert "custom: lcb 2024-08-01..2025-01-31, 2 problems x 1-3" in done.stdout
    table = json.loads(out.read_text())["protocol"]["table"]
    assert (table["name"], table["test_seconds"], table["form"]) == ("lcb", 6.0, "curate")
    assert "0 of 4 verdicts changed" in curate("rescore", out, "--workers", 2).stdout
    _, bits = judged(samples, *words, "--extraction", "lcb", out=out)
    assert bits == {"livecodebench/a": "001", "livecodebench/b": "0"}
    refused = curate("export-evaluation", out, "--to", "lcb-leaderboard", "--out", tmp_path / "board")
    assert "has no temperature, which is part of" in refused.output


def test_lone_surrogates_in_a_program_are_only_wrong(tmp_path, plus):
    samples = solutions(tmp_path / "m.jsonl", ("HumanEval/0", "x = '\ud83d'\n" + UP), ("HumanEval/1", "x = \ud83d"))
    _, bits = judged(samples, "--suite", f"humaneval+={plus}", out=tmp_path / "r.json")
    assert bits["HumanEval/1"] == "0"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--temperature", 0.2], "--temperature is for sampling"),
        (["--base-url", "http://x/v1"], "--base-url is for sampling"),
        (["--engine", "concurrency=1"], "--engine is for sampling"),
        (["--language", "cpp"], "--language is for sampling"),
        (["--suite", "mbpp+"], "--samples has the samples of one suite"),
        (["--protocol", "lcb"], "does not cover humaneval+"),
    ],
)
def test_options_that_samples_make_meaningless_are_refused(tmp_path, plus, words, said):
    samples = solutions(tmp_path / "m.jsonl", ("HumanEval/0", UP))
    done = curate("evaluate", "--samples", samples, "--suite", f"humaneval+={plus}", *words)
    assert done.exit_code != 0
    assert said in done.output


def test_without_samples_a_model_is_needed(plus):
    done = curate("evaluate", "--suite", f"humaneval+={plus}")
    assert done.exit_code == 2
    assert "give --model NAME, or --samples FILE" in done.output
