"""A run calls a reward function of its owner, and explains what is wrong with it."""

import sys

import pytest

from rewards.reward import Completion, Task
from train.errors import ConfigError, RolloutError
from train.rollouts.rewards import CustomReward, check_custom_reward

ANSWER, TASK = Completion("some words", 3), Task(id="math/17", expected="2")

MODULE = """
import time
from rewards import Reward

def share(answer, task):
    return len(answer.text) / 20

def right(answer, task):
    return True

def unknown(answer, task):
    return None

def steps(answer, task):
    time.sleep(0.01)
    return Reward(0.5, "half", steps=((4, 1.0), (10, 0.0)))

def words(answer, task):
    return "good"

def infinite(answer, task):
    return float("inf")

def fails(answer, task):
    return helper(task) / 0

def helper(task):
    return 1

def ends(answer, task):
    raise SystemExit(3)

CONSTANT = 3
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Work in a folder with a module of one's own."""
    (tmp_path / "own_rewards.py").write_text(MODULE)
    (tmp_path / "broken_rewards.py").write_text("import math\nx = math.no_such_name\n")
    (tmp_path / "ending_rewards.py").write_text("raise SystemExit(2)\n")
    (tmp_path / "torn_rewards.py").write_text("def f(:\n")
    (tmp_path / "needy_rewards.py").write_text("import no_such_package\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    yield tmp_path
    for name in ("own_rewards", "broken_rewards", "ending_rewards", "torn_rewards", "needy_rewards"):
        sys.modules.pop(name, None)


def call(name):
    return CustomReward(f"own_rewards:{name}")(ANSWER, TASK)


def test_numbers_are_rewards(here):
    assert (call("share").value, call("share").verdict) == (0.5, "scored")
    assert (call("right").value, call("right").verdict) == (1.0, "accepted")
    assert call("share").seconds > 0


def test_none_is_unknown_and_no_zero(here):
    assert call("unknown").value is None


def test_a_reward_may_have_steps(here):
    made = call("steps")
    assert (made.value, made.verdict, made.steps) == (0.5, "half", ((4, 1.0), (10, 0.0)))
    assert made.seconds >= 0.01


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param(
            "fails", r"failed on a completion of math/17: ZeroDivisionError.*own_rewards.py, line 25", id="bug"
        ),
        pytest.param("ends", r"failed on a completion of math/17: SystemExit: 3", id="ends the program"),
        pytest.param("words", "returned 'good' for a completion of math/17. It must return a finite number", id="text"),
        pytest.param("infinite", "returned inf", id="infinite"),
    ],
)
def test_a_mistake_in_the_function_is_explained(here, name, words):
    with pytest.raises(RolloutError, match=words):
        call(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("no_such_rewards:f", "there is no module no_such_rewards, neither in ", id="no module"),
        pytest.param("own_rewards:shar", "has no function shar. It has Reward, share, right", id="no function"),
        pytest.param("own_rewards:CONSTANT", "has no function CONSTANT", id="not a function"),
        pytest.param("broken_rewards:f", r"cannot be imported: AttributeError: .*line 2\)", id="module fails"),
        pytest.param("ending_rewards:f", r"cannot be imported: SystemExit: 2 \(.*line 1\)", id="ends the program"),
        pytest.param("torn_rewards:f", "cannot be imported: SyntaxError: .*torn_rewards.py, line 1", id="no Python"),
        pytest.param("needy_rewards:f", "cannot be imported: No module named 'no_such_package'", id="needs more"),
    ],
)
def test_a_function_that_is_not_there_is_explained(here, name, words):
    with pytest.raises(ConfigError, match=words):
        check_custom_reward(name)


def test_no_function_needs_no_check():
    check_custom_reward("")
