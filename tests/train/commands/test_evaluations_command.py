"""Contests are fetched from the API of Codeforces once, politely, and without the names of people."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import forked
import pytest
from codeforces_api import BUSY, TOO_OFTEN, Api, serving
from curate_command import curate

from curate.dataset.output_folder import lock_output
from train.evaluation.codeforces.contests import DEEPCODER_CONTESTS, get_default_contests_path, read_contests

ROOT = Path(__file__).parents[3]


def words(api: Api, *more: object, pause: float = 0) -> list[str]:
    return ["evaluations", "fetch", "codeforces", *map(str, ("--base-url", api.url, "--pause", pause, *more))]


def run(api: Api, *more: object, pause: float = 0):
    return curate(*words(api, *more, pause=pause))


def test_contests_are_fetched_once_and_kept_without_handles(tmp_path):
    out = tmp_path / "new" / "contests.parquet"
    with serving(Api((1971, 1972, 1973))) as api:
        done = run(api, "--contests", "1971-1972", "--out", out)
        assert done.exit_code == 0, done.output
        assert f"{out}: 2 fetched, 0 already in the file" in done.output
        assert api.asked == [(m, id) for id in (1971, 1972) for m in ("standings", "ratingChanges")]
        done = run(api, "--contests", "1971, 1973", "--out", out)
        assert "1 fetched, 1 already in the file" in done.output
        assert api.asked[4:] == [("standings", 1973), ("ratingChanges", 1973)]
    contests = read_contests(out)
    assert [contest.id for contest in contests] == [1971, 1972, 1973]
    assert [(one.index, one.points, one.rating) for one in contests[0].problems] == [
        ("A", 1000.0, 800),
        ("B", 2000.0, 1600),
    ]
    assert len(contests[0].scores) == len(contests[0].old_ratings) == 400
    assert b"somebody" not in out.read_bytes()


def test_without_options_the_57_contests_go_where_evaluations_find_them(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with serving(Api(DEEPCODER_CONTESTS)) as api:
        done = run(api)
    assert done.exit_code == 0, done.output
    assert get_default_contests_path().is_relative_to(tmp_path)
    assert tuple(contest.id for contest in read_contests(get_default_contests_path())) == DEEPCODER_CONTESTS


def test_a_busy_api_is_asked_again(tmp_path):
    with serving(Api((1971,), troubles=[BUSY, TOO_OFTEN])) as api:
        done = run(api, "--contests", 1971, "--out", tmp_path / "c.parquet")
    assert done.exit_code == 0, done.output
    assert [method for method, _ in api.asked] == ["standings"] * 3 + ["ratingChanges"]


def test_an_api_that_stays_busy_loses_no_contest(tmp_path):
    out = tmp_path / "c.parquet"
    with serving(Api((1971, 1972))) as api:
        run(api, "--contests", 1971, "--out", out)
        api.troubles = [BUSY] * 6
        done = run(api, "--contests", "1971,1972", "--out", out)
        assert done.exit_code == 1
        assert "did not respond in 6 attempts (HTTP 503 without JSON). Run the same command again" in done.output
        assert [contest.id for contest in read_contests(out)] == [1971]
        assert run(api, "--contests", "1971,1972", "--out", out).exit_code == 0
    gone = run(api, "--contests", 1973, "--out", out)
    assert gone.exit_code == 1
    assert "did not respond in 6 attempts" in gone.output


def test_a_contest_that_cannot_be_had_does_not_stop_the_others(tmp_path):
    out = tmp_path / "c.parquet"
    with serving(Api((1971, 1973))) as api:
        done = run(api, "--contests", "1971-1973", "--out", out)
    assert done.exit_code == 1
    assert "contest 1972: " in done.output
    assert "Contest with id 1972 not found" in done.output
    assert "2 fetched, 0 already in the file, 1 could not be fetched" in done.output
    assert [contest.id for contest in read_contests(out)] == [1971, 1973]


def test_requests_keep_their_distance(tmp_path):
    with serving(Api((1971, 1972))) as api:
        run(api, "--contests", "1971,1972", "--out", tmp_path / "c.parquet", pause=0.1)
    assert len(api.times) == 4
    assert all(later - earlier >= 0.1 for earlier, later in zip(api.times, api.times[1:], strict=False))


def test_a_fetch_that_was_killed_continues_where_it_was(tmp_path):
    out = tmp_path / "c.parquet"
    with serving(Api((1971, 1972, 1973), hangs_at=1972)) as api:
        process = forked.Popen(
            [sys.executable, "-m", "cli", *words(api, "--contests", "1971-1973", "--out", out)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while process.poll() is None and ("standings", 1972) not in api.asked:
            time.sleep(0.02)
        assert process.poll() is None, "it ended before it could be killed"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert [contest.id for contest in read_contests(out)] == [1971]
    with serving(Api((1971, 1972, 1973))) as api:
        assert run(api, "--contests", "1971-1973", "--out", out).exit_code == 0
        assert {contest for _, contest in api.asked} == {1972, 1973}
        whole = tmp_path / "whole.parquet"
        run(api, "--contests", "1971-1973", "--out", whole)
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--contests", "1971,round"), "'round' is not the number of a contest, such as 1971, or a range"),
        (("--contests", "1980-1971"), "'1980-1971' is not the number of a contest"),
        (("--contests", ""), "'' is not the number of a contest"),
        (("--base-url", "codeforces"), "--base-url must be a URL such as https://codeforces.com/api"),
    ],
)
def test_mistakes_are_explained(tmp_path, more, said):
    done = curate("evaluations", "fetch", "codeforces", "--out", tmp_path / "c.parquet", *more)
    assert done.exit_code != 0
    assert said in done.output


def test_two_commands_do_not_fetch_into_one_file(tmp_path):
    out = tmp_path / "new" / "c.parquet"
    with serving(Api((1971,))) as api:
        with lock_output(out, out.with_name(".c.parquet.lock"), temporary=True):
            done = run(api, "--contests", 1971, "--out", out)
        assert done.exit_code == 1
        assert f"another command is writing to {out}" in done.output
        assert not api.asked
        assert run(api, "--contests", 1971, "--out", out).exit_code == 0
    assert [path.name for path in out.parent.iterdir()] == ["c.parquet"]


def test_a_file_of_something_else_is_not_overwritten(tmp_path):
    out = tmp_path / "c.parquet"
    out.write_text("mine")
    with serving(Api((1971,))) as api:
        done = run(api, "--contests", 1971, "--out", out)
    assert done.exit_code == 1
    assert "cannot be read as a file of contests" in done.output
    assert out.read_text() == "mine"
