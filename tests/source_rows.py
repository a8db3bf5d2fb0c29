"""Small rows in the native encodings of the sources, written for the tests."""

import base64
import json
import pickle
import random
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SUM = "print(sum(map(int, input().split())))"
SUM_TESTS = [(f"{n} {n + 1}\n", f"{2 * n + 1}\n") for n in range(6)]
# What a build leaves in its folder if nothing is compared with evaluation sets.
FILES = {"README.md", "data", "digests.parquet", "evidence", "manifest.json", "rejected", "report.html", "report.json"}
DATA = Path(__file__).parents[2] / "shared" / "data"


def words(seed: object, n: int = 60) -> str:
    """Return the statement that belongs to a seed, which is always the same text."""
    rng = random.Random(str(seed))
    return " ".join("".join(rng.choices("abcdefghijklmnop", k=rng.randint(3, 8))) for _ in range(n))


def taco_row(statement: str, tests: Any = SUM_TESTS, solutions: Any = (SUM,), **changes: Any) -> dict[str, Any]:
    """Return a row of TACO.

    tests    pairs of input and output, as texts for stdin or as values for calls
    changes  values for other columns
    """
    entry_point = changes.pop("fn_name", None)
    content = {"inputs": [i for i, _ in tests], "outputs": [o for _, o in tests]}
    if entry_point:
        content["fn_name"] = entry_point
    names = "starter_code difficulty raw_tags name source tags skill_types url time_limit date memory_limit"
    row = dict.fromkeys([*names.split(), "Expected Auxiliary Space", "Expected Time Complexity"])
    row |= {"question": statement, "picture_num": "0", "tags": "['Sorting', 'Greedy']"}
    row |= {"solutions": json.dumps(list(solutions)), "input_output": json.dumps(content)}
    return row | changes


def synthetic1_row(
    id: str, statement: str, tests: Any = SUM_TESTS, gold: str | None = SUM, **changes: Any
) -> dict[str, Any]:
    """Return a row of SYNTHETIC-1.

    tests    pairs of stdin and stdout
    changes  values for other columns, or `info` for verification_info before it is encoded
    """
    cases = [{"type": "stdin_stdout", "input": i, "output": o} for i, o in tests]
    info = changes.pop("info", {"language": "python", "test_cases": cases})
    return {
        "response_id": f"{id}_r",
        "problem_id": id,
        "source": "codeforces",
        "in_source_id": id,
        "hf_dataset_name": "PrimeIntellect/verifiable-coding-problems",
        "task_type": "verifiable_code",
        "prompt": "Solve the following coding problem using the programming language python:\n\n"
        f"{statement}\n\nThe input will be stdin and you should print your solution to stdout\n\n\n"
        "Now solve the problem and return the code.",
        "gold_standard_solution": None if gold is None else f"```python\n{gold}\n```",
        "llm_response": "A long answer.",
        "verification_info": repr(info),
        "score": 1.0,
        "verification_result_info": "{}",
        "metadata": "{'difficulty': None, 'time_limit': '2 seconds', 'memory_limit': '256 megabytes'}",
    } | changes


def livecodebench_row(id: str, statement: str, tests: Any = SUM_TESTS, **changes: Any) -> dict[str, Any]:
    """Return a row of LiveCodeBench.

    tests    pairs of input and output, of which the first two are public
    changes  values for other columns, or `func_name`
    """
    func_name = changes.pop("func_name", None)
    kind = "functional" if func_name else "stdin"
    cases = [{"input": i, "output": o, "testtype": kind} for i, o in tests]
    return {
        "question_title": "A problem",
        "question_content": statement,
        "platform": "leetcode",
        "question_id": id,
        "contest_id": "1",
        "contest_date": "2024-08-01T00:00:00",
        "starter_code": "",
        "difficulty": "easy",
        "public_test_cases": json.dumps(cases[:2]),
        "private_test_cases": pack(json.dumps(cases[2:])),
        "metadata": json.dumps({"func_name": func_name} if func_name else {}),
    } | changes


def apps_row(
    id: int, statement: str, tests: Any = SUM_TESTS, solutions: Any = (SUM,), **changes: Any
) -> dict[str, Any]:
    """Return a row of APPS.

    tests    pairs of input and output, as texts for stdin or as values for calls
    changes  values for other columns
    """
    content = {"inputs": [i for i, _ in tests], "outputs": [o for _, o in tests]}
    if entry_point := changes.pop("fn_name", None):
        content["fn_name"] = entry_point
    return {
        "problem_id": id,
        "question": statement,
        "solutions": json.dumps(list(solutions)),
        "input_output": json.dumps(content),
        "difficulty": "interview",
        "url": "https://example.org/problem/7",
        "starter_code": "",
    } | changes


def codecontests_row(name: str, statement: str, tests: Any = SUM_TESTS, **changes: Any) -> dict[str, Any]:
    """Return a row of CodeContests.

    tests    pairs of stdin and stdout: one public, two private, the others generated
    changes  values for other columns
    """
    parts = {"public_tests": tests[:1], "private_tests": tests[1:3], "generated_tests": tests[3:]}
    return {
        "name": name,
        "description": statement,
        **{part: {"input": [i for i, _ in some], "output": [o for _, o in some]} for part, some in parts.items()},
        "source": 2,
        "difficulty": 8,
        "solutions": {"language": [3], "solution": [SUM]},
        "incorrect_solutions": {"language": [3], "solution": ["print(0)"]},
        "cf_contest_id": 76,
        "cf_index": "B",
        "cf_points": 0.0,
        "cf_rating": 2100,
        "cf_tags": ["greedy", "two pointers"],
        "is_description_translated": False,
        "untranslated_description": "",
        "time_limit": {"seconds": 1, "nanos": 500000000},
        "memory_limit_bytes": 536870912,
        "input_file": "",
        "output_file": "",
    } | changes


def deepcoder_row(statement: str, tests: Any, **columns: Any) -> dict[str, Any]:
    """Return a row of DeepCoder.

    tests    tests as the config has them, which the row holds as JSON text
    columns  the config's other columns
    """
    return {"problem": statement, "tests": json.dumps(tests)} | columns


def humaneval_row(number: int, **columns: Any) -> dict[str, Any]:
    """Return a row of HumanEval: a function that adds its arguments, with a helper before it."""
    return {
        "task_id": f"HumanEval/{number}",
        "prompt": "import math\n\n\ndef half(x: float) -> float:\n    return x / 2\n\n\n"
        'def add(x: int, y: int) -> int:\n    """Return the sum of x and y, which are\n    whole numbers.\n'
        '    >>> add(1, 2)\n    3\n    """\n',
        "entry_point": "add",
        "canonical_solution": "    return x + y\n",
        "test": "\n\nMETADATA = {'author': 'jt'}\n\n\ndef check(candidate):\n    assert candidate(1, 2) == 3\n"
        "    assert abs(half(candidate(1, 2)) - 1.5) < 1e-6\n    assert True, 'This prints if this assert fails'\n",
    } | columns


def mbpp_row(number: int, **columns: Any) -> dict[str, Any]:
    """Return a row of MBPP."""
    return {
        "task_id": number,
        "text": "Write a function to find the sum of two numbers.",
        "code": "import math\r\ndef add(x, y):\r\n  return x + y",
        "test_list": ["assert add(1, 2) == 3", "assert add((1,), ()) == (1,)", "assert math.isclose(add(.1, .2), .3)"],
        "test_setup_code": "",
        "challenge_test_list": ["assert add(-1, 1) == 0"],
    } | columns


def kodcode_row(id: str, **columns: Any) -> dict[str, Any]:
    """Return a row of KodCode."""
    return {
        "question_id": id,
        "subset": "Prefill",
        "style": "instruct",
        "question": "Write a function that adds two numbers, and refuses anything else.",
        "solution": "def add(x, y):\n    if isinstance(x, str):\n        raise ValueError('text')\n    return x + y",
        "test": "import pytest\nfrom solution import add\n\ndef test_small():\n    assert add(1, 2) == 3\n\n"
        "def test_text():\n    with pytest.raises(ValueError):\n        add('1', 2)\n",
        "test_info": [{"function_name": "add", "function_declaration": "def add(x, y):", "parameter_list": "(x, y)"}],
        "gpt_difficulty": "easy",
    } | columns


def leetcodedataset_row(slug: str, **columns: Any) -> dict[str, Any]:
    """Return a row of LeetCodeDataset, whose test uses a linked list."""
    return {
        "task_id": slug,
        "question_id": 1,
        "difficulty": "Easy",
        "tags": ["Linked List"],
        "problem_description": "Given the head of a linked list, return the list in reverse order.",
        "starter_code": "class Solution:\n    def reverse(self, head: Optional[ListNode]) -> Optional[ListNode]:\n",
        "estimated_date": "2024-08-01T00:00:00",
        "prompt": LISTS,
        "completion": "class Solution:\n    def reverse(self, head: Optional[ListNode]) -> Optional[ListNode]:\n"
        "        last = None\n        while head:\n            head.next, last, head = last, head, head.next\n"
        "        return last\n",
        "entry_point": "Solution().reverse",
        "test": "def check(candidate):\n"
        "    assert is_same_list(candidate(head = list_node([1, 2, 3])), list_node([3, 2, 1]))\n"
        "    assert candidate(head = None) == None\n",
    } | columns


LISTS = """from typing import *

inf = float('inf')

class ListNode:
    def __init__(self, val=0, next=None):
        self.val = val
        self.next = next

def list_node(values):
    head = None
    for value in reversed(values):
        head = ListNode(value, head)
    return head

def is_same_list(a, b):
    while a and b and a.val == b.val:
        a, b = a.next, b.next
    return a is None and b is None
"""


def pack(content: Any) -> str:
    """Pack private tests as LiveCodeBench does."""
    return base64.b64encode(zlib.compress(pickle.dumps(content))).decode()


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def read_parquet(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, or of all files in a folder."""
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def numinamath_row(problem: str, answer: str | None, **changes: Any) -> dict[str, Any]:
    """Return a row of NuminaMath-1.5. changes: values for other columns"""
    row = {"problem": problem, "solution": f"We count. The answer is {answer}.", "answer": answer}
    row |= {"problem_type": "Number Theory", "question_type": "math-word-problem", "source": "olympiads"}
    return row | {"problem_is_valid": "Yes", "solution_is_valid": "Yes", "synthetic": False} | changes


def deepscaler_row(problem: str, answer: str) -> dict[str, Any]:
    """Return a row of DeepScaleR-Preview."""
    return {"problem": problem, "answer": answer, "solution": ""}
