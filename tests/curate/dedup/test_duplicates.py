import random
from dataclasses import replace

import numpy as np
import pytest
from source_rows import words

from curate.dedup.duplicates import find_duplicates, order_by_rank
from curate.dedup.sketches import create_temporary_sketches
from curate.problem import Problem
from sandbox import Case, Suite


def problem(id, statement, n_tests=5, verified=True, **changes):
    suite = Suite([Case(f"{n}", f"{n}") for n in range(n_tests)])
    source = id.partition("/")[0]
    return replace(Problem(id, source, statement, suite, (), "", verified=verified), **changes)


def removed(*problems, threshold=0.7):
    """Return the rejections if the problems are given in rank order."""
    with create_temporary_sketches(problems) as sketches:
        numbered = [problems[number] for number in sketches.number]
        found = find_duplicates(sketches, np.arange(len(numbered)), threshold=threshold, load=numbered.__getitem__)
        return [
            duplicate.to_rejection(numbered[duplicate.row].id, "made", numbered[duplicate.kept].id)
            for duplicate in found
        ]


def changed(statement, n, end="zz"):
    """Return the statement with its last n words replaced."""
    return " ".join(statement.split()[:-n] + [f"{end}{i}" for i in range(n)])


def test_the_same_text_in_other_spacing_and_case_is_an_exact_duplicate():
    text = words(1)
    (rejection,) = removed(problem("taco/0", text), problem("synthetic1/a", f"  {text.upper()}\n\n"))
    assert (rejection.id, rejection.stage, rejection.reason) == ("synthetic1/a", "dedup", "duplicate_exact")
    assert "kept=taco/0" in rejection.detail
    assert (rejection.kept_id, rejection.similarity) == ("taco/0", 1.0)


def test_nearly_the_same_words_are_a_near_duplicate_with_its_similarity():
    text = words(1)
    (rejection,) = removed(problem("taco/0", text), problem("synthetic1/a", changed(text, 3)))
    assert rejection.reason == "duplicate_near"
    assert rejection.detail == "cluster=taco/0 kept=taco/0 jaccard=0.898"  # 53 of 56 + 3 shingles
    assert (rejection.kept_id, rejection.similarity) == ("taco/0", 0.898)


def test_words_less_alike_than_the_threshold_are_kept():
    text = words(1)
    assert removed(problem("taco/0", text), problem("taco/1", changed(text, 3)), threshold=0.95) == []
    assert removed(problem("taco/0", text), problem("taco/1", changed(text, 20))) == []


def test_a_row_is_removed_only_if_it_resembles_the_row_that_stays():
    text = words(1, 100)
    a, b, c = text, changed(text, 12, "b"), changed(changed(text, 12, "b"), 24, "c")
    chain = removed(problem("taco/a", a), problem("taco/b", b), problem("taco/c", c), threshold=0.75)
    assert [(r.id, r.detail.split()[1]) for r in chain] == [("taco/b", "kept=taco/a")]


def test_the_row_of_more_worth_stays():
    text = words(1)
    rows = [problem("taco/0", changed(text, 2)), problem("taco/1", words(2)), problem("taco/2", text)]
    with create_temporary_sketches(rows) as sketches:
        (first,) = find_duplicates(sketches, np.array([0, 1]), threshold=0.7, load=lambda row: rows[2 * row])
        assert sketches.number[first.row] == 2
    with create_temporary_sketches(rows) as sketches:
        (last,) = find_duplicates(sketches, np.array([1, 0]), threshold=0.7, load=lambda row: rows[2 * row])
        assert sketches.number[last.row] == 0


def test_verified_rows_are_worth_more_than_tests_and_tests_more_than_order():
    verified, n_tests = np.array([False, True, True, True]), np.array([9, 5, 7, 7])
    assert order_by_rank(verified, n_tests).tolist() == [2, 3, 1, 0]


def test_near_duplicates_that_differ_in_substance_are_kept():
    text = words(1)
    rows = [problem("taco/0", text, title="Sum I"), problem("taco/1", changed(text, 1), title="Sum II")]
    assert removed(*rows) == []


def test_short_and_empty_statements_do_not_resemble_each_other():
    assert removed(problem("taco/0", "Add two numbers"), problem("taco/1", "Subtract two numbers")) == []
    assert [r.reason for r in removed(problem("taco/0", ""), problem("taco/1", ""))] == ["duplicate_exact"]


def test_the_template_of_a_source_is_not_compared():
    head = "Solve the following coding problem using the programming language python:\n\n"
    tail = (
        "\n\nThe input will be stdin and you should print your solution to stdout\n\n\nNow solve the problem and return"
    )
    prompts = [f"{head}{words(seed, 12)}{tail} the code." for seed in range(3)]
    assert removed(*(problem(f"synthetic1/{n}", prompt) for n, prompt in enumerate(prompts))) == []
    (rejection,) = removed(problem("taco/0", words(0, 12)), problem("synthetic1/0", prompts[0]))
    assert rejection.reason == "duplicate_exact"


def test_each_of_many_similar_rows_names_the_one_that_stays():
    texts = [changed(words(0, 200), n) for n in range(1, 21)]
    many = [problem(f"taco/{n:03}", text) for n, text in enumerate(texts * 10)]
    found = removed(*many)
    assert len(found) == 199
    assert {rejection.detail.split()[1] for rejection in found} == {"kept=taco/000"}


def test_no_rows_give_no_duplicates():
    assert removed() == []


def test_every_pair_is_found_that_an_exhaustive_comparison_finds():
    rng = random.Random(0)
    rows = []
    for seed in range(60):
        original = words(seed, 90).split()
        for number, share in enumerate((0, 0.01, 0.02, 0.04, 0.08)):
            text = " ".join("other" if rng.random() < share else word for word in original)
            rows.append(problem(f"taco/{seed:02}{number}", text))
    sets = {row.id: set(pairwise_five(row.statement)) for row in rows}
    kept = []
    for row in rows:
        if all(similarity(sets[row.id], sets[other]) < 0.7 for other in kept):
            kept.append(row.id)
    found = removed(*rows)
    assert {row.id for row in rows} - {rejection.id for rejection in found} == set(kept)
    for rejection in found:
        _, other, stated = (part.partition("=")[2] for part in rejection.detail.split())
        assert similarity(sets[rejection.id], sets[other]) == pytest.approx(float(stated), abs=0.0005)


def pairwise_five(text):
    parts = text.split()
    return zip(*(parts[start:] for start in range(5)), strict=False)


def similarity(one, other):
    return len(one & other) / len(one | other)
