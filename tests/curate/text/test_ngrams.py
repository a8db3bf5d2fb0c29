import re
import unicodedata
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from curate.text.ngrams import find_word_spans, hash_ngrams, hash_words, normalize, split_words

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def by_text(batch):
    """Return the hashes of each text as lists."""
    return [batch.hashes[begin:end].tolist() for begin, end in pairwise(batch.offsets.tolist())]


def test_words_are_letters_digits_and_underscores_without_case():
    assert split_words("Let N_1 be\tsmall: 10^9+7.") == ["let", "n_1", "be", "small", "10", "9", "7"]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        pytest.param("STRASSE", "straße", id="casefold"),
        pytest.param("ﬁnd ①", "find 1", id="compatibility forms"),
        pytest.param("Ma\u0308rchen", "Märchen", id="composed"),
        pytest.param("a\ud800b", "a b", id="half a pair"),
        pytest.param("数 组", "数　组", id="wide space"),
    ],
)
def test_spellings_of_one_text_have_the_same_words(text, same):
    assert split_words(text) == split_words(same)
    one, other = by_text(hash_words([text, same]))
    assert one == other


@given(st.lists(TEXT, max_size=6))
@example(["İstanbul", "a", "", "I", "x" * 200, "x" * 201, "\0a\0", "é·b"])
@example(["12345678 123456789 1234567890123456 12345678901234567"])
def test_the_hash_of_a_word_does_not_depend_on_its_neighbours(texts):
    together = by_text(hash_words(texts))
    assert together == [by_text(hash_words([text]))[0] for text in texts]
    numbers = {}
    for text, found in zip(texts, together, strict=True):
        for word, number in zip(split_words(text), found, strict=True):
            assert numbers.setdefault(word, number) == number
    assert len(set(numbers.values())) == len(numbers)


def test_hashes_are_the_same_on_every_machine():
    # Recorded once: signatures from one machine must match those from another.
    assert by_text(hash_words(["The sum: Straße " + "7" * 70])) == [
        [9785959853616212031, 8905947352421916647, 15947416049882308462, 4923672034153429091]
    ]


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=9).map(" ".join), max_size=5), st.integers(1, 6))
def test_no_run_reaches_from_one_text_into_the_next(texts, length):
    actual = by_text(hash_ngrams(hash_words(texts), length))
    expected = [
        [tuple(text.split()[start : start + length]) for start in range(len(text.split()) - length + 1)]
        for text in texts
    ]
    assert [len(of_text) for of_text in actual] == [len(of_text) for of_text in expected]
    numbers = {run: number for of, ex in zip(actual, expected, strict=True) for run, number in zip(ex, of, strict=True)}
    assert [[numbers[run] for run in of_text] for of_text in expected] == actual
    assert len(set(numbers.values())) == len(numbers)


@given(TEXT)
@example("İ ﬁ ²x \u0345")
def test_located_words_are_the_words_at_their_stated_places(text):
    composed = unicodedata.normalize("NFKC", text)
    places = find_word_spans(text)
    assert [word for word, _, _ in places] == split_words(text)
    for word, begin, end in places:
        assert word in composed[begin:end].casefold()


def test_one_long_word_costs_no_more_than_its_length():
    (hashes,) = by_text(hash_words(["9" * 3_000_000 + " end"]))
    assert len(hashes) == 2


def test_ascii_is_already_in_normal_form():
    assert normalize("A b") == "a b" == unicodedata.normalize("NFKC", "A b").casefold()
    assert re.findall(r"\w+", "".join(map(chr, range(128))).lower()) == split_words("".join(map(chr, range(128))))
    assert hash_words([]).offsets.dtype == np.int64
