"""`curate evaluate --suite codeforces` prints and writes the rating that canned answers of a server are worth."""

import json
import shutil
import threading
from collections import Counter
from contextlib import contextmanager

import loopback_server
import pytest
from codeforces_api import Api, serving
from codeforces_rows import CHECKER, codeelo_row, open_r1_row
from curate_command import curate
from source_rows import write_jsonl

from train.evaluation.codeforces.contests import get_default_contests_path, read_contests
from train.evaluation.codeforces.rating import load_deepcoder_percentiles, rate_model
from train.evaluation.results.result import read_result
from train.evaluation.statistics.outcomes import ProblemMetadata, ProblemOutcomes

K = 4
RIGHT = {"sum": "print(sum(map(int, input().split())))", "digits": "print('1' * int(input()))"}
N_RIGHT = {"sum": 2, "digits": 1}  # of four samples; the first samples are the wrong ones
DIGITS = {
    "description": "Print a number with the digits of which the sum is n.",
    "official_tests": [{"input": "3\n", "output": "3\n"}],
    "examples": [{"input": "3\n", "output": "3\n"}],
    "generated_checker": CHECKER,
    "rating": 1600,
}


@contextmanager
def answering():
    """Serve a model whose last N_RIGHT answers to each problem are right, in whichever order it is asked."""
    n_asked, lock = Counter(), threading.Lock()

    def reply(path, number, asked):
        if asked is None:
            return 200, {"data": [{"id": "canned", "max_model_len": 4096}]}
        problem = asked["messages"][-1]["content"]
        kind = "digits" if "digits" in problem else "sum"
        with lock:
            n_asked[problem] += 1
            is_right = n_asked[problem] > K - N_RIGHT[kind]
        message = {"content": f"```python\n{RIGHT[kind] if is_right else 'print(0)'}\n```"}
        return 200, {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"completion_tokens": 9}}

    with loopback_server.answering(reply) as (url, _):
        yield url


def evaluate(url, rows, out, *more):
    words = [
        "evaluate",
        "--model",
        "canned",
        "--base-url",
        url,
        "--suite",
        f"codeforces={rows}",
        "--k",
        K,
        "--out",
        out,
    ]
    done = curate(*words, "--workers", "2", *more, check=True)
    return done.stdout


def fetched(path):
    with serving(Api((1971, 1972))) as api:
        words = ["evaluations", "fetch", "codeforces", "--contests", "1971,1972", "--pause", "0", "--out", str(path)]
        assert curate(*words, "--base-url", api.url).exit_code == 0
    return path


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """Return the folder of contests.parquet and r.json, and what the evaluation printed."""
    folder = tmp_path_factory.mktemp("evaluated")
    sums = [open_r1_row(id, title=f"A Sum of {id}") for id in ("1971/A", "1972/A")]
    rows = write_jsonl(folder / "rows.jsonl", [*sums, open_r1_row("1971/B", **DIGITS)])
    contests = fetched(folder / "contests.parquet")
    with answering() as url:
        return folder, evaluate(url, rows, folder / "r.json", "--contests", contests)


def test_canned_answers_have_the_rating_that_their_verdicts_are_worth(evaluated):
    folder, printed = evaluated
    right = {"1971/A": 2, "1972/A": 2, "1971/B": 1}
    outcomes = [
        ProblemOutcomes(id, ProblemMetadata(), (False,) * (K - n) + (True,) * n, (0,) * K, (False,) * K)
        for id, n in right.items()
    ]
    expected = rate_model(outcomes, read_contests(folder / "contests.parquet"), load_deepcoder_percentiles())
    assert (
        f"Codeforces rating {expected.rating:.0f} ({expected.low:.0f}-{expected.high:.0f}) over 2 contests" in printed
    )
    assert printed.startswith("canned: codeforces, 3 problems x 4, tests: official, ")
    result = json.loads((folder / "r.json").read_text())
    assert result["suite"]["tests"] == "official"
    (by_contests,) = result["ratings"]
    assert by_contests["rating"] == pytest.approx(expected.rating)
    assert (by_contests["percentile"], by_contests["table"]) == (expected.percentile, "ratings_2024 (DeepCoder)")
    assert [one["n_judged"] for one in by_contests["contests"]] == [2, 1]
    assert [problem["facts"]["difficulty"] for problem in result["problems"]] == [800, 1600, 800]
    assert read_result(folder / "r.json").ratings[0].rating == pytest.approx(expected.rating)


def test_results_show_the_rating_in_every_form(evaluated):
    folder, _ = evaluated

    def results(*more):
        done = curate("results", folder / "r.json", *more, check=True)
        return done.stdout

    for form in ("text", "markdown", "html", "model-card"):
        assert "over 2 contests with 4 attempts, percentile " in results("--format", form), form
    assert ",contests," in results("--format", "csv").splitlines()[1]


def test_without_standings_there_is_no_rating_and_the_way_to_one_is_said(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = write_jsonl(tmp_path / "rows.jsonl", [codeelo_row(), codeelo_row("1972A", title="Another")])
    with answering() as url:
        printed = evaluate(url, path, tmp_path / "r.json")
    assert "2 problems x 4, tests: examples, T 0.6" in printed
    assert "Codeforces rating" not in printed
    result = json.loads((tmp_path / "r.json").read_text())
    assert (result["suite"]["tests"], "ratings" in result) == ("examples", False)
    assert "type `curate evaluations fetch codeforces` once" in caplog.text


def test_contests_tell_the_facts_that_rows_do_not(tmp_path):
    contests = fetched(tmp_path / "contests.parquet")
    path = write_jsonl(tmp_path / "rows.jsonl", [codeelo_row(rating=None), codeelo_row("1972B", rating=900, title="B")])
    with answering() as url:
        evaluate(url, path, tmp_path / "r.json", "--contests", contests)
    facts = [problem.metadata for problem in read_result(tmp_path / "r.json").outcomes]
    assert [(one.difficulty, str(one.date)) for one in facts] == [(800, "2024-06-01"), (900, "2024-06-01")]


def test_answers_that_are_judged_again_have_their_rating_again(evaluated, tmp_path, monkeypatch):
    folder, _ = evaluated
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    get_default_contests_path().parent.mkdir()
    shutil.copy(folder / "contests.parquet", get_default_contests_path())
    again = tmp_path / "again.json"
    curate("rescore", folder / "r.json", "--out", again, "--workers", "2", check=True)
    before, now = (json.loads(path.read_text()) for path in (folder / "r.json", again))
    assert now["ratings"] == before["ratings"]
