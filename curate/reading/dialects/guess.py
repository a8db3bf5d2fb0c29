"""Read tests in any of the dialects, which are distinguished by their shape."""

from typing import Any

from curate.reading.dialects import asserts, cases, inputs_outputs
from curate.reading.dialects.parsed import Parsed
from curate.reading.values import python_value


def read(encoded: object, entry_point: str | None = None, starter_code: str = "") -> Parsed:
    """Read tests that are given as values or as text. Raises Unparsable."""
    if isinstance(encoded, str) and encoded.lstrip()[:1] not in ("[", "{", ""):
        return asserts.read(encoded, entry_point, starter_code)
    content: Any = python_value(encoded, "tests") if isinstance(encoded, str) else encoded
    if isinstance(content, dict):
        if "functional" in content:
            return asserts.read(content["functional"], entry_point, starter_code)
        if "test_cases" in content:
            return cases.read(content["test_cases"], entry_point, starter_code)
        if entry_point:
            content = {**content, "fn_name": entry_point}
        return inputs_outputs.read(content, "tests")
    return cases.read(content, entry_point, starter_code)
