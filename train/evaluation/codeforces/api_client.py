"""Asks Codeforces' public API: one request after the other, with a pause between them.

The API refuses those who ask too often, and now and then it is busy. Then the same request is sent again, after pauses
that grow. An answer that says why a request cannot be granted is final: `public_api` explains it.
"""

import json
import logging
import time
from collections.abc import Mapping

import urllib3
from urllib3.exceptions import HTTPError, LocationValueError
from urllib3.util import Timeout, parse_url

from curate.errors import CurateError
from train.evaluation.codeforces.public_api import BASE_URL, SECONDS_BETWEEN_REQUESTS

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
