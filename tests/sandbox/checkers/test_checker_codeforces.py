"""`codeforces`: neither lines nor the case of yes and no matter; integers are exact, decimals are within 1e-6."""

import pytest

from sandbox.checkers import codeforces


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("YES\nforcodesec\nno", "Yes forcodesec NO"),
        ("1 2\n3\n", "1\n2 3"),
        ("1\r\n\r\n2", "1\n2"),
        ("", " \n"),
        ("0.30000000000000004", "0.3"),
        ("nO", "No"),
        pytest.param("yes " * 1_000_000, "YES\n" * 1_000_000, id="a million lines"),
    ],
)
def test_codeforces_accepts(printed: str, expected: str) -> None:
    assert codeforces.same_output(printed, expected)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("YES", "NO"),
        ("yesno", "yes no"),
        ("YESS", "YES"),
        ("alice", "Alice"),
        ("1 2", "1 2 3"),
        ("1 2 3", "1 2"),
        ("7.0", "7"),
        ("007", "7"),
        ("0.31", "0.3"),
        ("2 1", "1 2"),
        ("", "0"),
        ("no", ""),
        pytest.param("yes " * 1_000_000 + "no", "YES\n" * 1_000_000, id="a million lines and one more"),
    ],
)
def test_codeforces_refuses(printed: str, expected: str) -> None:
    assert not codeforces.same_output(printed, expected)


def test_values_are_compared_as_tokens_are() -> None:
    assert codeforces.same_value([1.0], [1.0000001])
    assert not codeforces.same_value([1], [2])
