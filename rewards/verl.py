"""The reward for verl, in our sandbox and by our rules instead of verl's own:

    reward.custom_reward_function.path=pkg://rewards.verl reward.custom_reward_function.name=compute_score

on a dataset that `curate export --to verl` wrote. verl's scorers run programs unconfined in the trainer's process
tree, look at the first ten tests only once one has failed, and take no checker but their own. verl_manager.py scores
many completions at once.
"""

import json
from typing import Any

from rewards.execution import known, shared_reward
from rewards.reward import Answer, Task
from sandbox import Suite
from sandbox.record import suite_of


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any) -> float:
    """1.0 if every test passes, else 0.0. Raises SandboxError if the sandbox failed, ValueError if the tests did: for
    that verl has no word."""
    return known(shared_reward()(Answer(solution_str, 0), Task(tests=suite_of_ground_truth(ground_truth))))


def suite_of_ground_truth(text: str) -> Suite:
    """The suite in what verl calls ground truth: `inputs` and `outputs`, of calls one argument a line, and beside
    them what verl ignores. Raises ValueError or KeyError on anything else."""
    truth = json.loads(text)
    calls = "fn_name" in truth
    inputs = [f"[{', '.join(filter(None, lines.split(chr(10))))}]" for lines in truth["inputs"]] if calls else None
    tests = [{"input": i, "output": o} for i, o in zip(inputs or truth["inputs"], truth["outputs"], strict=True)]
    return suite_of({**truth, "tests": tests, "kind": "function" if calls else "stdin"})
