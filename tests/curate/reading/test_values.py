import pytest

from curate.reading.values import ParseError, dump_json, join_lines, parse_json, parse_json_or_literal, shorten


def test_a_python_literal_is_read_without_executing_it():
    assert parse_json_or_literal("{'a': (1, None), 'b': True}", "info") == {"a": (1, None), "b": True}
    with pytest.raises(ParseError):
        parse_json_or_literal("__import__('os').getcwd()", "info")


def test_json_is_tried_before_python_literals():
    assert parse_json_or_literal('{"a": true, "b": null}', "info") == {"a": True, "b": None}
    assert parse_json_or_literal('"\\ud83d\\ude00"', "info") == "\U0001f600"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000, id="open brackets"),
        pytest.param("[" * 100_000 + "]" * 100_000, id="nested lists"),
        pytest.param("-" * 1_000_000 + "1", id="signs"),
        pytest.param("not " * 100_000 + "1", id="nots"),
        pytest.param("1" + "+1" * 100_000, id="a long sum"),
        pytest.param("{1: " * 90 + "1" + "}" * 80, id="unbalanced"),
        pytest.param("'\\ud800", id="torn escape"),
        pytest.param("\x00", id="a null byte"),
        pytest.param("", id="nothing"),
        pytest.param(None, id="null"),
        pytest.param("9" * 300_000, id="more digits than anybody needs"),
    ],
)
def test_hostile_text_is_unparsable_and_nothing_worse(text):
    with pytest.raises(ParseError):
        parse_json_or_literal(text, "info")


def test_the_reason_against_a_literal_is_the_same_in_every_run():
    """`ast.literal_eval` names the address of the node that it does not read."""
    with pytest.raises(ParseError, match=r"malformed node or string on line 1: <ast.Call>$"):
        parse_json_or_literal("[f(1)]", "info")


def test_integers_beyond_4300_digits_are_read_and_written():
    digits = "7" * 10_000
    assert dump_json(parse_json(f"[{digits}]", "input"), "input") == f"[{digits}]"
    assert dump_json(parse_json_or_literal(f"({digits},)", "input"), "input") == f"[{digits}]"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({1: "a"}, id="integer key"),
        pytest.param({1, 2}, id="set"),
        pytest.param([b"a"], id="bytes"),
    ],
)
def test_a_value_that_json_would_change_has_no_json_form(value):
    with pytest.raises(ParseError):
        dump_json(value, "input")


def test_input_is_text_or_a_list_of_lines():
    assert join_lines("1\n2\n", "input") == "1\n2\n"
    assert join_lines(["1", "2", ""], "input") == "1\n2\n"
    with pytest.raises(ParseError):
        join_lines([["1"], ["2"]], "input")


def test_an_error_is_quoted_on_one_bounded_line_that_can_be_stored():
    assert shorten("a\n  b") == "a b"
    assert len(shorten("x" * 10_000)) <= 120
    shorten("\ud800").encode()
