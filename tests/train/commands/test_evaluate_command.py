"""`curate evaluate` measures several suites by a protocol, in chats and by completion."""

import json
import shlex
import subprocess

import pytest
from canned_server import answering
from curate_command import curate
from evalplus_rows import PROMPT, humaneval_plus_row
from source_rows import SUM, livecodebench_row, write_jsonl

from train.evaluation.sample_store import SampleStore

UP = "def up(ns):\n    return [n + 1 for n in ns]"
BOTH = f"```python\n{UP}\nif __name__ == '__main__':\n    {SUM}\n```"

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def lcb(tmp_path):
    rows = [
        livecodebench_row("a", "Add them.", contest_date="2024-08-03T00:00:00"),
        livecodebench_row("b", "Add these.", contest_date="2025-01-31T15:30:00"),
        livecodebench_row("c", "Add those.", contest_date="2025-02-01T00:00:00"),
    ]
    return write_jsonl(tmp_path / "lcb.jsonl", rows)


@pytest.fixture
def humaneval(tmp_path):
    return write_jsonl(tmp_path / "plus.jsonl", [humaneval_plus_row()])


def evaluate(url, *words):
    given = ["evaluate", "--model", "m", "--base-url", url, "--workers", "2", *map(str, words)]
    return curate(*given)


def test_two_suites_by_a_protocol_share_a_model_and_a_folder(tmp_path, lcb, humaneval):
    words = ["--suite", f"lcb={lcb}", "--suite", f"humaneval+={humaneval}", "--protocol", "deepcoder", "--k", 2]
    words += ["--out", tmp_path / "out"]
    with answering(BOTH) as (url, asked):
        done = evaluate(url, *words)
        assert done.exit_code == 0, done.output
        assert len(asked) == 6
        assert {request["temperature"] for _, request in asked} == {0.6}
        assert {request["max_tokens"] for _, request in asked} == {65536}
        again = evaluate(url, *words)
        assert len(asked) == 6
    assert again.stdout == done.stdout
    lines = done.stdout.splitlines()
    assert lines[0] == (
        "m: lcb 2024-08-01..2025-01-31, 2 problems x 2, held 2024-08-03..2025-01-31, T 0.6, 65536 tokens"
    )
    assert lines[1] == "protocol deepcoder, form deepcoder; k 2 instead of 1"
    assert "protocol deepcoder, form curate; k 2 instead of 1" in lines
    lcb_result, plus_result = (
        json.loads((tmp_path / "out" / f"{name}.json").read_text()) for name in ("lcb", "humaneval+")
    )
    assert [problem["bits"] for problem in lcb_result["problems"]] == ["11", "11"]
    assert [problem["bits"] for problem in plus_result["problems"]] == ["11"]
    assert lcb_result["protocol"]["overrides"] == {"k": 2}
    assert lcb_result["protocol"]["table"]["window"] == "2024-08-01..2025-01-31"
    assert lcb_result["suite"]["window"] == {
        "asked": "2024-08-01..2025-01-31", "first": "2024-08-03", "last": "2025-01-31"
    }  # fmt: skip


def test_answers_of_several_lengths_are_asked_for_and_their_errors_are_shown(tmp_path, lcb):
    words = ["--suite", f"lcb={lcb}", "--k", 2, "--target-tokens", "10,40", "--out", tmp_path / "out"]
    with answering(BOTH) as (url, asked):
        done = evaluate(url, *words)
    assert done.exit_code == 0, done.output
    asked_for = [request["messages"][-1]["content"].splitlines()[-1] for _, request in asked]
    assert asked_for == [f"Think for {n} tokens before giving a response." for n in (10, 40) for _ in range(6)]
    short, long = (json.loads((tmp_path / "out" / f"lcb-{n}.json").read_text()) for n in (10, 40))
    assert (short["sampling"]["target_tokens"], long["sampling"]["target_tokens"]) == (10, 40)
    n_tokens = short["problems"][0]["tokens"][0]
    header, *rows = [line.split() for line in done.stdout.splitlines()[-3:]]
    assert " ".join(header) == "target samples tokens mean error of target pass@1"
    errors = [abs(n_tokens - n) for n in (10, 40)]
    assert rows == [
        [f"lcb-{n}", str(n), "6", str(n_tokens), str(error), f"{error / n:.1%}", "1.000"]
        for n, error in zip((10, 40), errors, strict=True)
    ]


@pytest.mark.parametrize("words", ["0", "many", "1000,", "-5"])
def test_a_length_that_is_none_is_refused(lcb, words):
    done = evaluate("http://127.0.0.1:1", "--suite", f"lcb={lcb}", "--target-tokens", words)
    assert done.exit_code == 2
    assert "is not a list of numbers of tokens such as 1000,2000,4000" in " ".join(done.output.split())


def test_a_suite_that_fails_does_not_lose_the_others(tmp_path, lcb, humaneval, monkeypatch):
    broken = write_jsonl(tmp_path / "broken.jsonl", [humaneval_plus_row(canonical_solution="    return ns[0][0]\n")])
    words = ["--suite", f"lcb={lcb}", "--suite", f"humaneval+={broken}", "--k", 1, "--out", tmp_path / "out"]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "lcb.json.samples.jsonl").mkdir()
    with answering(BOTH) as (url, _):
        done = evaluate(url, *words[:3], f"humaneval+={humaneval}", *words[4:])
    assert done.exit_code == 1
    assert "lcb was not evaluated: " in done.stderr
    assert (tmp_path / "out" / "humaneval+.json").is_file()


def test_a_second_command_on_the_same_output_asks_the_model_nothing(tmp_path, lcb, humaneval):
    words = ["--suite", f"lcb={lcb}", "--k", 1, "--out", tmp_path / "new" / "r.json"]
    both = ["--suite", f"humaneval+={humaneval}", *words[:4], "--out", tmp_path / "new"]
    with answering(BOTH) as (url, asked), SampleStore(tmp_path / "new" / "r.json.samples.jsonl") as kept:
        done = evaluate(url, *words)
        assert done.exit_code == 1
        assert f"another command is writing to {tmp_path}/new/r.json.samples.jsonl. Wait for it" in done.stderr
        assert not asked
        kept.close()
        with SampleStore(tmp_path / "new" / "lcb.json.samples.jsonl"):
            done = evaluate(url, *both)
        assert done.exit_code == 1
        assert "lcb was not evaluated: another command is writing to" in done.stderr
        assert len(asked) == 1
        assert evaluate(url, *words).exit_code == 0
        assert evaluate(url, *both).exit_code == 0
        assert len(asked) == 1 + 3 + 3


def test_damaged_samples_are_refused_before_the_model_is_asked(tmp_path, lcb):
    words = ["--suite", f"lcb={lcb}", "--k", 1, "--out", tmp_path / "r.json"]
    samples = tmp_path / "r.json.samples.jsonl"
    with answering(BOTH) as (url, asked):
        assert evaluate(url, *words).exit_code == 0
        lines = samples.read_text().splitlines(keepends=True)
        samples.write_text("".join([lines[0], lines[1][:20], *lines[2:]]))
        done = evaluate(url, *words)
        assert done.exit_code == 1
        assert f"{samples} is damaged: no record at line 2" in done.stderr
        subprocess.run(shlex.split(done.stderr.rpartition(": ")[2]), check=True)
        assert evaluate(url, *words).exit_code == 0
        assert len(asked) == 3 + 2


def test_a_window_is_for_the_suites_that_have_dates(lcb, humaneval):
    words = ["--suite", f"lcb={lcb}", "--suite", f"humaneval+={humaneval}", "--k", 1]
    with answering(BOTH) as (url, asked):
        done = evaluate(url, *words, "--window", "2024-08-01..2024-08-31")
        assert done.exit_code == 0, done.output
        assert len(asked) == 2


def test_a_base_model_continues_the_text_of_a_program(tmp_path, humaneval):
    with answering("    return [n + 1 for n in ns]\n") as (url, asked):
        done = evaluate(
            url, "--suite", f"humaneval+={humaneval}", "--protocol", "evalplus", "--mode", "complete", "--out",
            tmp_path / "r.json",
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    ((path, request),) = asked
    assert path == "/v1/completions"
    assert request["prompt"] == PROMPT + '    """Add one to each number."""\n'
    assert "\ndef " in request["stop"]
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["problems"][0]["bits"] == "1"
    assert result["protocol"]["overrides"]["mode"] == "complete"


def test_a_prefilled_answer_is_judged_with_its_beginning(humaneval):
    with answering(UP) as (url, asked):
        done = evaluate(url, "--suite", f"humaneval+={humaneval}", "--protocol", "evalplus")
    assert done.exit_code == 0, done.output
    ((path, request),) = asked
    assert path == "/v1/chat/completions"
    assert request["messages"][-1]["role"] == "assistant"
    assert (request["temperature"], request["max_tokens"]) == (0.0, 768)
    assert request["stop"] == ["\n```\n", "\nif __name__", "\ndef main(", "\nprint("]
    assert done.stdout.splitlines()[-1].split()[:3] == ["all", "1", "1.000"]


def test_fields_of_requests_are_sent_and_recorded_and_their_samples_are_kept_apart(tmp_path, humaneval):
    out = tmp_path / "r.json"
    words = ["--suite", f"humaneval+={humaneval}", "--k", 1, "--out", out]
    fields = ["--request", "reasoning_effort=high", "--request", "seed=null"]
    with answering(BOTH) as (url, asked):
        assert evaluate(url, *words).exit_code == 0
        assert "request" not in json.loads(out.read_text())["sampling"]
        done = evaluate(url, *words, *fields)
        assert done.exit_code == 0, done.output
        assert evaluate(url, *words, *fields).stdout == done.stdout
    assert ["reasoning_effort" in request for _, request in asked] == [False, True]
    assert ["seed" in request for _, request in asked] == [True, False]
    assert json.loads(out.read_text())["sampling"]["request"] == {"reasoning_effort": "high", "seed": None}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--request", "temperature=1"], "--temperature sets the request field temperature"),
        (["--request", "messages=[]"], "curate sets the request field messages itself"),
        (["--request", "top_k"], "pass KEY=VALUE"),
        (["--request-timeout", "0"], "--request-timeout"),
    ],
)
def test_wrong_options_of_requests_are_explained(humaneval, words, said):
    done = evaluate("http://127.0.0.1:9/v1", "--suite", f"humaneval+={humaneval}", *words)
    assert done.exit_code == 2
    assert said in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--suite", "lcb={lcb}", "--suite", "lcb={lcb}"], "--suite lcb is given twice"),
        (["--suite", "lcb={lcb}", "--out", "{folder}"], "is a folder, but the result of one suite is a file"),
        (
            ["--suite", "lcb={lcb}", "--suite", "humaneval+={humaneval}", "--out", "{lcb}"],
            "several suites need a folder",
        ),
        (["--suite", "lcb={lcb}", "--mode", "complete"], "Give the text that the model continues: --template FILE"),
        (["--suite", "lcb={lcb}", "--protocol", "evalplus"], "the protocol evalplus does not cover lcb"),
        (["--suite", "humaneval={humaneval}", "--mode", "complete", "--system", "x"], "--system is for chats"),
        (["--data", "{lcb}", "--protocol", "lcb"], "needs a named suite"),
    ],
)
def test_mistakes_are_explained_before_the_model_is_asked(tmp_path, lcb, humaneval, words, said):
    places = {"lcb": lcb, "humaneval": humaneval, "folder": tmp_path}
    with answering(BOTH) as (url, asked):
        done = evaluate(url, *(word.format(**places) for word in words))
    assert done.exit_code == 1
    assert said in done.output
    assert asked == []


def test_a_base_model_is_refused_in_a_chat_before_it_is_loaded(tmp_path, lcb):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 512}')
    done = curate("evaluate", "--model", tmp_path, "--suite", f"lcb={lcb}")
    assert done.exit_code == 1
    assert "has no chat template, so it cannot take chats" in done.output
    assert "Give --mode complete" in done.output
