"""Two reward functions for `curate probe`: a naive one that programs can deceive, and a sound one."""

import json
import re
import subprocess
import sys

from sandbox import Case, Program, Sandbox, Suite


def _extract_program(completion: str) -> str | None:
    blocks = re.findall(r"```python\n(.*?)```", completion, re.DOTALL)
    return blocks[-1] if blocks else None


def score(completion: str, tests: list[dict[str, str]]) -> float:
    """Append each test to the program, and check the exit status."""
    program = _extract_program(completion)
    if program is None:
        return 0.0
    for test in tests:
        given, expected = json.loads(test["input"]), json.loads(test["output"])
        harness = f"{program}\nassert {test['fn_name']}(*{given!r}) == {expected!r}\n"
        if subprocess.run([sys.executable, "-c", harness], capture_output=True, timeout=10).returncode != 0:
            return 0.0
    return 1.0


_box: Sandbox | None = None


def sound(completion: str, tests: list[dict[str, str]]) -> float:
    """Send only arguments to the program, and compare its return value in another process."""
    global _box
    _box = _box or Sandbox()
    program = _extract_program(completion)
    if program is None:
        return 0.0
    cases = [Case(test["input"], test["output"]) for test in tests]
    return float(_box.judge(Program(program), Suite(cases, entry_point=tests[0].get("fn_name"))).accepted)
