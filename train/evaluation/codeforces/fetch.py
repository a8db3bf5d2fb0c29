"""The download of contests from Codeforces' public API into a file.

A contest needs two replies, standings and rating changes, with participants matched by their handles. Requests are
sequential with a pause, and failed requests are retried with backoff. A refusal with a reason is final. Each new
contest rewrites the file, and a repeated download skips contests already in the file.
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

from curate.dataset.output_folder import lock_output
from curate.errors import CurateError
from curate.progress import Progress, ignore_progress
from sandbox.http_client import HttpClient, ServerUnreachable
from train.evaluation.codeforces.contests import Contest, ContestProblem, read_contests, write_contests

log = logging.getLogger(__name__)

BASE_URL = "https://codeforces.com/api"
STANDINGS = "contest.standings?contestId={}&showUnofficial=false"
RATING_CHANGES = "contest.ratingChanges?contestId={}"
SECONDS_BETWEEN_REQUESTS = 2.0  # minimum pause, as the API's documentation demands
_CONNECT_SECONDS, _READ_SECONDS = 20.0, 120.0  # generous, because standings of a large contest exceed 10 MB
_MAX_ATTEMPTS = 6
_MAX_SHOWN_CHARS = 200  # maximum length of an error in a message
_RATE_LIMITED = "limit"  # word in the API's comment "Call limit exceeded"
_STAGE = "fetch"


@dataclass(frozen=True, slots=True)
class FetchSummary:
    """The outcome of a download.

    n_fetched        number of contests fetched by this call
    n_cached         number of contests already in the file
    failure_reasons  error message of each contest that could not be fetched
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
    progress: Progress = ignore_progress,
) -> FetchSummary:
    """Fetch the contests that the file lacks.

    pause_seconds: minimum time between two requests

    Raises CurateError if the API does not respond, an existing file is no contests file, or another command holds its
    lock.
    """
    wanted = sorted(set(ids))
    failure_reasons: dict[int, str] = {}
    with (
        lock_output(path, path.with_name(f".{path.name}.lock"), temporary=True),
        closing(ApiClient(base_url, pause_seconds)) as client,
    ):
        contests = {contest.id: contest for contest in read_contests(path)} if path.exists() else {}
        missing = [id for id in wanted if id not in contests]
        n_cached = len(wanted) - len(missing)
        progress(_STAGE, n_cached, len(wanted))
        for done, id in enumerate(missing, start=n_cached + 1):
            standings, changes = client.get(STANDINGS.format(id)), client.get(RATING_CHANGES.format(id))
            try:
                contests[id] = parse_contest(standings, changes)
            except CurateError as error:
                failure_reasons[id] = str(error)
            else:
                write_contests(path, contests.values())
            progress(_STAGE, done, len(wanted))
    return FetchSummary(len(missing) - len(failure_reasons), n_cached, failure_reasons)


class ApiClient:
    """A client of the API.

    pause_seconds: minimum time between a reply and the next request

    Raises CurateError if base_url is not a URL.
    """

    def __init__(self, base_url: str, pause_seconds: float) -> None:
        headers = {"accept-encoding": "gzip,deflate", "user-agent": "curate-code"}
        try:
            self._client = HttpClient(base_url, headers=headers, connections=1, connect_seconds=_CONNECT_SECONDS)
        except ValueError as error:
            raise CurateError(f"--base-url must be a URL such as {BASE_URL}: {error}") from error
        self._pause_seconds = pause_seconds
        self._next_request = 0.0  # earliest time of the next request, by time.monotonic()

    def get(self, path: str) -> Any:
        """Send a request, with retries, and return the reply. Raises CurateError if all attempts fail."""
        retry_reason = ""
        for attempt in range(_MAX_ATTEMPTS):
            backoff = self._pause_seconds * (2**attempt - 1)
            time.sleep(max(0.0, self._next_request - time.monotonic() + backoff))
            content, retry_reason = self._send(path)
            self._next_request = time.monotonic() + self._pause_seconds
            if not retry_reason:
                return content
            log.info("%s/%s: %s", self._client.url, path, retry_reason)
        raise CurateError(
            f"{self._client.url} did not respond in {_MAX_ATTEMPTS} attempts ({retry_reason}). Run the same command "
            "again later."
        )

    def _send(self, path: str) -> tuple[Any, str]:
        """Send a request. Return (reply, reason to retry); the reason is empty after a success."""
        try:
            response = self._client.request("GET", f"/{path}", read_seconds=_READ_SECONDS)
        except ServerUnreachable as error:
            return None, str(error)[:_MAX_SHOWN_CHARS]
        try:
            content = json.loads(response.body.decode("utf-8", "replace"))
        except ValueError:
            return None, f"HTTP {response.status} without JSON"
        comment = str(content.get("comment", "")) if isinstance(content, Mapping) else ""
        return content, comment if _RATE_LIMITED in comment.lower() else ""

    def close(self) -> None:
        self._client.close()


def parse_contest(standings: Any, rating_changes: Any) -> Contest:
    """Parse a contest from the two replies.

    Raises CurateError if Codeforces refused a request, a field is missing, the replies belong to different contests, or
    the contest is not over.
    """
    table, changes = _extract_result(standings, "standings"), _extract_result(rating_changes, "rating changes")
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
        return Contest.create(
            int(contest["id"]),
            str(contest["name"]),
            str(contest["type"]),
            datetime.fromtimestamp(contest["startTimeSeconds"], UTC).date(),
            [_parse_problem(problem) for problem in table["problems"]],
            list(scores.values()),
            [old_ratings[handle] for handle in scores],
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise CurateError(f"A reply of Codeforces lacks a field ({error!r}). Fetch the contest again.") from error


def _extract_result(reply: Any, name: str) -> Any:
    content = reply if isinstance(reply, Mapping) else {}
    if content.get("status") != "OK" or "result" not in content:
        raise CurateError(f"Codeforces returned no {name}: {content.get('comment', 'no reason given')}")
    return content["result"]


def _parse_problem(problem: Mapping[str, Any]) -> ContestProblem:
    points, rating = problem.get("points"), problem.get("rating")
    return ContestProblem(
        str(problem["index"]), None if points is None else float(points), None if rating is None else int(rating)
    )
