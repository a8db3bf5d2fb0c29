"""Contests are read from Codeforces' answers, and kept in a file without handles."""

import json
from datetime import date

import pytest
from made_contests import contest, with_points
from source_rows import DATA

from curate.errors import CurateError
from train.evaluation.codeforces.contests import (
    DEEPCODER_CONTESTS,
    Contest,
    ContestProblem,
    parse_problem_key,
    read_contests,
    write_contests,
)
from train.evaluation.codeforces.fetch import BASE_URL, RATING_CHANGES, STANDINGS, parse_contest

METADATA = DATA / "evaluation" / "metadata_cf.json"


def row(handle, points, penalty=0):
    return {
        "party": {"contestId": 1971, "members": [{"handle": handle}]},
        "rank": 1,
        "points": points,
        "penalty": penalty,
    }


TABLE = {
    "status": "OK",
    "result": {
        "contest": {
            "id": 1971,
            "name": "Round 944",
            "type": "ICPC",
            "phase": "FINISHED",
            "startTimeSeconds": 1715351700,
        },
        "problems": [
            {"contestId": 1971, "index": "A", "name": "My First Sorting Problem", "rating": 800, "tags": []},
            {"contestId": 1971, "index": "B1", "name": "Different String", "points": 750.0, "tags": []},
        ],
        "rows": [
            row("tourist", 3.0, 40),
            row("out of competition", 3.0, 41),
            row("newcomer", 1.0, 5),
            row("second", 3.0, 12),
        ],
    },
}
CHANGES = {
    "status": "OK",
    "result": [
        {"contestId": 1971, "handle": "newcomer", "rank": 3, "oldRating": 0, "newRating": 400},
        {"contestId": 1971, "handle": "tourist", "rank": 1, "oldRating": 3800, "newRating": 3801},
        {"contestId": 1971, "handle": "second", "rank": 2, "oldRating": 1500, "newRating": 1540},
        {"contestId": 1971, "handle": "renamed since", "rank": 4, "oldRating": 1500, "newRating": 1490},
    ],
}
ROUND = Contest(
    1971,
    "Round 944",
    "ICPC",
    date(2024, 5, 10),
    (ContestProblem("A", None, 800), ContestProblem("B1", 750.0, None)),
    ((3.0, 12.0), (3.0, 40.0), (1.0, 5.0)),
    (3800, 1500, 0),
)


def test_participants_in_both_answers_count():
    assert parse_contest(TABLE, CHANGES) == ROUND


def changed(field, value):
    return {"status": "OK", "result": TABLE["result"] | {field: value}}


@pytest.mark.parametrize(
    ("standings", "message"),
    [
        (
            {"status": "FAILED", "comment": "contestId: Contest with id 1 not found"},
            "standings: contestId: Contest with id",
        ),
        ({"status": "FAILED"}, "returned no standings: no reason given"),
        ([], "returned no standings"),
        ({"status": "OK", "result": {}}, "lacks a field .*'contest'"),
        ({"status": "OK", "result": None}, "lacks a field"),
        (changed("rows", [{"party": {"members": []}}]), "lacks a field"),
        (changed("problems", [{"name": "no index"}]), "lacks a field .*'index'"),
        (
            changed("contest", TABLE["result"]["contest"] | {"id": 1972}),
            "standings are of contest 1972, .* of 1971",
        ),
    ],
)
def test_answers_that_are_of_no_use_are_explained(standings, message):
    with pytest.raises(CurateError, match=message):
        parse_contest(standings, CHANGES)


def test_the_file_holds_all_that_ratings_need_and_no_handle(tmp_path):
    contests = [contest(ContestProblem("A", 500.0), id=1973), ROUND, with_points(None, 1500.0, id=1972)]
    path = tmp_path / "contests.parquet"
    write_contests(path, contests)
    assert read_contests(path) == [ROUND, contests[2], contests[0]]
    assert b"tourist" not in path.read_bytes()
    first = path.read_bytes()
    write_contests(path, contests[::-1])
    assert path.read_bytes() == first
    assert [file.name for file in tmp_path.iterdir()] == ["contests.parquet"]


def test_a_file_that_holds_no_contests_is_explained(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pytest.raises(CurateError, match=r"nothing\.parquet cannot be read as a file of contests"):
        read_contests(tmp_path / "nothing.parquet")
    (tmp_path / "text.parquet").write_text("contest")
    with pytest.raises(CurateError, match="cannot be read as a file of contests"):
        read_contests(tmp_path / "text.parquet")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "other.parquet")
    with pytest.raises(CurateError, match="is not a file of contests"):
        read_contests(tmp_path / "other.parquet")


def test_scores_and_ratings_belong_together():
    with pytest.raises(CurateError, match="Contest 1971 has 1 scores but 2 ratings"):
        contest(scores=[(1.0, 0.0)], old_ratings=[1500, 1600])


def test_addresses_are_those_of_the_public_api():
    assert [f"{BASE_URL}/{path.format(1971)}" for path in (STANDINGS, RATING_CHANGES)] == [
        "https://codeforces.com/api/contest.standings?contestId=1971&showUnofficial=false",
        "https://codeforces.com/api/contest.ratingChanges?contestId=1971",
    ]


@pytest.mark.skipif(not METADATA.is_file(), reason="the real data are not beside this checkout")
def test_the_contests_are_those_of_deepcoders_problems():
    ids = json.loads(METADATA.read_text())
    assert len(ids) == 408
    assert tuple(sorted({parse_problem_key(id)[0] for id in ids})) == DEEPCODER_CONTESTS
    assert len(DEEPCODER_CONTESTS) == 57
