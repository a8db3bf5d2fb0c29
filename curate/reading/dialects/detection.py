"""A reader of tests in any dialect, which it detects by their shape."""

from typing import Any

from curate.reading.dialects import ParsedTests, assertions, json_tests
from curate.reading.dialects.dependencies import find_defined_classes, find_defined_names
from curate.reading.values import ParseError, parse_json_or_literal


def read(
    encoded: object,
    entry_point: str | None = None,
    starter_code: str = "",
    *,
    preamble: str = "",
    setup: str = "",
    solution: str = "",
) -> ParsedTests:
    """Read tests. Raises ParseError.

    encoded          the tests, as values or as text
    entry_point      the function that the problem names outside of its tests; None for none
    starter_code     code with the signature of the function; empty for none
    preamble, setup  code for tests in Python code; see assertions.read
    solution         one of the solutions; empty for none
    """

    def parse_python(code: object) -> ParsedTests:
        if not (preamble or setup or isinstance(code, list)):
            try:
                return assertions.read_examples(code, entry_point, starter_code)
            except json_tests.SignatureMismatch:
                raise
            except ParseError:
                pass  # the code does not consist of examples alone
        defined_names = find_defined_names(solution)
        is_method = entry_point and ("Solution" in defined_names or "class Solution" in starter_code)
        return assertions.read(
            code,
            f"Solution().{entry_point}" if is_method else entry_point,
            preamble=preamble,
            setup=setup,
            defined_names=defined_names,
            classes=find_defined_classes(solution) if solution else None,
        )

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
