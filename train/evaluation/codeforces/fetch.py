"""Fetch contests from Codeforces' public API into a file.

The file is written anew after each contest, so an interruption costs one contest at most, and a contest that is in the
file is not fetched again.
"""

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from curate.errors import CurateError
from curate.progress import Progress, no_progress
from train.evaluation.codeforces.api_client import ApiClient
from train.evaluation.codeforces.contest_file import read_contests, write_contests
from train.evaluation.codeforces.contests import Contest
from train.evaluation.codeforces.public_api import (
    BASE_URL,
    SECONDS_BETWEEN_REQUESTS,
    rating_changes_url,
    read_contest,
    standings_url,
)

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
