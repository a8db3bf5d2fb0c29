"""The code reward for verl, judged in curate's sandbox:

    reward.custom_reward_function.path=pkg://rewards.verl reward.custom_reward_function.name=compute_score

with a dataset that `curate export --to verl` wrote. verl_manager.py scores many completions concurrently.

verl has no value for an unknown reward: it cannot exclude a completion from its group, and NaN would invalidate the
whole group. Such a completion gets UNKNOWN (0.0), so a program gains nothing by breaking the judge. Each unknown reward
is counted and logged, and too many raise a SandboxError; see process_singletons.py.
"""

from typing import Any

from rewards.process_singletons import get_shared_reward, record_and_get_value
from rewards.reward import Completion, Task
from sandbox import Suite, json_codec
from sandbox.judge_record import Record

UNKNOWN = 0.0


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any) -> float:
    """Return 1.0 if the program passes every test, UNKNOWN if the reward is unknown, else 0.0.

    solution_str   the completion
    ground_truth   the tests; see `parse_ground_truth`

    Ignores the other parameters, which verl passes. Raises ValueError or KeyError for invalid ground truth, and
    SandboxError after many unknown rewards or if it cannot open a sandbox.
    """
    task = Task(tests=parse_ground_truth(ground_truth))
    value = record_and_get_value(get_shared_reward()(Completion(solution_str, 0), task))
    return UNKNOWN if value is None else value


def parse_ground_truth(text: str) -> Suite:
    """Parse verl's ground truth into a suite.

    The text is a JSON object with `inputs`, `outputs` and further fields of a judge record, which verl ignores. The
    input of a call has one argument per line. Raises ValueError or KeyError for anything else.
    """
    truth = json_codec.loads(text)
    calls_function = "fn_name" in truth
    inputs = [_join_arguments(lines) for lines in truth["inputs"]] if calls_function else truth["inputs"]
    pairs = zip(inputs, truth["outputs"], strict=True)
    tests = [{"input": text, "output": expected} for text, expected in pairs]
    kind = "assertions" if "names" in truth else "function" if calls_function else "stdin"
    fields = {name: value for name, value in truth.items() if name in Record.__struct_fields__}
    record = json_codec.decode(Record, {**fields, "id": "", "code": "", "tests": tests, "kind": kind})
    return record.to_suite().with_trials(truth.get("trials", ()))


def _join_arguments(lines: str) -> str:
    return f"[{', '.join(line for line in lines.split(chr(10)) if line)}]"
