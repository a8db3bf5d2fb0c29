"""Sandbox(backend="http") gives the same verdicts as this machine, and no verdict if the service gave none."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

import pytest
from batch import Answer as Answered
from batch import judged, spread
from echoes import ECHO, LONG, ONE, SLEEP
from serving import Service, serve_with_settings, serving
from waiting import becomes, listens

from rewards import CodeReward, Completion, Task
from sandbox import (
    BackendUnavailable,
    Cancelled,
    CancelToken,
    Case,
    ExecutionLost,
    Limits,
    Program,
    Referee,
    RefereeConvention,
    RefereeError,
    RunResult,
    Sandbox,
    SandboxError,
    Suite,
    Verdict,
)
from sandbox.conformance import CHECKS, KNOWN_FAILURES
from sandbox.judge import Judgement


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with serving("--workers", "2") as service:
        yield service


@pytest.fixture(scope="module")
def far(service: Service) -> Iterator[Sandbox]:
    with Sandbox(backend="http", url=service.url) as far:
        yield far


def there(service: Service, **options: Any) -> Sandbox:
    return Sandbox(backend="http", url=service.url, **options)


# The same results as on this machine.


@pytest.fixture
def judge(far: Sandbox) -> Sandbox:
    return far


BY_NAME = {check.name: check for check in CHECKS}


@judged({name: (check.program, check.suite) for name, check in BY_NAME.items()}, quick=spread(BY_NAME, 8))
def test_conformance(name: str, answer: Answered) -> None:
    if name in KNOWN_FAILURES.get("http", {}):
        pytest.xfail(KNOWN_FAILURES["http"][name])
    if isinstance(answer, BackendUnavailable):
        pytest.skip(f"the service cannot judge this here: {answer}")
    assert isinstance(answer, Judgement), answer
    assert answer.verdict in BY_NAME[name].expected, answer


def without_measures(judgement: Judgement) -> Judgement:
    cases = tuple(replace(case, cpu_seconds=0, wall_seconds=0, memory_mb=0) for case in judgement.cases)
    return replace(judgement, cases=cases)


TWO = Suite([Case("1\n", "1\n"), Case("\ud800é\n", "é\n")])
HALF = Referee(Program("print(0.5)"), RefereeConvention.PRINTED)
ECHOED = Referee(
    Program("import sys\nprint(int(open(sys.argv[1]).read() == open(sys.argv[3]).read()))"), RefereeConvention.PRINTED
)
THREE = Referee(Program("import sys\na, b, c = open(sys.argv[3]).read().split()\nprint(1)"), RefereeConvention.PRINTED)
SHORT = Limits(wall_seconds=0.3)


@pytest.mark.parametrize("run_all", [False, True])
@pytest.mark.parametrize(
    ("source", "suite"),
    [
        ("print(input())", TWO),
        ("print(2)", TWO),
        ("import sys\nsys.exit('no')", TWO),
        ("print(", TWO),
        ("while True: pass", Suite([Case("", "")], limits=SHORT)),
        ("def f(a): return {a: (1, 2)}", Suite([Case("[1]", '{"1": [1, 2]}')], entry_point="f")),
        ("def f(a): return a + 1e-9", Suite([Case("[1]", "1")], entry_point="f", checker="floats")),
        ("print(1)", Suite([Case("", "")], checker="program", referee=HALF)),
        ("print(1)", Suite([Case("1\n", "")], checker="program", referee=ECHOED)),
        ("print()", Suite([Case("1\n", "", "1 2 3\n")], checker="program", referee=THREE)),
    ],
)
def test_judgements_match_those_of_this_machine(
    far: Sandbox, box: Sandbox, source: str, suite: Suite, run_all: bool
) -> None:
    judgement = far.judge(Program(source), suite, run_all=run_all, keep_outputs=run_all)
    here = box.judge(Program(source), suite, run_all=run_all, keep_outputs=run_all)
    assert without_measures(judgement) == without_measures(here)
    assert judgement.verdict is Verdict.COMPILE_ERROR or judgement.cases[0].cpu_seconds > 0


RUNS: list[tuple[str, dict[str, Any]]] = [
    ("import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])", {"stdin": b"\xff\0\n"}),
    ("import sys\nprint(sys.argv[1:], file=sys.stderr)\nsys.exit(5)", {"arguments": ["a b", "\u00e9", ""]}),
    ("import os\nos.abort()", {}),
    ("print(", {}),
    ("while True: pass", {"limits": SHORT}),
    ("while True: print('x' * 10**6)", {"limits": Limits(output_kb=10)}),
    (
        "import os\nos.mkdir('d')\nopen('d/out', 'wb').write(open('in', 'rb').read() * 2)",
        {"files": {"in": b"\0\xff"}, "fetch": ["d/out", "missing"]},
    ),
]


@pytest.mark.parametrize(("source", "options"), RUNS)
def test_runs_match_those_of_this_machine(far: Sandbox, box: Sandbox, source: str, options: dict[str, Any]) -> None:
    def without_measures(result: RunResult) -> RunResult:
        return replace(result, cpu_seconds=0, wall_seconds=0, memory_mb=0)

    result = far.run(Program(source), **options)
    assert without_measures(result) == without_measures(box.run(Program(source), **options))
    assert result.wall_seconds < 60


def test_many_are_judged_and_read_only_a_little_ahead(far: Sandbox) -> None:
    numbers = count()
    pairs = ((ECHO, Suite([Case(f"{number}\n", f"{number}\n")])) for number in numbers)
    judged = far.judge_many(pairs)
    seen = [next(judged) for _ in range(50)]
    judged.close()  # type: ignore[attr-defined]
    assert all(judgement.accepted for _, judgement in seen)
    assert len({index for index, _ in seen}) == 50
    assert next(numbers) < 100


def test_an_error_in_a_request_is_reported_as_such(far: Sandbox) -> None:
    pairs = [
        (Program("1", "klingon"), ONE),
        (ECHO, Suite([])),
        (ECHO, Suite([Case("1", "1")], checker="none")),
        (ECHO, Suite([Case("1", "1")], limits=Limits(wall_seconds=9e4))),
        (ECHO, Suite([Case("1", "1")], entry_point="f")),
        (ECHO, Suite([Case("1", "1")], checker="program", referee=Referee(Program("1/0"), RefereeConvention.PRINTED))),
        (ECHO, ONE),
    ]
    answers = dict(far.judge_many_with_errors(pairs))
    assert [type(answers[index]) for index in range(5)] == [ValueError] * 5
    assert isinstance(answers[5], RefereeError)
    assert isinstance(answers[6], Judgement)
    assert "klingon" in str(answers[0])
    assert "wall_seconds" in str(answers[3])


# Failures of the service and of the connection.


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.thorough)])
def test_a_service_that_restarts_is_waited_for(number: int) -> None:
    napping = Program("import time\ntime.sleep(0.3)\nprint(input())")
    with serving("--workers", "1") as first, there(first, retry_seconds=60) as far, ThreadPoolExecutor(4) as clients:
        asked = [clients.submit(far.judge, napping, ONE) for _ in range(4)]
        assert becomes(lambda: first.metric("curate_in_flight") > 0)
        first.end(number)
        with serving("--workers", "1", port=first.port):
            assert all(each.result().accepted for each in asked)
            assert far.run(ECHO, "again\n").stdout == b"again\n"


def test_a_service_that_stays_away_gives_no_verdict() -> None:
    with serving("--workers", "1") as service, there(service, retry_seconds=0.3) as far:
        assert far.judge(ECHO, ONE).accepted
        service.end(signal.SIGKILL)
        with pytest.raises(ExecutionLost, match=service.url):
            far.judge(ECHO, ONE)
        assert [type(answer) for _, answer in far.judge_many_with_errors([(ECHO, ONE)] * 3)] == [ExecutionLost] * 3


def test_an_outage_is_logged_once_and_at_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    with serving("--workers", "1") as first, there(first, retry_seconds=60) as far, ThreadPoolExecutor(4) as clients:
        first.end(signal.SIGKILL)
        assert becomes(lambda: not listens(first.port))  # its front end notices
        asked = [clients.submit(far.judge, ECHO, ONE) for _ in range(4)]
        assert becomes(lambda: len(caplog.messages) == 1)
        assert not any(each.done() for each in asked)
        with serving("--workers", "1", port=first.port):
            assert all(each.result().accepted for each in asked)
    begin, end = caplog.messages
    assert begin.startswith(f"the service at {first.url} is unreachable: Failed to establish a new connection")
    assert "Retrying for 60 s (set CURATE_RETRY_SECONDS to change this)" in begin
    assert end.startswith(f"the service at {first.url} responds again, after ")


def test_one_time_budget_holds_for_all_requests_and_all_attempts() -> None:
    task, answer = Task(tests=ONE), Completion("```python\nprint(1)\n```", 3)
    with answering(HEALTHY, (502, "Bad Gateway")) as url, Sandbox(backend="http", url=url, retry_seconds=0.3) as far:
        with pytest.raises(ExecutionLost, match="attempts: [2-9]"):
            far.judge(ECHO, ONE)
        for _ in range(3):  # the budget is used up, so each further attempt is one request
            with pytest.raises(ExecutionLost, match="attempts: 1"):
                far.judge(ECHO, ONE)
        reward = CodeReward(far)(answer, task)
        assert (reward.value, reward.verdict) == (None, "sandbox_failed")
        assert "(attempts: 1): 502" in reward.detail


def test_the_time_budget_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(HEALTHY, (502, "Bad Gateway")) as url:
        monkeypatch.setenv("CURATE_RETRY_SECONDS", "0")
        with Sandbox(backend="http", url=url) as far, pytest.raises(ExecutionLost, match="attempts: 1"):
            far.judge(ECHO, ONE)
        monkeypatch.setenv("CURATE_RETRY_SECONDS", "soon")
        with pytest.raises(
            ValueError, match="CURATE_RETRY_SECONDS must be a number of seconds, such as 60, not 'soon'"
        ):
            Sandbox(backend="http", url=url)


def test_a_full_service_is_asked_again() -> None:
    with serving("--workers", "1", "--queue", "1") as service, there(service, workers=8) as far:
        napping = Program("import time\ntime.sleep(0.1)\nprint(input())")
        assert all(judgement.accepted for _, judgement in far.judge_many([(napping, ONE)] * 12))
        assert service.metric("curate_http_responses_total", code="429") > 0
        assert service.metric("curate_verdicts_total") == 12


def test_a_failure_of_the_remote_sandbox_is_not_retried() -> None:
    with serve_with_settings("FailingSandbox(workers=1)") as service, there(service) as far:
        with pytest.raises(ExecutionLost, match="the worker died"):
            far.judge(ECHO, ONE)
        assert service.metric("curate_sandbox_failures_total") == 1


def test_a_request_too_large_for_the_service_says_so() -> None:
    with serving("--max-body-mb", "0.01") as service, there(service) as far:
        with pytest.raises(SandboxError, match="--max-body-mb"):
            far.run(ECHO, "x" * 100_000)
        assert far.judge(ECHO, ONE).accepted


def test_closing_ends_what_is_in_progress() -> None:
    with serving("--workers", "1") as service, ThreadPoolExecutor(1) as clients:
        far = there(service)
        asked = clients.submit(far.judge, SLEEP, LONG)
        assert becomes(lambda: service.metric("curate_in_flight") == 1)
        far.close()
        with pytest.raises(SandboxError, match="closed"):
            asked.result(timeout=10)
        with pytest.raises(SandboxError, match="closed"):
            far.judge(ECHO, ONE)
        service.end(signal.SIGKILL)


def test_a_sandbox_belongs_to_the_process_that_made_it(far: Sandbox) -> None:
    assert far.judge(ECHO, ONE).accepted
    child = os.fork()
    if child == 0:
        try:
            far.judge(ECHO, ONE)
        except SandboxError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert far.judge(ECHO, ONE).accepted


# Servers and options that are refused.


@contextmanager
def answering(health: tuple[int, str], other: tuple[int, str] = (404, "")) -> Iterator[str]:
    """Yield the URL of a server that gives the same answers whatever it is asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = health if self.path == "/health" else other
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        do_POST = do_GET

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


HEALTHY = 200, json.dumps({"service": "curate", "workers": 1, "layers": {"files": "read-only root"}})


@pytest.mark.parametrize("health", [(200, "<html>hello</html>"), (404, '{"detail": "Not Found"}'), (200, "[]")])
def test_another_kind_of_server_is_refused(health: tuple[int, str]) -> None:
    with answering(health) as url, pytest.raises(BackendUnavailable, match="is not `curate serve`") as error:
        Sandbox(backend="http", url=url)
    assert health[1] in str(error.value)


def test_a_url_at_which_nobody_listens_is_refused(service: Service) -> None:
    with serving() as gone:
        pass
    with pytest.raises(BackendUnavailable, match="curate serve"):
        there(gone)


@pytest.mark.parametrize(
    "answer",
    [
        (200, "<html>welcome</html>"),
        (200, "{}"),
        (200, '{"verdict": "accepted"}'),
        (200, '{"verdict": "excellent", "cases": [], "n_cases": 1}'),
        (302, ""),
        (500, "Internal Server Error"),
        (401, '{"detail": "send the token", "error": "Unauthorized"}'),
        (502, "Bad Gateway"),
        (503, '{"detail": "stopping", "error": "Stopping"}'),
    ],
)
def test_any_other_response_is_not_a_verdict(answer: tuple[int, str]) -> None:
    with (
        answering(HEALTHY, answer) as url,
        Sandbox(backend="http", url=url, retry_seconds=0.1) as far,
        pytest.raises(SandboxError),
    ):
        far.judge(ECHO, ONE)


def test_a_token_is_sent_and_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving("--workers", "1", environment={"CURATE_TOKEN": "s3cret"}) as service:
        with there(service, token="s3cret") as far:
            assert far.judge(ECHO, ONE).accepted
        with Sandbox(backend="http", url=service.url.replace("//", "//anyone:s3cret@"), retry_seconds=0.3) as far:
            assert far.judge(ECHO, ONE).accepted
            service.end(signal.SIGKILL)
            with pytest.raises(SandboxError) as error:
                far.judge(ECHO, ONE)
            assert "s3cret" not in str(error.value)
    with serving("--workers", "1", environment={"CURATE_TOKEN": "s3cret"}) as service:
        for wrong in ({}, {"token": "wrong"}):
            with pytest.raises(BackendUnavailable, match="CURATE_TOKEN"):
                there(service, **wrong)
        monkeypatch.setenv("CURATE_TOKEN", "s3cret")
        with there(service) as far:
            assert far.judge(ECHO, ONE).accepted


def test_full_isolation_is_asked_of_the_service(far: Sandbox) -> None:
    assert not any(how.startswith("none") for name, how in far.layers.items() if name != "numpy")
    with serve_with_settings("UnisolatedSandbox(workers=1)") as service:
        with pytest.raises(BackendUnavailable, match="without isolation of network[.]"):
            there(service)
        with there(service, isolation="best-effort") as far:
            assert far.judge(ECHO, ONE).accepted


def test_the_number_of_workers_is_the_services_or_the_requested_one(service: Service, far: Sandbox) -> None:
    assert far.workers == 2
    with there(service, workers=5) as far:
        assert far.workers == 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "url="),
        ({"url": "ftp://x"}, "url="),
        ({"url": "http://"}, "url="),
        ({"url": "host:80"}, "url="),
        ({"url": "http://127.0.0.1:1", "seed": 1}, "seed"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Sandbox(backend="http", **options)


def test_cancelling_returns_at_once_and_ends_the_remote_program(service: Service, far: Sandbox) -> None:
    with ThreadPoolExecutor(1) as clients:
        cancellation = CancelToken()
        asked = clients.submit(far.judge, SLEEP, LONG, cancellation=cancellation)
        assert becomes(lambda: service.metric("curate_in_flight") == 1)
        cancellation.cancel()
        with pytest.raises(Cancelled):
            asked.result(timeout=20)
        assert becomes(lambda: service.metric("curate_in_flight") == 0)
        assert far.judge(ECHO, ONE, cancellation=CancelToken()).accepted
