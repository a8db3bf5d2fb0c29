"""The reward for verl, in our sandbox and by our rules instead of verl's own:

    reward.custom_reward_function.path=pkg://rewards.verl reward.custom_reward_function.name=compute_score

on a dataset that `curate export --to verl` wrote. verl's scorers run programs unconfined in the trainer's process
tree, look at the first ten tests only once one has failed, and take no checker but their own. verl_manager.py scores
many completions at once.

verl has no value for an unknown reward: it cannot leave a completion out of its group, and NaN would spoil the whole
group. Such a completion gets UNKNOWN, so that none gains by escaping its judge. It is counted and
logged, and a run of many of them ends in SandboxError; see unknown.py.
"""

import json
from typing import Any

from rewards.reward import Answer, Task
from rewards.shared import counted, shared_reward
from sandbox import Suite
from sandbox.record import suite_of

UNKNOWN = 0.0


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any) -> float:
    """1.0 if every test passes, else 0.0; UNKNOWN where nothing is known.

    Raises ValueError or KeyError for ground truth that is none, and SandboxError where there is no sandbox, or for a
    run of many completions that nothing is known of.
    """
    value = counted(shared_reward()(Answer(solution_str, 0), Task(tests=suite_of_ground_truth(ground_truth))))
    return UNKNOWN if value is None else value


def suite_of_ground_truth(text: str) -> Suite:
    """The suite in what verl calls ground truth: `inputs` and `outputs`, of calls one argument a line, and beside
    them what verl ignores. Raises ValueError or KeyError on anything else."""
    truth = json.loads(text)
    calls = "fn_name" in truth
    inputs = [f"[{', '.join(filter(None, lines.split(chr(10))))}]" for lines in truth["inputs"]] if calls else None
    tests = [{"input": i, "output": o} for i, o in zip(inputs or truth["inputs"], truth["outputs"], strict=True)]
    return suite_of({**truth, "tests": tests, "kind": "function" if calls else "stdin"})
