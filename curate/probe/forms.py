"""The signatures of reward functions, and the formats in which they expect tests."""

import asyncio
import inspect
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sandbox.suite import Suite

SIGNATURES = ("plain", "trl", "verl", "rllm", "curate")
# The judges that curate opens itself, called as score(completion, tests).
RUN, VERIFIERS = "reward of a run", "verifiers"
_SIGNATURES_BY_PARAMETER = {
    "completions": "trl", "solution_str": "verl", "llm_solution": "rllm", "task_info": "rllm", "task": "curate",
}  # fmt: skip
_PROMPT = "Write a Python program that solves the problem."


class UnusableTarget(Exception):
    """An error for a target that cannot be probed. The message has the reason and a remedy."""


class BadScore(Exception):
    """An error for an invalid return value of a reward function."""


@dataclass(frozen=True, slots=True)
class TestForm:
    """A format of tests for a signature. make_arguments: returns the arguments other than the completion, by name"""

    name: str
    make_arguments: Callable[[Suite], dict[str, Any]]

    __test__ = False  # keeps pytest from collecting this class


def build_plain_tests(suite: Suite) -> list[dict[str, str]]:
    """Return the tests as dictionaries with `input`, `output` and, for functions, `fn_name`."""
    function = {} if suite.entry_point is None else {"fn_name": suite.entry_point}
    return [{"input": case.input, "output": case.expected, **function} for case in suite.cases]


def build_apps_tests(suite: Suite) -> dict[str, Any]:
    """Return the tests in APPS's format, with one argument per line for functions.

    Tests in Python are also in `assert_case`.
    """
    if suite.assertions is not None:
        statements = [case.input for case in suite.cases]
        return {
            "inputs": statements, "outputs": ["" for _ in statements], "assert_case": statements,
            "names": list(suite.assertions.names), "fn_name": suite.assertions.names[0],
        }  # fmt: skip
    if suite.entry_point is None:
        return {"inputs": [case.input for case in suite.cases], "outputs": [case.expected for case in suite.cases]}
    return {
        "inputs": ["\n".join(map(json.dumps, json.loads(case.input))) for case in suite.cases],
        "outputs": [case.expected for case in suite.cases],
        "fn_name": suite.entry_point,
    }


def _build_rllm_tests(suite: Suite) -> list[dict[str, Any]]:
    """Return the tests in rLLM's format for LiveCodeBench."""
    if suite.entry_point is None:
        return [{"input": c.input, "output": c.expected, "testtype": "stdin", "metadata": {}} for c in suite.cases]
    arguments = build_apps_tests(suite)["inputs"]
    return [
        {
            "input": lines,
            "output": case.expected,
            "testtype": "functional",
            "metadata": {"func_name": suite.entry_point},
        }
        for lines, case in zip(arguments, suite.cases, strict=True)
    ]


def _build_verl_arguments(suite: Suite) -> dict[str, Any]:
    return {"data_source": "apps", "ground_truth": json.dumps(build_apps_tests(suite)), "extra_info": {"index": 0}}


def _build_rllm_arguments(data_source: str, tests: Any) -> dict[str, Any]:
    task = {"problem": _PROMPT, "problem_type": "code", "data_source": data_source, "ground_truth": tests}
    return {"task_info": task, "data_source": data_source, "ground_truth": tests, "extra_info": {}}


def _build_trl_arguments(tests: Any, suite: Suite) -> dict[str, Any]:
    columns = {
        "tests": tests,
        "test_cases": build_plain_tests(suite),
        "ground_truth": json.dumps(build_apps_tests(suite)),
    }
    return {name: [value] for name, value in columns.items()}


FORMS: Mapping[str, tuple[TestForm, ...]] = {
    "plain": (TestForm("dictionaries", lambda suite: {"tests": build_plain_tests(suite)}),),
    "trl": (
        TestForm("tests: dictionaries", lambda suite: _build_trl_arguments(build_plain_tests(suite), suite)),
        TestForm("tests: a Suite as JSON", lambda suite: _build_trl_arguments(suite.to_json(), suite)),
        TestForm("tests: APPS's JSON", lambda suite: _build_trl_arguments(json.dumps(build_apps_tests(suite)), suite)),
    ),
    "verl": (TestForm("ground_truth: APPS's JSON", _build_verl_arguments),),
    "rllm": (
        TestForm(
            "LiveCodeBench's tests", lambda suite: _build_rllm_arguments("livecodebench", _build_rllm_tests(suite))
        ),
        TestForm("APPS's tests", lambda suite: _build_rllm_arguments("taco", build_apps_tests(suite))),
    ),
    "curate": (TestForm("a rewards.Task", lambda suite: {"suite": suite}),),
    RUN: (TestForm("a Suite", lambda suite: {"tests": suite}),),
    VERIFIERS: (
        TestForm("a Suite as JSON", lambda suite: {"tests": suite.to_json()}),
        TestForm("dictionaries", lambda suite: {"tests": build_plain_tests(suite)}),
        TestForm("APPS's JSON", lambda suite: {"tests": build_apps_tests(suite)}),
    ),
}


def detect_signature(function: Callable[..., Any]) -> str:
    """Return the signature of a reward function. Raises UnusableTarget if its parameters match none."""
    try:
        names = list(inspect.signature(function).parameters)
    except (ValueError, TypeError) as error:
        raise UnusableTarget(f"its parameters cannot be read: {error}; pass --signature") from error
    for name, signature in _SIGNATURES_BY_PARAMETER.items():
        if name in names:
            return signature
    if len(names) >= 2 and (names[0] == "completion" or names[1] == "tests"):
        return "plain"
    raise UnusableTarget(
        f"its parameters, {', '.join(names) or 'none'}, match no known signature; pass --signature "
        f"{'|'.join(SIGNATURES)}, or wrap it in score(completion, tests)"
    )


def prepare_call(
    function: Callable[..., Any], signature: str, form: TestForm, completion: str, suite: Suite
) -> Callable[[], Any]:
    """Bind a reward function to the arguments that its trainer would pass."""
    arguments = form.make_arguments(suite)
    if signature in ("plain", RUN, VERIFIERS):
        call = partial(function, completion, arguments["tests"])
    elif signature == "curate":
        from rewards.reward import Completion, Task

        task = Task(tests=arguments["suite"], id="probe")
        call = partial(function, Completion(completion, len(completion) // 4), task)
    else:
        completion_arguments: dict[str, dict[str, Any]] = {
            "trl": {"prompts": [_PROMPT], "completions": [completion], "completion_ids": [[0]]},
            "verl": {"solution_str": completion},
            "rllm": {"llm_solution": completion, "action": completion},
        }
        arguments |= completion_arguments[signature]
        call = partial(function, **_filter_arguments(function, arguments))
    return partial(_call_and_await, call)


def _call_and_await(call: Callable[[], Any]) -> Any:
    result = call()
    return asyncio.run(_await(result)) if inspect.isawaitable(result) else result


async def _await(result: Any) -> Any:
    return await result


def _filter_arguments(function: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that the function accepts as keywords."""
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        if "task_info" not in parameters:
            arguments = {name: value for name, value in arguments.items() if name not in ("task_info", "action")}
        return arguments
    return {name: value for name, value in arguments.items() if name in parameters}


def read_score(result: Any, signature: str) -> float | None:
    """Return the score in a reward function's result; None if the reward is unknown. Raises BadScore."""
    if signature == "trl":
        if not hasattr(result, "__len__") or isinstance(result, str):
            raise BadScore(f"it returned {_describe(result)}; TRL expects a list with one number per completion")
        if len(result) != 1:
            raise BadScore(f"it returned a list of {len(result)} for one completion")
        result = result[0]
    # Some functions return a score and its explanation.
    if isinstance(result, tuple) and result:
        result = result[0]
    if isinstance(result, dict):
        result = result.get("score", result.get("reward", result))
    # The fields of rLLM's RewardOutput and of curate's Reward.
    for name in ("reward", "value"):
        if hasattr(result, name) and not callable(getattr(result, name)):
            result = getattr(result, name)
            break
    if result is None:
        return None
    try:
        if isinstance(result, str | bytes):
            raise TypeError
        score = float(result)
    except (TypeError, ValueError, OverflowError):
        raise BadScore(
            f"it returned {_describe(result)}, not a number; return a float, or None if the reward is unknown"
        ) from None
    if not math.isfinite(score):
        raise BadScore(f"it returned {score}, not a finite number; return None if the reward is unknown")
    return score


def _describe(result: Any) -> str:
    try:
        return repr(result)[:80]
    except Exception:
        return f"an object of {type(result).__name__}"
