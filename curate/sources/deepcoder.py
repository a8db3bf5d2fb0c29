"""DeepCoder-Preview: four configs, distinguished by the formats of their tests.

taco            {"inputs", "outputs", "fn_name"?}
primeintellect  [{"type", "input", "output", "fn_name"?}], the statement in PrimeIntellect's prompt
lcbv5           [{"input", "output", "testtype"}], the function's name in the row's metadata
codeforces      [{"input", "output"}]; it is a test set

Rows have no id, so the name of a problem consists of its config, from the path of the file, and its position in the
config: `deepcoder/taco/17`. Only taco and primeintellect have solutions.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from curate.problem import Problem, Rejection
from curate.reading.dialects import ParsedTests, json_tests, parse_function_name
from curate.reading.prompt_templates import split_primeintellect_prompt
from curate.reading.solutions import parse_solution
from curate.reading.tables import Row, TableFiles, read_rows
from curate.reading.values import optional_text, parse_json_or_literal, parse_text_list
from curate.sources import make_problem, name_problems

TITLE = "DeepCoder-Preview"
HUB_ID = "agentica-org/DeepCoder-Preview-Dataset"
LICENCE = "mit"
SIZE_DESCRIPTION = "24,287 training problems (taco, primeintellect, lcbv5) and 687 test problems (codeforces, lcbv5)"
DEFECTS = "overlaps with TACO, SYNTHETIC-1 and LiveCodeBench; lcbv5 and codeforces without solutions; no ids, no limits"
COLUMNS = ("problem", "tests")
ONE_SHARD = True  # names are positions in all files of a config
OPTIONAL = ("solutions", "starter_code", "metadata")

_CONFIGS = ("taco", "primeintellect", "lcbv5", "codeforces")


def read(table: TableFiles) -> Iterator[Problem | Rejection]:
    """Yield problems in the order of the table."""
    counts: Counter[str] = Counter()
    for path in table.files:
        config = _find_config(path)
        rows = read_rows(replace(table, files=(path,)), COLUMNS, OPTIONAL)
        parse = partial(_parse_row, config)
        for item in name_problems(f"deepcoder/{config}", rows, parse, first=counts[config]):
            counts[config] += 1
            yield item


def _find_config(path: Path) -> str:
    return next((part for part in reversed(path.parts) if part in _CONFIGS), path.stem)


def _parse_row(config: str, id: str, row: Row) -> Problem:
    statement, starter_code = split_primeintellect_prompt(optional_text(row["problem"]))
    starter_code = optional_text(row["starter_code"]) or starter_code
    encoded = parse_json_or_literal(row["tests"], "tests") if isinstance(row["tests"], str) else row["tests"]
    tests = _parse_tests(encoded, row["metadata"], starter_code)
    has_solutions = row["solutions"] is not None or _has_solution_format(encoded)
    solutions = tuple(map(parse_solution, parse_text_list(row["solutions"], "solutions"))) if has_solutions else None
    return make_problem(id, tests, solutions, LICENCE, statement=statement, starter_code=starter_code, platform=config)


def _parse_tests(encoded: object, metadata: object, starter_code: str) -> ParsedTests:
    if isinstance(encoded, dict):
        return json_tests.read_columns(encoded, "tests")
    entry_point = None
    if isinstance(metadata, str) and metadata:
        metadata = parse_json_or_literal(metadata, "metadata")
    if isinstance(metadata, dict):
        entry_point = parse_function_name(metadata.get("func_name"), "func_name")
    return json_tests.parse_json_tests(encoded, entry_point, starter_code)


def _has_solution_format(encoded: object) -> bool:
    """Return whether tests have the format of taco or primeintellect, the configs with solutions."""
    return isinstance(encoded, dict) or (isinstance(encoded, list) and any("type" in test for test in encoded))
