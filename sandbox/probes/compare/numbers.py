"""Submissions that output a number close to the expected one, or the same number in another notation."""

from sandbox.probes.probe import Group, JudgeProbe, ProbeClass, make_output_probe, make_stdin_problem, make_value_probe


def _make_number_probe(name: str, expected: str, printed: str, leniency: str = "") -> JudgeProbe:
    problem = make_stdin_problem("number", {"2\n": f"{expected}\n"}, f"print({expected!r})\n")
    return make_output_probe(name, problem, f"{printed}\n", leniency=leniency)


_DECIMAL = "LiveCodeBench compares tokens as decimal.Decimal, which parses both to the same value"
_PYTHON = "they are equal under Python's ==, which LiveCodeBench uses"

CLASS = ProbeClass(
    Group.COMPARE,
    "numbers",
    why="The judge compares integers as floats, or with a tolerance meant for floats.",
    remedy="Compare integers exactly, and floats with the tolerance of the problem; never accept NaN.",
    source="ours",
    probes=(
        _make_number_probe("next-to-a-billion", "1000000007", "1000000008"),
        _make_number_probe("two-to-the-53rd", "9007199254740993", "9007199254740992"),
        _make_number_probe("last-of-thirty-digits", "123456789012345678901234567890", "123456789012345678901234567891"),
        _make_number_probe("rounded", "3.45", "3"),
        _make_number_probe("one-tenth-off", "0.5", "0.6"),
        _make_number_probe("one-percent-off", "100.5", "101.3"),
        _make_number_probe("two-decimals", "3.14159", "3.14"),
        _make_number_probe("sign", "-5", "5"),
        _make_number_probe("not-a-number", "12", "nan"),
        _make_number_probe("infinity", "1" + "0" * 308 + "7", "inf"),
        _make_number_probe("infinite-token", "12", "inf"),
        _make_number_probe("ten-times", "12", "120"),
        _make_number_probe("minus-zero", "0", "-0", _DECIMAL),
        _make_number_probe("float-for-integer", "12", "12.0", _DECIMAL),
        _make_number_probe("leading-zeros", "12", "0012", _DECIMAL),
        _make_number_probe("plus-sign", "12", "+12", _DECIMAL),
        _make_number_probe("exponent", "1200", "1.2e3", _DECIMAL),
        _make_number_probe("underscores", "1200", "1_200", _DECIMAL),
        _make_number_probe("arabic-digits", "12", "\u0661\u0662", _DECIMAL),
        _make_number_probe(
            "near-a-float", "0.333333333", "0.3333333331", "floats are commonly compared within 1e-6 or 1e-9"
        ),
        make_value_probe("next-to-a-billion-returned", 1000000007, "1000000008"),
        make_value_probe("float-near-an-integer", 12, "12.000001"),
        make_value_probe("integer-below-a-float", 2.5, "2"),
        make_value_probe("two-decimals-returned", 3.14159, "3.14"),
        make_value_probe("sign-returned", -5, "5"),
        make_value_probe("two-to-the-53rd-returned", 9007199254740993, "9007199254740992.0"),
        make_value_probe("not-a-number-returned", 12, "float('nan')"),
        make_value_probe("infinity-returned", 12, "float('inf')"),
        make_value_probe("equal-float-returned", 12, "12.0", leniency=_PYTHON),
        make_value_probe("one-for-true", True, "1", leniency=_PYTHON),
        make_value_probe("zero-for-false", False, "0", leniency=_PYTHON),
        make_value_probe("true-for-one", 1, "True", leniency=_PYTHON),
    ),
)
