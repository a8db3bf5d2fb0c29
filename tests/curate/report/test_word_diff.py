import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.report.word_diff import mark_differences


def words(stretches):
    return [text.strip() for text, differs in stretches if differs]


@pytest.mark.parametrize(
    ("one", "other", "gone", "new"),
    [
        pytest.param("a b c", "a x c", ["b"], ["x"], id="a word"),
        pytest.param("a b c d", "a d", ["b c"], [], id="a phrase is one mark"),
        pytest.param("The Cat, sat.", "the cat sat", [], [], id="neither case nor signs"),
        pytest.param("", "a", [], ["a"], id="nothing to compare with"),
        pytest.param("x ≤ 5", r"x \le 5", [], ["le"], id="a sign is not a word"),
    ],
)
def test_words_that_the_other_text_lacks_are_marked(one, other, gone, new):
    first, second = mark_differences(one, other)
    assert (words(first), words(second)) == (gone, new)


@given(st.text(), st.text())
def test_no_part_of_a_text_is_lost(one, other):
    first, second = mark_differences(one, other)
    assert "".join(text for text, _ in first) == one
    assert "".join(text for text, _ in second) == other


@given(st.text())
def test_a_text_does_not_differ_from_itself(text):
    first, second = mark_differences(text, text)
    assert words(first) == words(second) == []
