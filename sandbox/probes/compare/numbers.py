"""Prints or returns a number close to the expected one, or the same number in another notation."""

from sandbox.probes.probe import Group, JudgeProbe, ProbeClass, prints, returns, stdin_problem


def _prints(name: str, right: str, printed: str, leniency: str = "") -> JudgeProbe:
    problem = stdin_problem("number", {"2\n": f"{right}\n"}, f"print({right!r})\n")
    return prints(name, problem, f"{printed}\n", leniency=leniency)


_DECIMAL = "LiveCodeBench compares tokens as decimal.Decimal, which parses both to the same value"
_PYTHON = "they are equal under Python's ==, which LiveCodeBench uses"

CLASS = ProbeClass(
    Group.COMPARE,
    "numbers",
    why="The judge compares integers as floats, or with a tolerance meant for floats.",
    remedy="Compare integers exactly, and floats with the tolerance of the problem; never accept NaN.",
    source="ours",
    probes=(
        _prints("next-to-a-billion", "1000000007", "1000000008"),
        _prints("two-to-the-53rd", "9007199254740993", "9007199254740992"),
        _prints("last-of-thirty-digits", "123456789012345678901234567890", "123456789012345678901234567891"),
        _prints("rounded", "3.45", "3"),
        _prints("one-tenth-off", "0.5", "0.6"),
        _prints("one-percent-off", "100.5", "101.3"),
        _prints("two-decimals", "3.14159", "3.14"),
        _prints("sign", "-5", "5"),
        _prints("not-a-number", "12", "nan"),
        _prints("infinity", "1" + "0" * 308 + "7", "inf"),
        _prints("infinite-token", "12", "inf"),
        _prints("ten-times", "12", "120"),
        _prints("minus-zero", "0", "-0", _DECIMAL),
        _prints("float-for-integer", "12", "12.0", _DECIMAL),
        _prints("leading-zeros", "12", "0012", _DECIMAL),
        _prints("plus-sign", "12", "+12", _DECIMAL),
        _prints("exponent", "1200", "1.2e3", _DECIMAL),
        _prints("underscores", "1200", "1_200", _DECIMAL),
        _prints("arabic-digits", "12", "\u0661\u0662", _DECIMAL),
        _prints("near-a-float", "0.333333333", "0.3333333331", "floats are commonly compared within 1e-6 or 1e-9"),
        returns("next-to-a-billion-returned", 1000000007, "1000000008"),
        returns("float-near-an-integer", 12, "12.000001"),
        returns("integer-below-a-float", 2.5, "2"),
        returns("two-decimals-returned", 3.14159, "3.14"),
        returns("sign-returned", -5, "5"),
        returns("two-to-the-53rd-returned", 9007199254740993, "9007199254740992.0"),
        returns("not-a-number-returned", 12, "float('nan')"),
        returns("infinity-returned", 12, "float('inf')"),
        returns("equal-float-returned", 12, "12.0", leniency=_PYTHON),
        returns("one-for-true", True, "1", leniency=_PYTHON),
        returns("zero-for-false", False, "0", leniency=_PYTHON),
        returns("true-for-one", 1, "True", leniency=_PYTHON),
    ),
)
