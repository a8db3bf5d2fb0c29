"""Texts of strangers change nothing but themselves, whatever renders the section that they are in."""

import pytest

from curate.text.document import Chart, Code, Section, Share, Table, Text, render_markdown, render_terminal

HOSTILE = "- <img src=x> | ![x](http://a/b) `c` \\| &lt; \x1b[31m\u202e\r\n\n# Title\n| --- |\n\x1b]0;title\x07"
SECTION = Section(
    HOSTILE,
    [
        Text(HOSTILE),
        Text(HOSTILE, "warning"),
        Table(["name", HOSTILE], [[HOSTILE, Code(HOSTILE)], [None, Share(0.5)]]),
        Chart([HOSTILE], {HOSTILE: [1]}, HOSTILE),
        Table((), [(HOSTILE, HOSTILE)]),
    ],
    note=HOSTILE,
)


def test_a_terminal_shows_control_characters_as_escapes():
    output = "\n".join(render_terminal([SECTION]))
    assert not set(output) & set("\x1b\x07\r\u202e")
    assert output.count("\\x1b[31m\\u202e") >= 7


def test_only_texts_of_several_lines_have_several_lines_on_a_terminal():
    lines = list(render_terminal([Section("a\nb", [Chart(["c\nd"], {"e\nf": [1]}, "g")], note="h\ni")]))
    assert lines == ["\na\\nb\n", "  h\\ni", "  e\\nf", f"  c\\nd  1  {'#' * 40}"]


def test_markdown_of_a_hostile_text_has_the_lines_of_a_harmless_one():
    def shape(text):
        section = Section(text, [Text(text), Table(["a", text], [[text, Code(text)]])], note=text)
        unescaped = ((line[:2], line.replace("\\\\", "").replace("\\|", "")) for line in render_markdown([section]))
        return [(begin, rest.count("|")) for begin, rest in unescaped]

    harmless = [("##", 0), ("", 0), ("\\-", 0), ("", 0), ("\\-", 0), ("", 0), ("| ", 3), ("|-", 3), ("| ", 3), ("", 0)]
    assert shape("- a") == shape(HOSTILE) == harmless


@pytest.mark.parametrize("markup", ["<img", "![x](", "`c`", "\n# Title"])
def test_markdown_shows_markup_as_text(markup):
    output = "\n".join(render_markdown([Section("s", [Text(HOSTILE), Table(["a"], [[HOSTILE]])])]))
    assert markup not in output


def test_renderers_show_the_same_numbers():
    section = Section("s", [Table(["set", "rate", "rows"], [["a", Share(0.125), 7]])])
    assert list(render_markdown([section]))[2:] == ["| set | rate | rows |", "|---|---|---|", "| a | 12.50% | 7 |", ""]
    assert [line.split() for line in render_terminal([section])][1:] == [["set", "rate", "rows"], ["a", "0.125", "7"]]
