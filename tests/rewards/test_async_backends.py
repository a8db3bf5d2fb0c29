"""Completions are scored on a cluster and through a service as they are on this machine."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import as_completed
from importlib.util import find_spec
from pathlib import Path

import forked
import pytest
from answers import DOUBLES, program_answer, text_answer

from rewards import process_singletons
from rewards.async_rewards import AsyncRewards
from rewards.code import CodeReward
from rewards.reward import Task
from rewards.trl import code_reward
from sandbox import Case, Sandbox, Suite

ROOT = Path(__file__).parents[2]
SLOW = program_answer("import time\ntime.sleep(2)\nprint(0)")


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    command = [sys.executable, "-c", "from cli import main; main()", "serve", "--port", "0", "--workers", "2"]
    process = forked.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split(" (")[0].split()[-1]
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


@pytest.fixture(params=["http", pytest.param("ray", marks=pytest.mark.thorough)])
def remote_box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    if request.param == "http":
        with Sandbox(backend="http", url=request.getfixturevalue("service")) as box:
            yield box
    else:
        if find_spec("ray") is None:
            pytest.skip("ray is not installed")
        with Sandbox(backend="ray", address=request.getfixturevalue("cluster").address) as box:
            yield box


def test_each_future_gets_its_reward_and_none_waits_for_a_slow_one(remote_box):
    expected = {}
    with AsyncRewards(CodeReward(remote_box), max_concurrent=3 * remote_box.workers) as rewards:
        slow = rewards.submit(SLOW, DOUBLES)
        for n in range(40):
            expected[rewards.submit(program_answer(f"print(2 * int(input())) # {n}"), DOUBLES)] = 1.0
            expected[rewards.submit(program_answer(f"print({n})"), DOUBLES)] = 0.0
            expected[rewards.submit(text_answer("No."), DOUBLES)] = 0.0
        order = list(as_completed([slow, *expected], 120))
        assert {future: future.result().value for future in order} == {slow: 0.0, **expected}
        assert order.index(slow) > 10


def test_programs_that_are_hard_to_send_are_wrong_and_unusable_tests_give_an_unknown_reward(remote_box):
    unjudgeable = Task(tests=Suite([Case("1", "1")], checker="nonsense"))
    with AsyncRewards(CodeReward(remote_box)) as rewards:
        hard = [
            rewards.submit(program_answer(source), DOUBLES)
            for source in ("\0", "'\ud800'", "#" * 4_000_000 + "\n1 / 0")
        ]
        assert [future.result(60).verdict for future in hard] == ["compile_error", "compile_error", "runtime_error"]
        scored = rewards.submit(program_answer("print(1)"), unjudgeable).result(60)
        assert (scored.value, scored.verdict) == (None, "tests_failed")


def test_once_it_is_gone_every_reward_is_unknown_and_none_is_awaited(remote_box):
    with AsyncRewards(CodeReward(remote_box)) as rewards:
        assert rewards.submit(program_answer("print(2 * int(input()))"), DOUBLES).result(60).value == 1.0
        remote_box.close()
        lost = [rewards.submit(program_answer(f"print({n})"), DOUBLES) for n in range(20)]
        assert {(future.result(60).value, future.result().verdict) for future in lost} == {(None, "sandbox_failed")}


def test_many_processes_may_share_one_service(service, monkeypatch):
    monkeypatch.setenv(process_singletons.URL_VARIABLE, service)
    monkeypatch.setattr(process_singletons, "_singletons", {})
    tests = [DOUBLES.tests.to_json()] * 2
    assert code_reward(completions=[program_answer("print(2 * int(input()))").text, "No."], tests=tests) == [1.0, 0.0]
    assert type(process_singletons.get_shared_sandbox()._backend).__module__ == "sandbox.backends.http"
    process_singletons.get_shared_sandbox().close()
