"""verl, which has no value for an unknown reward, gets 0.0 for it, and the reward is counted and logged."""

import pytest

from rewards import Completion, Task, process_singletons, verl
from sandbox import Case, Limits, Suite

ECHO = Suite([Case("1", "1"), Case("2", "2")])
RIGHT = "So:\n```python\nprint(input())\n```\n"
GROUND_TRUTH = '{"inputs": ["1"], "outputs": ["1"]}'


def test_an_unknown_reward_raises_nothing_and_is_counted_and_logged(lost_sandbox, caplog):
    before = process_singletons.get_unknown_count()
    assert verl.compute_score("mine", RIGHT, GROUND_TRUTH) == verl.UNKNOWN == 0.0
    assert process_singletons.get_unknown_count() == before + 1
    assert "sandbox_failed" in caplog.text
    reward = process_singletons.get_shared_reward()(Completion(RIGHT, 0), Task(tests=ECHO))
    assert process_singletons.record_and_get_value(reward) is None
    assert verl.compute_score("mine", "No.", GROUND_TRUTH) == 0.0
    assert process_singletons.get_unknown_count() == before + 2


@pytest.mark.usefixtures("defective_sandbox")
def test_a_completion_that_reveals_a_defect_of_the_sandbox_raises_nothing():
    assert verl.compute_score("mine", RIGHT, GROUND_TRUTH) == verl.UNKNOWN


def test_a_malformed_row_is_an_error_and_not_a_reward():
    with pytest.raises(ValueError, match="Expecting value"):
        verl.compute_score("mine", RIGHT, "not JSON")


def test_ground_truth_is_read_as_a_suite():
    assert verl.parse_ground_truth('{"inputs": ["1"], "outputs": ["2"]}') == Suite([Case("1", "2")])
    calls = '{"fn_name": "f", "inputs": ["[1]\\n\\"a\\"", ""], "outputs": ["2", "3"], "time_limit_s": 2}'
    assert verl.parse_ground_truth(calls) == Suite(
        [Case('[[1], "a"]', "2"), Case("[]", "3")], entry_point="f", limits=Limits(wall_seconds=2)
    )
