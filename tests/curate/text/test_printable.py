import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.text.printable import escape_unprintable, format_one_line, format_table


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("a\x1b[2Jb", "a\\x1b[2Jb", id="escape sequence"),
        pytest.param("a\rb", "a\\rb", id="carriage return that hides what was written"),
        pytest.param("a\r\nb", "a\nb", id="line end of another system"),
        pytest.param("a\u202eb", "a\\u202eb", id="letters turned round"),
        pytest.param("\x9b31m", "\\x9b31m", id="escape sequence of one byte"),
        pytest.param("\u2028", "\\u2028", id="line separator"),
        pytest.param("\ud800", "\\ud800", id="half a surrogate pair"),
        pytest.param("≤ é 猫\t\u00a0x\n", "≤ é 猫\t\u00a0x\n", id="ordinary text"),
    ],
)
def test_characters_that_control_a_terminal_are_spelled_out(text, shown):
    assert escape_unprintable(text) == shown


@given(st.text(), st.integers(10, 80))
def test_a_line_is_one_line_of_bounded_length(text, width):
    line = format_one_line(text, width)
    assert len(line) <= width
    assert not set(line) & set("\n\t\r\x1b")


def test_columns_of_numbers_are_aligned_right_and_text_left():
    lines = list(format_table(["name", "n", "share"], [["a", 5, 0.5], ["bbbbbb", 1000, None]]))
    assert lines == ["name       n  share", "a          5    0.5", "bbbbbb  1000      -"]


def test_a_table_without_rows_is_only_a_header():
    assert list(format_table(["name", "n"], [])) == ["name  n"]
