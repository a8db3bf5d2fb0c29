"""Contests from the answers of Codeforces' public API.

A contest needs two answers, of which this module reads the JSON text:

    https://codeforces.com/api/contest.standings?contestId=1971&showUnofficial=false
    https://codeforces.com/api/contest.ratingChanges?contestId=1971

A participant counts who is in both. Handles are only used to find them, and are not kept.

MERGED Asks Codeforces' public API: one request after the other, with a pause between them.

The API refuses those who ask too often, and now and then it is busy. Then the same request is sent again, after pauses
that grow. An answer that says why a request cannot be granted is final: `public_api` explains it.

MERGED Fetch contests from Codeforces' public API into a file.

The file is written anew after each contest, so an interruption costs one contest at most, and a contest that is in the
file is not fetched again.
"""

import json
import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError, LocationValueError
from urllib3.util import Timeout, parse_url

from curate.errors import CurateError
from curate.progress import Progress, no_progress
from train.evaluation.codeforces.contests import Contest, ContestProblem, read_contests, write_contests

SECONDS_BETWEEN_REQUESTS = 2.0  # what the API asks for
BASE_URL = "https://codeforces.com/api"


def standings_url(contest: int, base_url: str = BASE_URL) -> str:
    """Return the address of a contest's standings."""
    return f"{base_url}/contest.standings?contestId={contest}&showUnofficial=false"


def rating_changes_url(contest: int, base_url: str = BASE_URL) -> str:
    """Return the address of the ratings of a contest's participants."""
    return f"{base_url}/contest.ratingChanges?contestId={contest}"


def read_contest(standings: str, rating_changes: str) -> Contest:
    """Return the contest of which these are the two answers, as JSON text.

    Raises CurateError if an answer is not JSON, if Codeforces refused the request, if a field is missing, if the
    answers belong to different contests, or if the contest is not over.
    """
    table, changes = _result(standings, "standings"), _result(rating_changes, "rating changes")
    try:
        contest = table["contest"]
        if contest["phase"] != "FINISHED":
            raise CurateError(f"Contest {contest['id']} is not over. Fetch it when its ratings are final.")
        others = {change["contestId"] for change in changes} - {contest["id"]}
        if others:
            raise CurateError(
                f"The standings are of contest {contest['id']}, the rating changes of {min(others)}. Fetch both again."
            )
        old_ratings = {change["handle"]: int(change["oldRating"]) for change in changes}
        scores = {}
        for row in table["rows"]:
            handle = row["party"]["members"][0]["handle"]
            if handle in old_ratings:
                scores[handle] = (float(row["points"]), float(row["penalty"]))
        return Contest.of(
            int(contest["id"]),
            str(contest["name"]),
            str(contest["type"]),
            datetime.fromtimestamp(contest["startTimeSeconds"], UTC).date(),
            [_problem(problem) for problem in table["problems"]],
            list(scores.values()),
            [old_ratings[handle] for handle in scores],
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise CurateError(f"An answer of Codeforces lacks a field ({error!r}). Fetch the contest again.") from error


def _result(answer: str, name: str) -> Any:
    try:
        content = json.loads(answer)
    except ValueError:
        raise CurateError(f"The {name} are not JSON. Fetch the contest again in a few minutes.") from None
    if not isinstance(content, Mapping) or content.get("status") != "OK" or "result" not in content:
        comment = content.get("comment", "without a reason") if isinstance(content, Mapping) else "without a reason"
        raise CurateError(f"Codeforces has not answered the request for {name}: {comment}")
    return content["result"]


def _problem(problem: Mapping[str, Any]) -> ContestProblem:
    points, rating = problem.get("points"), problem.get("rating")
    return ContestProblem(
        str(problem["index"]), None if points is None else float(points), None if rating is None else int(rating)
    )


log = logging.getLogger(__name__)

_CONNECT_SECONDS = 20.0
_READ_SECONDS = 120.0  # the standings of a large contest have more than 10 MB
_ATTEMPTS = 6
_MAX_SHOWN_CHARS = 200  # characters of an error
_TOO_OFTEN = "limit"  # in the comment "Call limit exceeded"


class ApiClient:
    """Gets the texts behind addresses of the API.

    base_url       where the API is
    pause_seconds  least time between an answer and the next request

    Raises CurateError if base_url is not a URL.
    """

    def __init__(self, base_url: str = BASE_URL, pause_seconds: float = SECONDS_BETWEEN_REQUESTS) -> None:
        try:
            parsed = parse_url(base_url)
        except (LocationValueError, HTTPError) as error:
            raise CurateError(f"--base-url {base_url} is not a URL: {error}") from error
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise CurateError(f"--base-url must be a URL such as {BASE_URL}, not {base_url}")
        self.base_url = base_url.rstrip("/")
        self._pause_seconds = pause_seconds
        self._next_request = 0.0  # time.monotonic()
        self._pool = urllib3.PoolManager(
            maxsize=1, headers=urllib3.make_headers(accept_encoding=True, user_agent="curate-code")
        )

    def get(self, url: str) -> str:
        """Return the answer to a request. Raises CurateError if no attempt is answered."""
        complaint = ""
        for attempt in range(_ATTEMPTS):
            self._wait(attempt)
            text, complaint = self._answer(url)
            self._next_request = time.monotonic() + self._pause_seconds
            if not complaint:
                return text
            log.info("%s: %s", url, complaint)
        raise CurateError(
            f"{self.base_url} has not answered in {_ATTEMPTS} attempts ({complaint}). Type the same command "
            "again later."
        )

    def _wait(self, attempt: int) -> None:
        """Wait until the next request may be sent: after a failure, twice as long as before."""
        time.sleep(max(0.0, self._next_request - time.monotonic() + self._pause_seconds * (2**attempt - 1)))

    def _answer(self, url: str) -> tuple[str, str]:
        """Send a request. Return the text of its answer, and why it has to be sent again; empty: it need not."""
        try:
            answer = self._pool.request(
                "GET", url, retries=False, timeout=Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS)
            )
        except HTTPError as error:
            return "", str(getattr(error, "reason", None) or error)[:_MAX_SHOWN_CHARS]
        text = answer.data.decode("utf-8", "replace")
        try:
            content = json.loads(text)
        except ValueError:
            return "", f"status {answer.status}, without JSON"
        comment = str(content.get("comment", "")) if isinstance(content, Mapping) else ""
        return text, comment if _TOO_OFTEN in comment.lower() else ""

    def close(self) -> None:
        """Close the connection."""
        self._pool.clear()


_STAGE = "fetch"


@dataclass(frozen=True, slots=True)
class FetchSummary:
    """What a fetch has done.

    n_fetched        contests that were fetched now
    n_cached         contests that were in the file already
    failure_reasons  why each of the other contests cannot be had, by its number
    """

    n_fetched: int
    n_cached: int
    failure_reasons: Mapping[int, str]


def fetch_contests(
    ids: Iterable[int],
    path: Path,
    *,
    base_url: str = BASE_URL,
    pause_seconds: float = SECONDS_BETWEEN_REQUESTS,
    progress: Progress = no_progress,
) -> FetchSummary:
    """Fetch the contests that the file lacks. Contests in the file that were not asked for stay there.

    pause_seconds: least time between two requests

    Raises CurateError if the API does not answer, or if the file exists and is not one of contests.
    """
    wanted = sorted(set(ids))
    contests = {contest.id: contest for contest in read_contests(path)} if path.exists() else {}
    missing = [id for id in wanted if id not in contests]
    n_known = len(wanted) - len(missing)
    path.parent.mkdir(parents=True, exist_ok=True)
    refused: dict[int, str] = {}
    progress(_STAGE, n_known, len(wanted))
    with closing(ApiClient(base_url, pause_seconds)) as client:
        for done, id in enumerate(missing, start=n_known + 1):
            found = _contest(client, id)
            if isinstance(found, Contest):
                contests[id] = found
                write_contests(path, contests.values())
            else:
                refused[id] = found
            progress(_STAGE, done, len(wanted))
    return FetchSummary(len(missing) - len(refused), n_known, refused)


def _contest(client: ApiClient, id: int) -> Contest | str:
    """Fetch a contest. If its answers are of no use, return why."""
    standings = client.get(standings_url(id, client.base_url))
    changes = client.get(rating_changes_url(id, client.base_url))
    try:
        return read_contest(standings, changes)
    except CurateError as error:
        return str(error)
