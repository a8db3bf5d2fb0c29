"""Each task is scored by the rewards that apply to it, and only by those."""

import math

import pytest

pytest.importorskip("math_verify", reason="math-verify is not installed")

from rewards.reward import Completion, Task
from sandbox import Case, Suite
from train import config
from train.errors import ConfigError
from train.rollouts.prompt_dataset import ProblemKinds
from train.rollouts.rewards import open_scorer

ECHO = Task(tests=Suite([Case("1", "1")]))
SUM = Task(expected="\\frac{1}{2}")
PROGRAM = Completion("```python\nprint(input())\n```", 9)
HALF = Completion("It is \\boxed{0.5}.", 9)


def opened(reward, kinds):
    return open_scorer(reward, config.SandboxConfig(workers=1), config.ProgramLimitsConfig(), seed=0, kinds=kinds)


def test_programs_and_answers_are_judged_side_by_side():
    reward = config.RewardConfig(math=2.0, format=0.5)
    with opened(reward, ProblemKinds(tests=True, answers=True)) as rewards:
        scored = [rewards.submit(answer, task).result() for task in (ECHO, SUM) for answer in (PROGRAM, HALF)]
    assert [reward.value for reward in scored] == [1.0, 0.0, 0.0, 2.0]
    assert [dict(reward.parts) for reward in scored] == [
        {"code": 1.0, "format": 0.0}, {"code": 0.0, "format": 0.0},
        {"math": 0.0, "format": 0.0}, {"math": 1.0, "format": 0.0},
    ]  # fmt: skip


def test_a_run_without_programs_needs_no_sandbox():
    nowhere = config.SandboxConfig(backend="http", address="http://127.0.0.1:9")
    with open_scorer(
        config.RewardConfig(math=1.0), nowhere, config.ProgramLimitsConfig(), seed=0, kinds=ProblemKinds(answers=True)
    ) as rewards:
        assert rewards.submit(HALF, SUM).result().value == 1.0


def test_a_function_of_ones_own_judges_every_kind_of_task(tmp_path, monkeypatch):
    (tmp_path / "lengths.py").write_text("def length(answer, task):\n    return len(answer.text)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    reward = config.RewardConfig(code=0.0, function="lengths:length", function_weight=0.5)
    with opened(reward, ProblemKinds(tests=True, answers=True, neither=True)) as rewards:
        scored = [rewards.submit(HALF, task).result() for task in (ECHO, SUM, Task())]
    assert [reward.value for reward in scored] == [len(HALF.text) / 2] * 3
    assert [reward.parts for reward in scored] == [(("length", float(len(HALF.text))),)] * 3


@pytest.mark.parametrize(
    ("reward", "kinds", "words"),
    [
        pytest.param(config.RewardConfig(), ProblemKinds(answers=True), "Give reward.math = 1.0", id="answers"),
        pytest.param(
            config.RewardConfig(format=1.0), ProblemKinds(answers=True), "Give reward.math = 1.0", id="only their form"
        ),
        pytest.param(config.RewardConfig(math=1.0), ProblemKinds(neither=True), "Give a reward.function", id="neither"),
        pytest.param(config.RewardConfig(code=0.0), ProblemKinds(tests=True), "give reward.code = 1.0", id="no weight"),
    ],
)
def test_prompts_that_nothing_would_judge_are_refused(reward, kinds, words):
    with pytest.raises(ConfigError, match=words), opened(reward, kinds):
        pass


def test_random_rewards_judge_nothing():
    with opened(config.RewardConfig(random=True), ProblemKinds(answers=True)) as rewards:
        scored = rewards.submit(HALF, SUM).result()
    assert scored.verdict == "random"
    assert not math.isnan(scored.value)
