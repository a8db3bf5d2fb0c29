"""Whatever a row holds, reading and screening it gives one Problem or one Rejection, and never an exception."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from source_rows import pack, write_jsonl

from curate.pipeline import BuildOptions, read_and_filter
from curate.problem import Problem, Rejection, from_row, to_row
from curate.reading.tables import locate

TEXT = st.text(max_size=8) | st.sampled_from(["1", "[1]", "stdin", "functional", "f", "²", "\ud800", "print(1)"])
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def encoded(content: st.SearchStrategy[Any], encode: Callable[[Any], str]) -> st.SearchStrategy[Any]:
    """Generate the content as its source encodes it, and sometimes anything else."""
    return content.map(encode) | content | VALUE


def record(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(fields) | VALUE


CASES = st.lists(VALUE, max_size=3)
TACO_TESTS = record(inputs=CASES, outputs=CASES, fn_name=st.just("f") | VALUE) | st.integers(0, 6).map(
    lambda n: {"inputs": [[i] for i in range(n)], "outputs": [[i] for i in range(n)], "fn_name": "f"}
)
KIND = st.sampled_from(["stdin_stdout", "function_call"]) | VALUE
SYNTHETIC1_TEST = record(type=KIND, input=VALUE, output=VALUE, fn_name=st.just("f") | VALUE)
LCB_TEST = record(input=TEXT, output=TEXT, testtype=st.sampled_from(["stdin", "functional"]) | VALUE)
ROWS = {
    "taco": {
        "question": TEXT | VALUE,
        "solutions": encoded(st.lists(TEXT, max_size=3), json.dumps),
        "input_output": encoded(TACO_TESTS, json.dumps),
        "tags": VALUE,
        "time_limit": VALUE,
        "picture_num": TEXT | VALUE,
        "url": VALUE,
    },
    "synthetic1": {
        "problem_id": TEXT | VALUE,
        "task_type": st.just("verifiable_code") | VALUE,
        "prompt": TEXT | VALUE,
        "gold_standard_solution": TEXT | VALUE,
        "verification_info": encoded(record(language=VALUE, test_cases=st.lists(SYNTHETIC1_TEST, max_size=3)), repr),
        "metadata": encoded(record(time_limit=VALUE, memory_limit=VALUE), repr),
    },
    "livecodebench": {
        "question_content": TEXT | VALUE,
        "question_id": TEXT | VALUE,
        "public_test_cases": encoded(st.lists(LCB_TEST, max_size=3), json.dumps),
        "private_test_cases": encoded(st.lists(LCB_TEST, max_size=3), lambda tests: pack(json.dumps(tests))),
        "metadata": encoded(record(func_name=st.just("f") | VALUE), json.dumps),
        "starter_code": st.just("def f(n: int):") | VALUE,
    },
}

LISTS = record(input=st.lists(TEXT, max_size=3), output=st.lists(TEXT, max_size=3))
DEEPCODER_TEST = record(input=VALUE, output=VALUE, testtype=KIND, type=KIND, fn_name=st.just("f") | VALUE)
CHECK = st.just("def check(candidate):\n    assert candidate(1) == 2\ncheck(f)")
ROWS |= {
    "apps": {
        "problem_id": st.integers() | VALUE,
        "question": TEXT | VALUE,
        "solutions": encoded(st.lists(TEXT, max_size=3), json.dumps),
        "input_output": encoded(TACO_TESTS, json.dumps),
    },
    "codecontests": {
        "name": TEXT | VALUE,
        "description": TEXT | VALUE,
        "public_tests": LISTS,
        "private_tests": LISTS,
        "generated_tests": st.none() | LISTS,
        "solutions": record(language=st.lists(st.integers(0, 5), max_size=2), solution=st.lists(TEXT, max_size=2)),
        "source": VALUE,
        "difficulty": VALUE,
        "cf_contest_id": VALUE,
        "cf_index": VALUE,
        "cf_rating": VALUE,
        "cf_tags": VALUE,
        "time_limit": record(seconds=VALUE, nanos=VALUE),
        "memory_limit_bytes": VALUE,
        "input_file": st.just("") | VALUE,
    },
    "deepcoder": {
        "problem": TEXT | VALUE,
        "tests": encoded(TACO_TESTS | st.lists(DEEPCODER_TEST, max_size=3), json.dumps),
        "solutions": VALUE,
        "metadata": encoded(record(func_name=st.just("f") | VALUE), json.dumps),
        "starter_code": st.just("def f(n: int):") | VALUE,
    },
    "generic": {
        "id": VALUE,
        "statement": TEXT | VALUE,
        "tests": encoded(TACO_TESTS | st.lists(DEEPCODER_TEST, max_size=3) | CHECK, json.dumps),
        "fn_name": st.just("f") | st.none() | VALUE,
        "solutions": VALUE,
        "language": VALUE,
        "time_limit": VALUE,
        "memory_limit": VALUE,
        "tags": VALUE,
        "starter_code": st.just("def f(n: int):") | VALUE,
    },
}


@pytest.mark.parametrize("source", list(ROWS))
def test_any_row_is_a_problem_or_a_rejection(source, tmp_path):
    options = {"fields": {name: name for name in ROWS[source]}} if source == "generic" else {}

    @settings(max_examples=2 * settings.default.max_examples, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.fixed_dictionaries(ROWS[source]), min_size=1, max_size=5))
    def check(rows):
        rows = [dict.fromkeys(ROWS[source], "x"), *rows]  # a field without a value in any row would be a mistake
        table = replace(locate(str(write_jsonl(tmp_path / "rows.jsonl", rows))), options=options)
        items = list(read_and_filter([(source, table)], BuildOptions(min_tests=1)))
        assert len(items) <= len(rows)  # responses to one problem become one problem
        for item in items:
            assert isinstance(item, Problem | Rejection)
            if isinstance(item, Problem):
                assert from_row(json.loads(json.dumps(to_row(item)))) == item

    check()
