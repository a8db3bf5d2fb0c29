"""Judges behind HTTP: `curate serve`, and SandboxFusion, which only runs programs.

This module judges the results of SandboxFusion by verl's rule: exit status 0, and the expected output after stripping.
So a finding on SandboxFusion is a weakness of its execution or of this rule.
"""

import json
import time
from typing import Any

from curate.probe.forms import UnusableTarget
from curate.probe.target import Score, TargetDescription
from rewards.extract import PYTHON_ONLY, extract_submission
from sandbox.http_client import HttpClient, HttpResponse, ServerUnreachable
from sandbox.probes.probe import Convention
from sandbox.suite import Suite

_JUDGE, _RUN = "/judge", "/run_code"
_HELLO = {"id": "hello", "code": "print(7)", "kind": "stdin", "tests": [{"input": "", "output": "7\n"}]}


class HttpJudge:
    """A client of a server that judges or runs programs.

    url            address of the server, optionally with a token: http://anyone:TOKEN@host:8080
    call_seconds   time limit for one HTTP request

    Raises UnusableTarget for an invalid URL.
    """

    def __init__(self, url: str, *, call_seconds: float) -> None:
        url = url.removesuffix(_RUN).removesuffix(_JUDGE)
        try:
            self._client = HttpClient(url)
        except ValueError as error:
            raise UnusableTarget(f"{error}; pass http://HOST:PORT") from error
        if self._client.password:
            self._client.headers["Authorization"] = f"Bearer {self._client.password}"
        self._call_seconds = call_seconds
        self._judges = False

    def open(self) -> TargetDescription:
        """Detect the server's protocol. Raises UnusableTarget."""
        try:
            judged = self._post(_JUDGE, _HELLO)
            if judged.status in (401, 403):
                raise UnusableTarget(f"{self._client.url} requires a token: pass http://anyone:TOKEN@HOST:PORT")
            self._judges = "verdict" in judged.get_json_object()
            if self._judges:
                return TargetDescription("curate serve", accepts_text=False)
            run = self._post(_RUN, {"code": "print(7)", "language": "python"})
        except ServerUnreachable as error:
            raise UnusableTarget(f"{self._client.url} gave no HTTP response: {error}; start the server") from error
        if "run_result" not in run.get_json_object():
            raise UnusableTarget(
                f"{self._client.url} implements neither the protocol of `curate serve` (POST {_JUDGE}: HTTP "
                f"{judged.status}) nor SandboxFusion's (POST {_RUN}: HTTP {run.status}); pass another address"
            )
        return TargetDescription("SandboxFusion", conventions=(Convention.STDIN,), accepts_text=False)

    def score(self, completion: str, suite: Suite, form: int, condition: str = "") -> Score:
        """Return the score 1.0 or 0.0 of the program in a completion."""
        program = extract_submission(completion, PYTHON_ONLY)
        source = "" if program is None else program.source
        began = time.monotonic()
        try:
            score = self._judge(source, suite) if self._judges else self._run(source, suite)
        except ServerUnreachable as error:
            late = time.monotonic() - began >= self._call_seconds
            score = Score(None, "hung" if late else "unanswered", str(error))
        return Score(score.value, score.fault, score.detail, time.monotonic() - began)

    def restart(self) -> None:
        """Do nothing, because the server is external."""

    def close(self) -> None:
        self._client.close()

    def _judge(self, source: str, suite: Suite) -> Score:
        reply = self._post(_JUDGE, _make_record(source, suite))
        answer = reply.get_json_object()
        passed = answer.get("passed")
        if reply.status != 200 or not isinstance(passed, bool):
            return Score(None, "unanswered", f"HTTP {reply.status}: {reply.get_error_message()}"[:300])
        return Score(float(passed), detail=str(answer.get("verdict", "")))

    def _run(self, source: str, suite: Suite) -> Score:
        for case in suite.cases:
            seconds = suite.limits.wall_seconds
            reply = self._post(
                _RUN, {"code": source, "language": "python", "stdin": case.input, "run_timeout": seconds}
            )
            answer = reply.get_json_object()
            result = answer.get("run_result") or {}
            if reply.status != 200 or answer.get("status") == "SandboxError" or not isinstance(result, dict):
                return Score(None, "unanswered", f"HTTP {reply.status}: {reply.get_error_message()}"[:300])
            printed = result.get("stdout")
            if result.get("return_code") != 0 or not isinstance(printed, str):
                return Score(0.0, detail=str(result.get("status")))
            if printed.strip() != case.expected.strip():
                return Score(0.0, detail="wrong output")
        return Score(1.0)

    def _post(self, path: str, body: dict[str, Any]) -> HttpResponse:
        content = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        return self._client.request(
            "POST", path, content, read_seconds=self._call_seconds, max_seconds=self._call_seconds,
            max_bytes=1 << 24, headers=headers,
        )  # fmt: skip


def _make_record(source: str, suite: Suite) -> dict[str, Any]:
    record: dict[str, Any] = {"id": "probe", "code": source, "checker": suite.checker, "kind": "stdin"}
    record["tests"] = [{"input": case.input, "output": case.expected} for case in suite.cases]
    if suite.entry_point is not None:
        record |= {"kind": "function", "fn_name": suite.entry_point}
    if suite.assertions is not None:
        record |= {"kind": "assertions", "names": list(suite.assertions.names)}
    return record
