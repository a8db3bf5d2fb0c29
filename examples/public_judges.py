"""Public judges of code as targets of `curate probe`; each needs its package.

curate probe examples.public_judges:evalplus --quick
"""

import json
from typing import Any


def _extract_program(completion: str) -> str:
    return completion.split("```python\n")[-1].split("```")[0]


def evalplus(completion: str, tests: list[dict[str, str]]) -> float:
    """Return the verdict of EvalPlus, whose tests are calls of functions."""
    from evalplus.eval import PASS, untrusted_check

    inputs = [json.loads(test["input"]) for test in tests]
    expected = [json.loads(test["output"]) for test in tests]
    times = [1.0 for _ in tests]
    verdict, _ = untrusted_check("mbpp", _extract_program(completion), inputs, tests[0]["fn_name"], expected, 0, times)
    return float(verdict == PASS)


def lighteval(completion: str, tests: list[dict[str, str]]) -> float:
    """Return the verdict of lighteval's grader for LiveCodeBench."""
    from lighteval.tasks.tasks.lcb.codegen_metrics import check_correctness

    called = tests[0].get("fn_name")
    inputs = [test["input"] for test in tests]
    if called:
        inputs = ["\n".join(map(json.dumps, json.loads(given))) for given in inputs]
    suite: dict[str, Any] = {"inputs": inputs, "outputs": [test["output"] for test in tests], "fn_name": called}
    results = check_correctness({"input_output": json.dumps(suite)}, _extract_program(completion), timeout=6)
    return float(all(result is True or result == 1 for result in results))
