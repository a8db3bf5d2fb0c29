"""A server on loopback gives answers of every kind, and each protocol counts them as the official evaluator would.

The server is none of vLLM's: it takes four stops, and obeys none of them.
"""

import json
import re

import pytest
from curate_command import curate
from loopback_server import answering
from source_rows import humaneval_row, livecodebench_row, write_jsonl

RIGHT = "a, b = map(int, input().split())\nprint(a + b)"
WRONG = "print(0)"
ADD = "    return x + y"


def block(source):
    return f"```python\n{source}\n```"


def said(text, finish="stop", **more):
    return {"message": {"role": "assistant", "content": text, **more}, "finish_reason": finish}


PROGRAMS = {
    "right": said(f"Here it is:\n{block(RIGHT)}"),
    "wrong": said(block(WRONG)),
    "no_fence": said(RIGHT),
    "first_of_two_right": said(f"{block(RIGHT)}\nOr:\n{block(WRONG)}"),
    "last_of_two_right": said(f"{block(WRONG)}\nNo, rather:\n{block(RIGHT)}"),
    "only_thought": said(f"<think>\n{block(RIGHT)}\n</think>\nI do not know."),
    "thought_better": said(f"<think>\n{block(WRONG)}\n</think>\n{block(RIGHT)}"),
    "below_a_heading": said(f"### Answer\n{block(RIGHT)}"),
    "cut_off_within": said(f"```python\n{RIGHT}", "length"),
    "cut_off_behind": said(f"{block(RIGHT)}\nThis program", "length"),
    "reasoned_better": said(block(WRONG), reasoning_content=block(RIGHT)),
    "reasoned_worse": said(block(RIGHT), reasoning=block(WRONG)),
    "only_reasoned": said(None, "length", reasoning=block(RIGHT)),
}
OURS = {"right", "last_of_two_right", "thought_better", "below_a_heading", "cut_off_behind", "reasoned_worse"}
THOUGHTS_COUNT = OURS | {"only_thought"}  # the other rules know no thoughts


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    rows = [livecodebench_row(name, f"Print the sum. case: {name}") for name in PROGRAMS]
    return write_jsonl(tmp_path_factory.mktemp("lcb") / "lcb.jsonl", rows)


def canned(answers):
    """Serve the model m, which answers a prompt in which `case: NAME` stands with the answer of that name."""

    def answer(path, number, content):
        if path == "/v1/models":
            return 200, {"data": [{"id": "m"}]}
        prompt = content.get("prompt") or "\n".join(message["content"] for message in content["messages"])
        choice = answers[re.search(r"case: (\w+)", prompt)[1]]
        if path == "/v1/completions":
            choice = {"text": choice["message"]["content"], "finish_reason": choice["finish_reason"]}
        return 200, {"choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 20}}

    return answering(answer)


def solved_in(result):
    return {problem["id"].rpartition("/")[2] for problem in result["problems"] if problem["bits"] == "1"}


def evaluated(suite, path, answers, out, *options, says=""):
    """Run the command; return the result, the names of the problems that were solved, and the requests."""
    with canned(answers) as (url, asked):
        command = ["evaluate", "--model", "m", "--base-url", url, "--suite", f"{suite}={path}", "--k", "1"]
        ran = curate(*command, "--out", out, *options)
    assert ran.exit_code == 0, ran.output
    assert says in ran.output
    result = json.loads(out.read_text())
    return result, solved_in(result), [content for path, _, content in asked if content]


@pytest.mark.parametrize(
    ("protocol", "solved"),
    [
        pytest.param(None, OURS, id="none"),
        pytest.param("deepcoder", THOUGHTS_COUNT, id="deepcoder"),
        pytest.param("evalchemy", THOUGHTS_COUNT, id="evalchemy"),
        pytest.param("lighteval-0.13", THOUGHTS_COUNT, id="lighteval-0.13"),
        # Its stop "###" cuts at headings.
        pytest.param("lcb", THOUGHTS_COUNT - {"below_a_heading"}, id="lcb"),
    ],
)
def test_programs_are_found_as_the_protocol_says(problems, tmp_path, protocol, solved):
    options = [] if protocol is None else ["--protocol", protocol]
    result, found, requests = evaluated("lcb", problems, PROGRAMS, tmp_path / "lcb.json", *options)
    assert found == solved
    assert {request.get("stop") and tuple(request["stop"]) for request in requests} == {
        ("###",) if protocol == "lcb" else None
    }
    cut_off = {problem["id"].rpartition("/")[2] for problem in result["problems"] if problem["cut_off"] == "1"}
    assert cut_off == {"cut_off_within", "cut_off_behind", "only_reasoned"}
    numbers = result["numbers"]
    assert (numbers["n_truncated"], numbers["n_truncated_correct"]) == (3, 1)
    without = {"no_fence"} | ({"below_a_heading"} if protocol == "lcb" else set())
    assert numbers["n_no_code"] == len(without | ({"only_thought"} - solved))


def test_answers_that_are_judged_again_are_counted_as_under_the_other_protocol_and_cost_the_same(problems, tmp_path):
    before, again = tmp_path / "ours.json", tmp_path / "again.json"
    result, _, _ = evaluated("lcb", problems, PROGRAMS, before, "--price-answer", "10000")
    curate("rescore", before, "--extraction", "lcb", "--out", again, check=True)
    assert solved_in(json.loads(again.read_text())) == THOUGHTS_COUNT
    assert json.loads(again.read_text())["numbers"]["cost"] == result["numbers"]["cost"] == 2.6


def test_gpu_hours_are_paid_for_the_samples_that_a_call_drew(problems, tmp_path):
    out = tmp_path / "lcb.json"
    paid = ["--gpus", "8", "--price-gpu-hour", "3600"]
    result, _, _ = evaluated("lcb", problems, PROGRAMS, out, *paid, says="GPU cost of this call: ")
    cost = result["numbers"]["gpu_cost"]
    assert (cost["price"], cost["n_samples"]) == ({"gpus": 8, "gpu_hour": 3600.0}, len(PROGRAMS))
    assert cost["total"] == pytest.approx(8 * cost["seconds"])
    assert cost["per_problem"] == cost["per_sample"] == pytest.approx(cost["total"] / len(PROGRAMS))
    result, _, _ = evaluated("lcb", problems, PROGRAMS, out, *paid, says="nothing was sampled")
    assert result["numbers"]["gpu_cost"]["per_sample"] is None
    result, _, _ = evaluated("lcb", problems, PROGRAMS, out)
    assert "gpu_cost" not in result["numbers"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--price-gpu-hour", "2"],
            "the server's number of GPUs is unknown. Give --gpus N",
        ),
        (["--gpus", "8"], "--gpus needs --price-gpu-hour, the price of a GPU"),
        (["--gpus", "8", "--price-gpu-hour", "-2"], "Invalid value for '--price-gpu-hour'"),
    ],
)
@pytest.mark.parametrize("command", [["evaluate", "--suite", "lcb"], ["difficulty", "d"]])
def test_half_a_price_is_refused_in_a_sentence(command, options, message):
    ran = curate(*command, "--model", "m", "--base-url", "http://127.0.0.1:9/v1", *options)
    assert ran.exit_code == 2
    assert message in " ".join(ran.output.split())


def test_another_time_limit_judges_the_kept_answers_again(tmp_path):
    busy = "import time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass"
    slow = {"slow": said(block(f"{busy}\n{RIGHT}"))}
    path = write_jsonl(tmp_path / "lcb.jsonl", [livecodebench_row("slow", "Print the sum. case: slow")])
    out = tmp_path / "out.json"
    result, solved, _ = evaluated("lcb", path, slow, out, "--test-seconds", "0.2")
    assert solved == set()
    assert result["problems"][0]["verdicts"] == {"time_limit": 1}
    result, solved, asked = evaluated("lcb", path, slow, out, "--test-seconds", "9")
    assert solved == {"slow"}
    assert asked == []
    assert result["protocol"]["table"]["test_seconds"] == 9.0


CONTINUED = {
    "closed": said(f"def add(x, y):\n{ADD}\n```\nIt adds them."),
    "first_of_two_right": said(f"def add(x, y):\n{ADD}\n```\nOr:\n{block('def add(x, y): return 0')}"),
    "not_closed": said(f"def add(x, y):\n{ADD}", "length"),
    "began_anew": said(f"Sure!\n```python\ndef add(x, y):\n{ADD}\n```\n"),
    "wrong": said("def add(x, y):\n    return 0\n```\n"),
    "reasoned_better": said("def add(x, y):\n    return 0\n```\n", reasoning=f"def add(x, y):\n{ADD}"),
}
COMPLETED = {
    "body": said(f"{ADD}\n"),
    "more_behind": said(f"{ADD}\n\nprint(add(1, 2))\ndef add(x, y):\n    return 0\n"),
    "stop_of_many": said(f"{ADD}\nassert False\n"),
    "fenced": said(f"{block(ADD)}\n"),
    "wrong": said("    return 0\n"),
}


def functions(path, names):
    prompt = 'def half(x):\n    return x / 2\n\n\ndef add(x, y):\n    """Add. case: {}"""\n'
    return write_jsonl(
        path, [humaneval_row(number, task_id=name, prompt=prompt.format(name)) for number, name in enumerate(names)]
    )


def test_evalplus_finds_the_program_in_a_block_that_the_prompt_began(tmp_path):
    path = functions(tmp_path / "rows.jsonl", CONTINUED)
    _, solved, requests = evaluated(
        "humaneval", path, CONTINUED, tmp_path / "out.json", "--protocol", "evalplus", "--max-tokens", "99"
    )
    assert solved == {"closed", "first_of_two_right", "not_closed", "began_anew"}
    assert {request["messages"][-1]["role"] for request in requests} == {"assistant"}
    assert {tuple(request["stop"]) for request in requests} == {("\n```\n", "\nif __name__", "\ndef main(", "\nprint(")}


def test_a_completion_is_the_rest_of_the_program_and_has_its_price(tmp_path):
    path = functions(tmp_path / "rows.jsonl", COMPLETED)
    options = ["--protocol", "evalplus", "--mode", "complete", "--price-prompt", "10000", "--price-answer", "20000"]
    says = "tokens of prompts: 50, of completions: 100; cost: 2.50\n"
    result, solved, requests = evaluated("humaneval", path, COMPLETED, tmp_path / "out.json", *options, says=says)
    assert result["numbers"]["tokens"] == {"prompt": 50, "answer": 100}
    assert result["numbers"]["cost"] == 2.5
    assert solved == {"body", "more_behind", "stop_of_many"}
    assert all(request["prompt"].endswith('"""\n') and len(request["stop"]) == 4 for request in requests)
