from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_rows import words

from curate.decontamination.overlap import COMMON_TEXTS, Passage, PassageIndex


def overlaps(passages, texts, min_share=0.2):
    """Return (text, passage, rule, share) of all overlaps but those that are not in one piece as their rule demands."""
    index = PassageIndex([Passage(text, item, 0) for item, text in enumerate(passages)])
    index.scan(texts)
    matches = [
        o for o in index.find_overlaps(min_share) if index.find_longest_match(o, texts[o.text_index]) is not None
    ]
    return {(o.text_index, o.passage_index, o.rule, round(o.share, 3)) for o in matches}


def runs(text):
    parts = text.split()
    return {tuple(parts[start : start + 8]) for start in range(len(parts) - 7)}


def test_a_text_that_equals_a_passage_is_found_whatever_its_case_and_punctuation():
    text = "Print the sum, of: two numbers!"
    matches = overlaps([text], ["print THE sum of two numbers", "nothing"])
    assert matches == {(0, 0, "same_text", 1.0), (0, 0, "whole_item", 1.0)}


def test_the_share_is_that_of_the_runs_of_the_passage():
    passage = words(0, 50)  # 43 runs
    text = " ".join([words(1), *passage.split()[:30], words(2)])  # 23 of them
    assert overlaps([passage], [text]) == {(0, 0, "contained", round(23 / 43, 3))}
    assert overlaps([passage], [text], min_share=0.6) == set()


@given(st.lists(st.integers(0, 59), min_size=0, max_size=12))
def test_shares_are_those_of_sets_of_runs(cuts):
    passage = words("p", 60).split()
    pieces = [" ".join(passage[begin:end]) for begin, end in pairwise(sorted({0, *cuts, 60}))]
    text = f" {words('filler', 3)} ".join(pieces)
    share = len(runs(" ".join(passage)) & runs(text)) / 53
    expected = {(0, 0, "contained", round(share, 3))} if share >= 0.2 else set()
    assert {o for o in overlaps([" ".join(passage)], [text]) if o[2] == "contained"} == expected


@pytest.mark.parametrize("n_words", [5, 7, 8, 15])
def test_a_short_passage_is_found_only_in_one_piece(n_words):
    passage = words(0, n_words)
    before, after = words(1), words(2)
    broken = passage.split()
    broken.insert(2, "other")
    matches = overlaps([passage], [f"{before} {passage} {after}", f"{before} {' '.join(broken)} {after}"])
    assert matches == {(0, 0, "whole_item", 1.0)}


def test_a_very_short_passage_must_be_the_whole_text():
    assert overlaps(["two sum here"], [f"{words(0)} two sum here", "Two sum, here."]) == {(1, 0, "same_text", 1.0)}


def test_runs_of_many_items_of_a_set_are_boilerplate():
    phrase = words("boilerplate", 30)
    passages = [f"{phrase} {words(seed, 30)}" for seed in range(3)]
    assert overlaps(passages, [f"{words('x')} {phrase}"]) == set()
    assert overlaps(passages[:2], [f"{words('x')} {phrase}"]) != set()
    # Passages are still found by their other runs.
    assert overlaps(passages, [words(0, 30)], min_share=0.5) == {(0, 0, "contained", round(23 / 30, 3))}


def test_runs_of_many_texts_are_boilerplate():
    phrase = words("boilerplate", 30)
    passage = f"{phrase} {words('its own', 20)}"
    texts = [f"{words(seed)} {phrase}" for seed in range(COMMON_TEXTS)]
    assert overlaps([passage], texts) == set()
    assert len(overlaps([passage], texts[:-1])) == COMMON_TEXTS - 1


def test_a_passage_that_is_all_boilerplate_is_still_found_whole():
    passage = words("boilerplate", 40)
    other = passage.split()
    other[20] = "other"
    texts = [f"{words(seed)} {' '.join(other)}" for seed in range(COMMON_TEXTS)]
    assert overlaps([passage], [*texts, f"{words('x')} {passage}."]) == {(COMMON_TEXTS, 0, "whole_item", 1.0)}


def test_the_two_wordings_of_an_item_do_not_make_it_boilerplate():
    text = words(0, 60)
    index = PassageIndex([Passage(text, 0, 0), Passage(text[: len(text) // 2], 0, 0), Passage(text, 1, 0)])
    index.scan([f"{words(1)} {text}"])
    assert {overlap.passage_index for overlap in index.find_overlaps(0.5)} == {0, 1, 2}


def test_the_longest_stretch_in_common_is_shown():
    passage = words(0, 50).split()
    text = " ".join([*passage[:12], "x", *passage[12:40], "y", *passage[40:]])
    index = PassageIndex([Passage(" ".join(passage), 0, 0)])
    index.scan([text])
    (overlap,) = index.find_overlaps(0.2)
    first, last = index.find_longest_match(overlap, text)
    assert text.split()[first : last + 1] == passage[12:40]


def test_without_passages_or_texts_there_are_no_overlaps():
    assert overlaps([], [words(0), ""]) == set()
    assert overlaps([words(0)], []) == set()
    assert overlaps([""], ["", words(0)]) == set()
