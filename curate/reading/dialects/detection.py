"""Read tests in any dialect. Their shape determines the dialect."""

from typing import Any

from curate.reading.dialects import ParsedTests, assertions, json_tests
from curate.reading.dialects.dependencies import find_defined_classes, find_defined_names
from curate.reading.values import ParseError, parse_json_or_literal


def read(
    encoded: object,
    entry_point: str | None = None,
    starter_code: str = "",
    *,
    given_code: str = "",
    setup: str = "",
    solution: str = "",
) -> ParsedTests:
    """Read tests, given as values or as text. Raises ParseError.

    entry_point        the function that the problem names outside of its tests
    given_code, setup  code for tests that are Python code; see assertions.read
    solution           one of the solutions; empty for none
    """

    def parse_python(code: object) -> ParsedTests:
        if not (given_code or setup or isinstance(code, list)):
            try:
                return assertions.read_examples(code, entry_point, starter_code)
            except json_tests.SignatureMismatch:
                raise
            except ParseError:
                pass  # the code has more than examples of calls
        defined = find_defined_names(solution)
        is_method = entry_point and ("Solution" in defined or "class Solution" in starter_code)
        called = f"Solution().{entry_point}" if is_method else entry_point
        classes = find_defined_classes(solution) if solution else None
        return assertions.read(code, called, given_code=given_code, setup=setup, defined_names=defined, classes=classes)

    if isinstance(encoded, str) and encoded.lstrip()[:1] not in ("[", "{", ""):
        return parse_python(encoded)
    content: Any = parse_json_or_literal(encoded, "tests") if isinstance(encoded, str) else encoded
    match content:
        case {"functional": code}:
            return parse_python(code)
        case {"test_cases": tests}:
            return json_tests.parse_json_tests(tests, entry_point, starter_code)
        case dict():
            return json_tests.read_named_columns(content, entry_point, starter_code)
        case [_, *_] if all(isinstance(item, str) for item in content):
            return parse_python(content)
    return json_tests.parse_json_tests(content, entry_point, starter_code)
