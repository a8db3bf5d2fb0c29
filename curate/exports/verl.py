"""The export target verl: train.parquet for verl, which chooses its default scorer by `data_source`.

For the names in SCORED_BY_VERL, the scorer is verl's prime_code, or its client of SandboxFusion if a URL is configured.
This scorer takes tests in APPS's format, {"inputs", "outputs", "fn_name"}. Once a test has failed, it counts only the
first ten tests, so a program that fails only the eleventh gets the full reward. Therefore the export has at most ten
tests per row, and no rows that this scorer would misjudge. Any other name is for `rewards.verl`, which runs all tests
in curate's sandbox.

See verl/utils/reward_score/__init__.py, prime_code/testing_util.py and sandbox_fusion/utils.py of verl 0.9.1.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from curate.errors import CurateError
from curate.exports._export import (
    UNSUPPORTED_LIMITS_MESSAGE,
    ExportOptions,
    Row,
    collect_common_values,
    get_conversation_type,
    has_nondefault_limits,
    make_conversation,
    make_suite_record,
    write_parquet,
    write_readme,
)
from curate.problem import Problem
from sandbox import Case, Suite

SCORED_BY_VERL = ("apps", "codecontests", "codeforces", "taco")
_COUNTED_TESTS = 10
# Checkers that verl's comparison approximates; it accepts 1.0 for 1.
_TEXT_CHECKERS, _CALL_CHECKERS = ("lcb",), ("lcb", "exact")
# Maximum CPU seconds of a reference for all calls, and for a test of stdin. verl's scorer allows 6 s and 10 s; the
# machine that trains may be slower.
_MAX_CALLS_SECONDS = 3.0
_MAX_TEST_SECONDS = 5.0
EXCLUSION_REASONS = {
    "limits": UNSUPPORTED_LIMITS_MESSAGE,
    "checker": "a checker that verl's scorer lacks; choose another --verl-data-source to use rewards.verl",
    "arguments": "calls with arguments or values that verl cannot receive or would alter: no arguments at all, "
    "dictionaries keyed by numbers, integers of thousands of digits",
    "assertions": "tests that are Python code; choose another --verl-data-source to use rewards.verl",
    "slow": "a reference that may need more time than verl's scorer allows",
}
_README = """# Problems for verl

`train.parquet` has verl's columns: `data_source`, `prompt`, `ability`, `reward_model`, `extra_info`.

    data.train_files=DIR/train.parquet

{scoring}

To judge completions in the sandbox of curate-code instead, with its checkers and limits, by all tests:

    reward.custom_reward_function.path=pkg://rewards.verl reward.custom_reward_function.name=compute_score

If many processes score, set CURATE_URL to the address of one `curate serve`.
"""
_VERL_SCORES = """`data_source` is {name}: verl scores with its own `prime_code`, which returns the share of passed
tests among the first ten. It accepts some wrong outputs: the first element of an expected list, and numbers within
1e-5. It rejects right programs that read `sys.stdin.buffer`, import `*` or assign to imported names, because it runs
them inside a function. Its `sandbox_fusion` (`reward.sandbox_fusion.url=http://HOST:8080/run_code`, of a `curate
serve`) has none of these faults. However, it rejects functions that return text, and returns 0 if the service is
unreachable."""
_CURATE_SCORES = "`data_source` is {name}, which verl's own scorers do not support: configure the reward below."


def apply_target_limits(options: ExportOptions) -> ExportOptions:
    """Cap the number of tests at the maximum of verl's scorer. Raises CurateError if the options request more."""
    if options.verl_data_source not in SCORED_BY_VERL:
        return options
    if options.select == "all" or (options.budget or 0) > _COUNTED_TESTS:
        raise CurateError(
            f"verl's scorer of data_source {options.verl_data_source} counts only the first {_COUNTED_TESTS} tests. "
            f"Add --budget {_COUNTED_TESTS} and --select longest or strongest; or add --verl-data-source curate and "
            "score with rewards.verl."
        )
    return replace(options, budget=options.budget or _COUNTED_TESTS)


def find_unsupported_reason(problem: Problem, options: ExportOptions) -> str | None:
    suite, calls = problem.tests, problem.tests.entry_point is not None
    uses_verl_scorer = options.verl_data_source in SCORED_BY_VERL
    if has_nondefault_limits(suite):
        return "limits"
    if uses_verl_scorer and suite.assertions is not None:
        return "assertions"
    if uses_verl_scorer and suite.checker not in (_CALL_CHECKERS if calls else _TEXT_CHECKERS):
        return "checker"
    if calls and not all(_is_expressible(case, uses_verl_scorer=uses_verl_scorer) for case in suite.cases):
        return "arguments"
    slowest = problem.slowest_cpu_seconds or 0.0
    max_seconds = _MAX_CALLS_SECONDS / len(suite.cases) if calls else _MAX_TEST_SECONDS
    return "slow" if uses_verl_scorer and slowest > max_seconds else None


def write(problems: Iterable[Problem], folder: Path, options: ExportOptions) -> None:
    import pyarrow as pa

    text = pa.string()
    extra = {"split": text, "index": pa.int64(), "id": text, "source": text, "reference": text, "licence": text}
    schema = pa.schema(
        {
            "data_source": text,
            "prompt": get_conversation_type(),
            "ability": text,
            "reward_model": pa.struct({"style": text, "ground_truth": text}),
            "extra_info": pa.struct(extra),
        }
    )
    write_parquet(_make_rows(problems, options), schema, folder / "train.parquet", tests=_get_ground_truth)
    scoring = _VERL_SCORES if options.verl_data_source in SCORED_BY_VERL else _CURATE_SCORES
    readme = _README.format(scoring=scoring.format(name=options.verl_data_source))
    arguments = options.prompt.template_arguments.items()
    given = (f"+data.apply_chat_template_kwargs.{name}={json.dumps(value)}" for name, value in arguments)
    write_readme(folder, readme, options.prompt, f"Pass `{' '.join(given)}` to verl.")


def _make_rows(problems: Iterable[Problem], options: ExportOptions) -> Iterator[Row]:
    for index, problem in enumerate(problems):
        yield {
            "data_source": options.verl_data_source,
            "prompt": make_conversation(problem, options.prompt),
            "ability": "code",
            "reward_model": {"style": "rule", "ground_truth": json.dumps(_make_ground_truth(problem.tests))},
            "extra_info": {"split": "train", "index": index, **collect_common_values(problem)},
        }


def _get_ground_truth(row: Row) -> str:
    tests: str = row["reward_model"]["ground_truth"]
    return tests


def _make_ground_truth(suite: Suite) -> dict[str, object]:
    """Return the suite in APPS's format, with further fields that only rewards.verl reads."""
    cases = suite.cases
    if suite.entry_point is not None:
        cases = tuple(map(_convert_call, cases))
    elif suite.checker == "lcb":
        # The checker `lcb` strips the lines of both outputs, but verl does not strip the expected ones.
        cases = tuple(Case(case.input, _strip_lines(case.expected)) for case in cases)
    fields = {
        name: value for name, value in make_suite_record(suite).items() if name not in ("kind", "tests", "fn_name")
    }
    function = {} if suite.entry_point is None else {"fn_name": suite.entry_point}
    trials = {"trials": suite.trials} if suite.trials else {}
    return {"inputs": [c.input for c in cases], "outputs": [c.expected for c in cases], **trials, **function, **fields}


def _convert_call(case: Case) -> Case:
    """Return the call with one argument per line, in the format of json.dumps, which one of verl's scorers compares."""
    arguments = "\n".join(map(json.dumps, json.loads(case.input)))
    return Case(arguments, json.dumps(json.loads(case.expected)))


def _strip_lines(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().split("\n"))


def _is_expressible(case: Case, *, uses_verl_scorer: bool) -> bool:
    """Return whether a call can be written as JSON and, for verl's scorer, is passed and compared unchanged."""
    try:
        arguments, value = json.loads(case.input), json.loads(case.expected)
    # An integer may exceed Python's limit of digits.
    except ValueError:
        return False
    if not uses_verl_scorer:
        return True
    first = value[0] if isinstance(value, list) and value else None
    return bool(arguments) and not any(map(_is_keyed_by_integers, (arguments[0], value, first)))


def _is_keyed_by_integers(value: object) -> bool:
    """Return whether this is an empty dictionary, or one with only integer keys, which verl's scorer would alter."""
    return isinstance(value, dict) and all(map(_is_integer, value))


def _is_integer(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True
