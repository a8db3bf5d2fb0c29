"""A few unknown rewards are counted; many of them stop training."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from rewards import Reward, RewardError, TooManyUnknownRewards, process_singletons
from sandbox import SandboxError

LOST, KNOWN = Reward(None, "sandbox_failed", 0.0, "the machine is gone"), Reward(1.0, "accepted")


@pytest.fixture(autouse=True)
def fresh_counts(monkeypatch):
    monkeypatch.setattr(process_singletons, "_singletons", {})


def test_fifty_unknown_rewards_in_a_row_stop_training_and_say_why():
    for _ in range(49):
        assert process_singletons.record_and_get_value(LOST) is None
    assert process_singletons.record_and_get_value(KNOWN) == 1.0
    for _ in range(49):
        process_singletons.record_and_get_value(LOST)
    with pytest.raises(SandboxError, match=r"last 50 completions.*curate doctor.*the machine is gone"):
        process_singletons.record_and_get_value(LOST)
    assert process_singletons.record_and_get_value(KNOWN) == 1.0


def test_a_large_share_of_unknown_rewards_stops_training_too():
    with ThreadPoolExecutor(4) as threads:  # every third is known
        futures = [
            threads.submit(process_singletons.record_and_get_value, KNOWN if n % 3 == 0 else LOST) for n in range(150)
        ]
    errors = [future.exception() for future in futures]
    assert sum(error is not None for error in errors) == 1
    with pytest.raises(SandboxError, match=r"101 of the last 200"):
        process_singletons.record_and_get_value(LOST)
    assert process_singletons.get_unknown_count() == 101


def test_a_few_unknown_rewards_in_a_long_run_do_not_stop_it():
    for n in range(3000):
        process_singletons.record_and_get_value(LOST if n % 3 == 0 else KNOWN)
    assert process_singletons.get_unknown_count() == 1000


def test_unusable_tests_are_not_blamed_on_the_sandbox():
    unjudgeable = Reward(None, "tests_failed", 0.0, "no cases")
    for _ in range(49):
        process_singletons.record_and_get_value(unjudgeable)
    with pytest.raises(SandboxError, match="tests of the dataset"):
        process_singletons.record_and_get_value(unjudgeable)


def test_the_error_can_be_caught_as_one_of_rewards_or_of_the_sandbox():
    assert issubclass(TooManyUnknownRewards, RewardError)
    assert issubclass(TooManyUnknownRewards, SandboxError)
