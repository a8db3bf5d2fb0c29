import random
from collections import Counter

import pytest

from curate.errors import CurateError
from curate.operations.splitting import assign_parts, parse_size

IDS = [f"{source}/{n}" for source, size in (("taco", 60), ("apps", 30), ("rare", 10)) for n in range(size)]
SOURCES = [id.partition("/")[0] for id in IDS]


def alone(ids):
    return list(range(len(ids)))


def test_each_source_gives_its_share():
    parts = assign_parts(IDS, SOURCES, alone(IDS), {"validation": 0.2, "test": 10}, seed=0)
    assert Counter(zip(SOURCES, parts, strict=True)) == {
        ("taco", "train"): 42,
        ("taco", "validation"): 12,
        ("taco", "test"): 6,
        ("apps", "train"): 21,
        ("apps", "validation"): 6,
        ("apps", "test"): 3,
        ("rare", "train"): 7,
        ("rare", "validation"): 2,
        ("rare", "test"): 1,
    }


def test_neither_the_order_of_the_rows_nor_that_of_the_clusters_matters():
    clusters = [row // 3 for row in range(len(IDS))]
    expected = dict(zip(IDS, assign_parts(IDS, SOURCES, clusters, {"validation": 0.3}, seed=1), strict=True))
    rows = list(range(len(IDS)))
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        ids = [IDS[row] for row in rows]
        numbers = [clusters[row] * 7 % 101 for row in rows]
        parts = assign_parts(ids, [SOURCES[row] for row in rows], numbers, {"validation": 0.3}, seed=1)
        assert dict(zip(ids, parts, strict=True)) == expected


def test_a_seed_chooses_and_clusters_stay_whole():
    clusters = [row // 4 for row in range(len(IDS))]
    by_seed = [assign_parts(IDS, SOURCES, clusters, {"validation": 20}, seed=seed) for seed in (0, 0, 1)]
    assert by_seed[0] == by_seed[1] != by_seed[2]
    for parts in by_seed:
        assert parts.count("validation") == 20
        assert all(len({parts[row] for row in range(first, first + 4)}) == 1 for first in range(0, 100, 4))


def test_a_part_is_filled_up_from_other_sources_if_clusters_are_too_large():
    ids = [*(f"a/{n}" for n in range(10)), *(f"b/{n}" for n in range(10))]
    sources = [id[0] for id in ids]
    clusters = [0] * 10 + list(range(1, 11))  # the rows of a are all similar
    parts = assign_parts(ids, sources, clusters, {"validation": 4}, seed=0)
    assert [id[0] for id, part in zip(ids, parts, strict=True) if part == "validation"] == ["b"] * 4


def test_parts_that_would_be_empty_are_refused():
    with pytest.raises(CurateError, match="the smallest has 3. Choose a larger part, or a higher --similarity"):
        assign_parts(IDS[:9], SOURCES[:9], [0] * 3 + [1] * 6, {"validation": 2}, seed=0)
    with pytest.raises(CurateError, match="nothing is left to train on"):
        assign_parts(IDS[:4], SOURCES[:4], alone(IDS[:4]), {"validation": 4}, seed=0)


def test_a_size_is_a_share_or_a_number_of_rows():
    assert [parse_size(text) for text in ("0.1", "200", "1")] == [0.1, 200, 1]
    for text in ("0", "1.0", "-3", "1.5", "nan", "ten"):
        with pytest.raises(ValueError):  # noqa: PT011 - the message is the caller's
            parse_size(text)
