"""What a result file says of the model and the suite."""

import hashlib
from contextlib import contextmanager
from dataclasses import replace

import pytest
import tiny_world
from canned_results import evaluated
from loopback_server import answering
from source_rows import livecodebench_row, write_jsonl

from sandbox import Sandbox
from train.evaluation.evaluate import evaluate
from train.evaluation.exercises import read_exercises
from train.evaluation.result_metadata import collect_model_metadata, compute_weights_digest
from train.evaluation.results.result import Prices, read_result
from train.sampling.protocol import SampledCompletion

MIB = 1 << 20


def weights(folder, size=9 * MIB, **bytes_at):
    """Write a file of weights, with 1 in place of 0 at these places."""
    folder.mkdir(exist_ok=True)
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(size)
        for place in bytes_at.values():
            file.seek(place)
            file.write(b"\x01")
    return folder


def test_weights_are_told_apart_without_reading_all_of_them(tmp_path):
    digest = compute_weights_digest(weights(tmp_path / "a"))
    assert digest == compute_weights_digest(weights(tmp_path / "b"))
    for place in (0, 9 * MIB - 1, 1 * MIB, 8 * MIB - 1):  # both ends, and the first and the last piece in between
        assert compute_weights_digest(weights(tmp_path / "b", at=place)) != digest
    assert compute_weights_digest(weights(tmp_path / "b", size=9 * MIB + 1)) != digest
    assert compute_weights_digest(weights(tmp_path / "small", size=3)) != compute_weights_digest(
        weights(tmp_path / "small", size=4)
    )
    assert compute_weights_digest(tmp_path) is None
    facts = collect_model_metadata(str(tmp_path / "a"), None)
    assert facts["weights_sha256"] == digest
    assert facts.get("engine", "vllm") == "vllm"


@contextmanager
def serving(answers):
    def reply(path, number, content):
        return (200, answers[path]) if path in answers else (404, None)

    with answering(reply) as (url, _):
        yield url


@pytest.mark.parametrize(
    ("answers", "known"),
    [
        pytest.param(
            {"/v1/models": {"data": [{"id": "m", "owned_by": "vllm"}]}, "/version": {"version": "0.32.0"}},
            {"engine": "vllm", "engine_version": "0.32.0"},
            id="vllm",
        ),
        pytest.param({"/v1/models": {"data": [{"id": "m", "owned_by": "vllm"}]}}, {"engine": "vllm"}, id="no version"),
        pytest.param({"/v1/models": {"data": [{"id": "m", "owned_by": "them"}]}}, {}, id="another"),
        pytest.param({"/v1/models": ["what"]}, {}, id="another form"),
        pytest.param({}, {}, id="silent"),
    ],
)
def test_a_server_says_which_engine_it_is(answers, known):
    with serving(answers) as url:
        assert collect_model_metadata("m", url) == {"name": "m", "base_url": url, **known}


def test_a_result_names_rows_tests_verdicts_and_tokens(tmp_path):
    rows = [livecodebench_row(id, f"Task {id}.", tiny_world.stdin_tests(lambda a, b: a + b)) for id in ("a", "b")]
    location = write_jsonl(tmp_path / "test.jsonl", rows)
    right = tiny_world.fenced("print(sum(map(int, input().split())))")

    def of_unknown_prompts(prompts):
        return ((index, SampledCompletion(right, "stop", 10)) for index, _ in enumerate(prompts))

    with Sandbox(workers=2) as box:
        content = evaluated(tmp_path / "r.json", box, "lcb", location, lambda id, n: right if n else "No.", k=2)
        found = read_exercises(str(location))
        counted = evaluate(found, of_unknown_prompts, box, k=1)
    assert content["suite"]["file_sha256"] == hashlib.sha256(location.read_bytes()).hexdigest()
    assert content["suite"]["tests"] == "official"
    assert [problem["verdicts"] for problem in content["problems"]] == [{"accepted": 1, "no_code": 1}] * 2
    assert content["numbers"]["tokens"] == {"prompt": 4 * 7, "answer": 4 * 10}
    priced = replace(read_result(tmp_path / "r.json"), tokens=counted.tokens, prices=Prices(2, 0.5))
    numbers = priced.to_json()["numbers"]
    assert numbers["tokens"] == {"prompt": None, "answer": 20}  # the server does not tell how long prompts are
    assert numbers["cost"] is None
    assert replace(priced, prices=Prices(0, 0.5)).to_json()["numbers"]["cost"] == pytest.approx(1e-5)
