"""Small rows in the two published forms of HumanEval+ and MBPP+, written for the tests."""

from pathlib import Path
from typing import Any

from source_rows import write_jsonl

WRONG = "```python\ndef up(ns):\n    return ns\n```"
PROMPT = "from typing import List\n\ndef one() -> int:\n    return 1\n\n\ndef up(ns: List[int]) -> List[int]:\n"


def suite_of(folder: Path, *rows: dict[str, Any]) -> str:
    """Write rows of HumanEval+, and return the suite for `--suite`."""
    return f"humaneval+={write_jsonl(folder / 'rows.jsonl', list(rows))}"


def humaneval_plus_row(number: int = 0, **columns: Any) -> dict[str, Any]:
    """Return a row of EvalPlus's own file: a function that adds one to each number of a list."""
    return {
        "task_id": f"HumanEval/{number}",
        "prompt": PROMPT + '    """Add one to each number."""\n',
        "entry_point": "up",
        "canonical_solution": "    return [n + one() for n in ns]\n",
        "test": "def check(candidate):\n    assert candidate([1]) == [2]\n",
        "base_input": [[[1]], [[]]],
        "plus_input": [[[1, 2]], [[0.5]], [[10**30]]],
        "atol": 0,
    } | columns


def humaneval_plus_hub_row(number: int = 0, **columns: Any) -> dict[str, Any]:
    """Return the same in the Hub's form, in which one list has all inputs."""
    row = humaneval_plus_row(number)
    test = (
        "import numpy as np\n\ndef is_floats(x) -> bool:\n    return isinstance(x, float)\n\n"
        "def assertion(out, exp, atol):\n    assert out == exp\n\n\ndef check(candidate):\n"
        "    inputs = [[[1]], [[]], [[1, 2]], [[0.5]], [[10]]]\n    results = [[2], [], [2, 3], [1.5], [11]]\n"
        "    for i, (inp, exp) in enumerate(zip(inputs, results)):\n        assertion(candidate(*inp), exp, 0)\n"
    )
    kept = ("task_id", "prompt", "entry_point", "canonical_solution")
    return {name: row[name] for name in kept} | {"test": test} | columns


def mbpp_plus_row(number: int = 2, **columns: Any) -> dict[str, Any]:
    """Return a row of EvalPlus's own file of MBPP+. Number 2 is a task whose arguments are tuples."""
    return {
        "task_id": f"Mbpp/{number}",
        "prompt": '"""\nWrite a function that finds what is in both.\n'
        'assert set(similar_elements((1, 2),(2, 3))) == {2}\n"""\n',
        "entry_point": "similar_elements",
        "canonical_solution": "\ndef similar_elements(a, b):\n  assert type(a) is tuple\n"
        "  return tuple(set(a) & set(b))\n",
        "base_input": [[[1, 2], [2, 3]]],
        "plus_input": [[[], []], [[1, 2, 3], [3, 2, 9]]],
        "atol": 0,
        "assertion": "\nassert similar_elements((1, 2),(2, 3)) == (2,)\n",
    } | columns


def mbpp_plus_hub_row(number: int = 2, **columns: Any) -> dict[str, Any]:
    """Return the same in the Hub's form."""
    return {
        "task_id": number,
        "code": mbpp_plus_row()["canonical_solution"],
        "prompt": "Write a function that finds what is in both.",
        "test_imports": [],
        "test_list": ["assert set(similar_elements((1, 2),(2, 3))) == {2}"],
        "test": "import numpy as np\nfrom math import inf\n\n"
        "def assertion(out, exp, atol):\n    assert set(out) == set(exp)\n\n"
        "inputs = [[(1, 2), (2, 3)], [(), ()], [(1, 2, inf), (inf, 2, 9)]]\nresults = [(2,), (), (2, inf)]\n"
        "for i, (inp, exp) in enumerate(zip(inputs, results)):\n    assertion(similar_elements(*inp), exp, 0)\n",
    } | columns
