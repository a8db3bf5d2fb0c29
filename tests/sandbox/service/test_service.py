"""`curate serve` gives the right answers to those who may ask, and only a signal stops it."""

import base64
import http.client
import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import forked
import pytest
from process_tree import alive, below
from proxy import behind_nginx
from serving import CURATE, ECHO, JSON, ROOT, SLEEP, Service, serve_with_settings, serving, stdout
from waiting import becomes, listens

from sandbox import Sandbox
from sandbox.judge_record import judge_lines

NAP = {"code": "import time\ntime.sleep(0.5)\nprint(input())", "language": "python", "stdin": "rested\n"}
LATE = {"code": "while True: pass", "language": "python", "run_timeout": 0.3}
TESTS = [{"input": "a\n", "output": "a\n"}, {"input": "b\n", "output": "b\n"}]
RECORD = {"id": 7, "code": ECHO["code"], "kind": "stdin", "tests": TESTS}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with serving("--workers", "2", "--max-body-mb", "1", popen=subprocess.Popen) as service:
        yield service
        assert "Traceback" not in service.stderr, service.stderr


@pytest.fixture(scope="module")
def single() -> Iterator[Service]:
    """Yield a service with one worker and the default settings."""
    with serving("--workers", "1") as single:
        yield single


@pytest.fixture(scope="module")
def broken() -> Iterator[Service]:
    """Yield a service whose sandbox always fails."""
    with serve_with_settings("FailingSandbox(workers=1)") as broken:
        yield broken


@pytest.fixture(scope="module")
def narrow() -> Iterator[Service]:
    """Yield a service with one worker and a short queue."""
    with serving("--workers", "1", "--queue", "2") as narrow:
        yield narrow


@pytest.fixture(scope="module")
def impatient() -> Iterator[Service]:
    """Yield a service that waits for nothing longer than a second or two."""
    with serve_with_settings(queue_timeout_seconds=0.2, body_seconds=2, max_body_mb=1) as impatient:
        yield impatient


@pytest.fixture(scope="module")
def shielded(impatient: Service) -> Iterator[Service]:
    """Yield the same service behind an nginx that is as impatient."""
    chosen = {"client_header_timeout": "2s", "client_body_timeout": "2s", "client_max_body_size": "1m"}
    with behind_nginx(impatient, **chosen, lingering_time="1s") as shielded:
        yield shielded


@pytest.fixture(scope="module")
def guarded() -> Iterator[Service]:
    """Yield a service with a token, whose metrics are open."""
    with serving("--workers", "1", "--open-metrics", environment={"CURATE_TOKEN": "s3cret"}) as guarded:
        yield guarded


# Records, as `curate judge` reads them.


def without_measures(answer: dict[str, Any]) -> dict[str, Any]:
    measures = {"cpu_seconds", "wall_seconds", "memory_mb"}
    tests = [{key: value for key, value in test.items() if key not in measures} for test in answer.get("tests", [])]
    return {key: value for key, value in answer.items() if key not in measures} | {"tests": tests}


def records() -> list[dict[str, Any]]:
    sources = ["print(input())", "print(input() + '.')", "1/0", "print(", "import os\nos.abort()"]
    cases = [{"input": "[1, 2]", "output": "3"}]
    called = {"id": "call", "code": "def add(a, b): return a + b", "kind": "function", "fn_name": "add", "tests": cases}
    return [{**RECORD, "id": number, "code": source} for number, source in enumerate(sources)] + [called]


def test_verdicts_match_those_of_curate_judge(service: Service, box: Sandbox) -> None:
    lines = ((number, json.dumps(record)) for number, record in enumerate(records()))
    expected = [without_measures(answer) for answer in judge_lines(box, lines, run_all=False)]
    answers = [service.send_request("/judge", record)[1] for record in records()]
    assert [without_measures(answer) for answer in answers] == expected
    for batch in (records(), {"records": records()}):
        status, answers, _ = service.send_request("/judge", batch)
        assert (status, [without_measures(answer) for answer in answers]) == (200, expected)


def test_a_batch_can_be_answered_line_by_line(service: Service) -> None:
    _, text, response = service.send_request("/judge", records(), headers={"accept": "application/x-ndjson"})
    assert response.headers["content-type"] == "application/x-ndjson"
    answers = [json.loads(line) for line in text.splitlines()]
    assert [answer["id"] for answer in answers] == [record["id"] for record in records()]


def test_all_tests_are_run_on_request(service: Service) -> None:
    record = {**RECORD, "code": "print('b')"}
    assert [len(service.send_request(path, record)[1]["tests"]) for path in ("/judge", "/judge?run_all=true")] == [1, 2]


def test_a_malformed_record_is_refused_with_the_field_at_fault(service: Service) -> None:
    status, answer, _ = service.send_request("/judge", {**RECORD, "tests": "none"})
    assert status == 422
    assert "field 'tests' must be a list" in answer["detail"]


def test_a_misspelt_field_is_refused_in_the_words_of_curate_judge(service: Service, box: Sandbox) -> None:
    misspelt = {**RECORD, "time_limit": 0.2}
    [line] = judge_lines(box, [(1, json.dumps(misspelt))], run_all=False)
    assert "unknown field 'time_limit'. Did you mean 'time_limit_s'?" in line["error"]
    status, answer, _ = service.send_request("/judge", misspelt)
    assert (status, f"malformed record: {answer['detail']}") == (422, line["error"])
    [lost] = service.send_request("/judge", [misspelt])[1]
    assert lost["error"] == line["error"]


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        ("/judge", {"records": [RECORD], "run_all": True}, "unknown field 'run_all' next to 'records'"),
        ("/judge?runall=true", RECORD, "unknown parameter 'runall' in the query"),
        ("/judge?run_all=yes", RECORD, "parameter 'run_all' must be true or false, not 'yes'"),
        ("/judge", {**RECORD, "time_limit_s": 4000}, "field 'time_limit_s' must be at most 3,600"),
        ("/run_code", {**ECHO, "run_timeout": 0}, "field 'run_timeout' must be above zero"),
        ("/run_code", {**ECHO, "run_timeout": 4000}, "field 'run_timeout' must be at most 3,600"),
        ("/run_code", {**ECHO, "memory_limit_MB": 10**7}, "field 'memory_limit_MB' must be at most"),
        ("/run_code", {**ECHO, "fetch_files": ["../x"]}, "a name in fetch must be a short relative path"),
        (
            "/run",
            {"program": {"source": ""}, "limits": {"wall_seconds": 4000}},
            "field 'limits.wall_seconds' must be at most 3,600",
        ),
        (
            "/judge_suite",
            {"program": {"source": ""}, "suite": {"cases": [], "limits": {"memory_mb": 10**7}}},
            "field 'suite.limits.memory_mb' must be at most",
        ),
        ("/run", [], "the body must be a JSON object"),
    ],
)
def test_a_refusal_names_what_is_at_fault_as_the_request_spells_it(
    service: Service, path: str, content: Any, words: str
) -> None:
    status, answer, _ = service.send_request(path, content)
    assert status == 422
    assert words in answer["detail"]


def test_malformed_records_in_a_batch_do_not_stop_the_others(service: Service) -> None:
    broken = [{"id": True}, {**RECORD, "checker": "none"}, {**RECORD, "memory_limit_mb": 1e400}, None]
    status, answers, _ = service.send_request(
        "/judge", json.dumps([*broken, RECORD]).replace("Infinity", "1e400").encode()
    )
    assert status == 200
    assert [answer["index"] for answer in answers[:4]] == [0, 1, 2, 3]
    assert all(answer["error"].startswith("malformed record: ") for answer in answers[:4])
    assert answers[4]["verdict"] == "accepted"


def test_a_batch_may_be_larger_than_the_queue(narrow: Service) -> None:
    status, answers, _ = narrow.send_request("/judge", [{**RECORD, "id": number} for number in range(40)])
    assert status == 200
    assert [(answer["id"], answer["verdict"]) for answer in answers] == [(n, "accepted") for n in range(40)]


# Requests and responses of SandboxFusion.


def fusion_run(service: Service, **request: Any) -> Any:
    """Run code with the client that SandboxFusion publishes."""
    import sandbox_fusion

    return sandbox_fusion.run_code(
        sandbox_fusion.RunCodeRequest(**{"language": "python", **request}), service.url, max_attempts=1
    )


@pytest.mark.parametrize(
    ("request_", "status", "run_status", "code", "printed", "error"),
    [
        pytest.param({"code": "print(input())", "stdin": "hé\n"}, "Success", "Finished", 0, "hé\n", "", id="right"),
        pytest.param({"code": "print(1)\n1/0"}, "Failed", "Finished", 1, "1\n", "ZeroDivisionError", id="exception"),
        pytest.param({"code": "exit(3)"}, "Failed", "Finished", 3, "", "", id="exit status"),
        pytest.param({"code": "import os\nos.abort()"}, "Failed", "Finished", -6, "", "", id="signal"),
        pytest.param({"code": "print("}, "Failed", "Finished", 1, "", "SyntaxError", id="syntax"),
        pytest.param(LATE, "Failed", "TimeLimitExceeded", None, "", "", id="time limit"),
        pytest.param(
            {"code": "while True: print('x' * 10**6)"}, "Failed", "Finished", 1, None, "output limit", id="output limit"
        ),
        pytest.param(
            {"code": "import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)"},
            "Failed",
            "Finished",
            -31,
            "",
            "forbidden system call",
            id="violation",
        ),
        pytest.param(
            {"code": "import sys\nsys.stdout.buffer.write(b'\\xff.')"}, "Success", "Finished", 0, "�.", "", id="bytes"
        ),
    ],
)
def test_the_client_of_sandboxfusion_understands_how_a_run_ended(
    service: Service,
    request_: dict[str, Any],
    status: str,
    run_status: str,
    code: int | None,
    printed: str | None,
    error: str,
) -> None:
    answer = fusion_run(service, **request_)
    assert (answer.status.value, answer.run_result.status.value) == (status, run_status)
    assert answer.run_result.return_code == code
    assert printed is None or answer.run_result.stdout == printed
    assert error in answer.run_result.stderr
    assert answer.run_result.execution_time < 60


def test_a_run_that_exceeds_its_memory_has_failed_whatever_its_exit_status(service: Service) -> None:
    code = "try:\n    x = bytearray(b'x' * (300 << 20))\nexcept MemoryError: pass"
    hog = {"code": code, "language": "python", "memory_limit_MB": 100}
    _, answer, _ = service.send_request("/run_code", hog)
    assert (answer["status"], answer["run_result"]["status"]) == ("Failed", "Finished")
    assert answer["run_result"]["return_code"] != 0
    assert answer["run_result"]["stderr"].endswith("memory limit of 100 MB exceeded\n")
    assert service.send_request("/run_code", {**hog, "memory_limit_MB": -1})[1]["status"] == "Success"
    assert service.send_request("/run_code", {**hog, "memory_limit_MB": None})[1]["status"] == "Success"


def test_files_go_in_and_come_out(service: Service) -> None:
    code = "import os\nos.makedirs('d', exist_ok=True)\nopen('d/out', 'wb').write(open('in', 'rb').read()[::-1])"
    files = {"in": base64.b64encode(b"\0abc").decode(), "nothing": None}
    answer = fusion_run(service, code=code, files=files, fetch_files=["d/out", "missing"])
    assert {name: base64.b64decode(content) for name, content in answer.files.items()} == {"d/out": b"cba\0"}


def test_compilation_has_a_separate_result(service: Service) -> None:
    right = fusion_run(service, code='#include <cstdio>\nint main() { puts("7"); }', language="cpp")
    assert (right.status.value, right.compile_result.return_code, right.run_result.stdout) == ("Success", 0, "7\n")
    wrong = fusion_run(service, code="int main( {", language="cpp")
    assert (wrong.status.value, wrong.run_result) == ("Failed", None)
    assert wrong.compile_result.return_code == 1
    assert "error" in wrong.compile_result.stderr


def test_many_concurrent_requests_each_get_their_own_answer(service: Service) -> None:
    import sandbox_fusion

    requests = [{"request": sandbox_fusion.RunCodeRequest(**ECHO, stdin=f"{number}\n")} for number in range(60)]
    answers = sandbox_fusion.run_concurrent(
        lambda request: sandbox_fusion.run_code(request, service.url), kwargs=requests, concurrency=20
    )
    assert [answer.run_result.stdout for answer in answers] == [f"{number}\n" for number in range(60)]


def test_the_asynchronous_client_works_too(service: Service) -> None:
    import asyncio

    import sandbox_fusion

    async def all_of_them() -> list[Any]:
        requests = [sandbox_fusion.RunCodeRequest(**ECHO, stdin=f"{number}\n") for number in range(20)]
        return await asyncio.gather(*(sandbox_fusion.run_code_async(each, service.url) for each in requests))

    answers = asyncio.run(all_of_them())
    assert [answer.run_result.stdout for answer in answers] == [f"{number}\n" for number in range(20)]


def test_ping_answers_pong(service: Service) -> None:
    assert service.send_request("/v1/ping")[:2] == (200, "pong")


@pytest.mark.parametrize(
    "wrong",
    [
        {"language": "klingon"},
        {"run_timeout": 0},
        {"run_timeout": 1e12},
        {"run_timeout": "soon"},
        {"files": {"../x": ""}},
        {"files": {"x": "?"}},
        {"fetch_files": "x"},
        {"code": 1},
        {"memory_limit_MB": 1e300},
    ],
    ids=str,
)
def test_requests_that_cannot_be_run_are_refused_and_do_not_count_as_failed_programs(
    service: Service, wrong: dict[str, Any]
) -> None:
    status, answer, _ = service.send_request("/run_code", {**ECHO, **wrong})
    assert status == 422
    assert answer["detail"]


def verl_asks(url: str, code: str, stdin: Any, timeout: int, memory_mb: int) -> tuple[Any, str | None]:
    """Send what verl's reward function sends. Like verl, try again after a 504, three times in all."""
    import requests

    payload = json.dumps(
        {
            "compile_timeout": timeout,
            "run_timeout": timeout,
            "code": code,
            "stdin": stdin,
            "memory_limit_MB": memory_mb,
            "language": "python",
            "files": {},
            "fetch_files": [],
        }
    )
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    for attempt in range(3):
        try:
            response = requests.post(url, headers=headers, data=payload, timeout=timeout + timeout + 10)
            if response.status_code == 504:
                time.sleep(0.1 * (attempt + 1))
                continue
            response.raise_for_status()
            return response.json(), None
        except requests.exceptions.RequestException as error:
            return None, str(error)
    return None, "Gateway Timeout"


def verl_scores(url: str, code: str, stdin: Any, expected: str, timeout: int = 5) -> Any:
    """Return the score that verl derives: True, False, -1 (unknown), -2 (error), -3 (time limit), -4 (not compiled)."""
    answer, error = verl_asks(url, code, stdin, timeout, 1024)
    if error is not None or answer["status"] == "SandboxError":
        return -1
    compiled, run = answer["compile_result"], answer["run_result"]
    if answer["status"] == "Success":
        same = run["status"] == "Finished" and (run["stdout"] or "").rstrip("\n") == expected.rstrip("\n")
        return same if run["status"] == "Finished" else -1
    if compiled and (compiled["status"] in ("Error", "TimeLimitExceeded") or compiled["return_code"] != 0):
        return -4
    if run["status"] == "TimeLimitExceeded":
        return -3
    return -2 if run["status"] == "Error" or run["return_code"] != 0 else -1


@pytest.mark.parametrize(
    ("code", "score"),
    [("print(int(input()) * 2)", True), ("print(4)", False), ("1/0", -2), ("print(", -2), ("while True: pass", -3)],
)
def test_verl_gets_the_scores_it_should(service: Service, code: str, score: Any) -> None:
    assert verl_scores(f"{service.url}/run_code", code, "21\n", "42\n", timeout=1) is score


def test_verl_retries_after_a_sandbox_failure_and_does_not_blame_the_program(broken: Service) -> None:
    count = broken.counts()
    assert verl_scores(f"{broken.url}/run_code", "print(1)", "", "1") == -1
    assert count("curate_http_responses_total", path="/run_code", code="504") == 3
    assert count("curate_sandbox_failures_total") == 3


def test_a_failing_sandbox_gives_no_verdict(broken: Service) -> None:
    status, answer, _ = broken.send_request("/judge", RECORD)
    assert (status, answer["error"], answer["detail"]) == (503, "ExecutionLost", "the worker died")
    status, answers, _ = broken.send_request("/judge", [RECORD, {}])
    assert (status, [answer["error"].split(":")[0] for answer in answers]) == (200, ["sandbox", "malformed record"])
    assert broken.metric("curate_verdicts_total") == 0


# More requests than can be served, and requests that no client should send.

HEAD = b"POST /run_code HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


def post(path: str, content: Any) -> bytes:
    body = json.dumps(content).encode()
    return HEAD.replace(b"/run_code", path.encode()) + b"content-length: %d\r\n\r\n" % len(body) + body


def raw(service: Service, sent: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", service.port), timeout=60)
    client.sendall(sent)
    return client


def received(client: socket.socket) -> bytes:
    """Return everything that arrives until the other side hangs up."""
    data = b""
    with client:
        while True:
            try:
                more = client.recv(65536)
            except ConnectionResetError:
                return data
            if not more:
                return data
            data += more


def is_cut_off(client: socket.socket, more: bytes) -> bool:
    """Return whether the other side hangs up on a client that keeps sending."""

    def hung_up() -> bool:
        try:
            client.sendall(more)
        except OSError:
            return True
        return False

    with client:
        return becomes(hung_up)


def test_a_full_queue_turns_requests_away_and_answers_the_others_correctly(narrow: Service) -> None:
    with ThreadPoolExecutor(30) as clients:
        answers = list(clients.map(lambda n: narrow.send_request("/run_code", {**NAP, "stdin": f"{n}\n"}), range(30)))
        served = [(n, answer) for n, (status, answer, _) in enumerate(answers) if status == 200]
        refused = [response for status, _, response in answers if status == 429]
        assert len(served) + len(refused) == 30
        assert refused
        assert served
        assert all(stdout(answer) == f"{n}\n" for n, answer in served)
        assert all(1 <= int(response.headers["retry-after"]) <= 60 for response in refused)
        assert stdout(narrow.send_request("/run_code", {**ECHO, "stdin": "still there\n"})[1]) == "still there\n"


def test_a_request_that_waits_too_long_is_told_to_try_again(impatient: Service) -> None:
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda _: impatient.send_request("/run_code", NAP), range(8)))
        late = [response for status, _, response in answers if status == 504]
        assert late
        assert all(int(response.headers["retry-after"]) >= 1 for response in late)
        assert {status for status, _, _ in answers} == {200, 504}


def test_a_program_whose_client_has_left_is_not_run(single: Service) -> None:
    count = single.counts()
    clients = [raw(single, post("/run_code", NAP)) for _ in range(12)]
    assert becomes(lambda: single.metric("curate_queue_depth") >= 9)
    for client in clients:
        client.close()
    assert becomes(lambda: single.metric("curate_queue_depth") == 0)
    assert becomes(lambda: single.metric("curate_in_flight") == 0)
    assert count("curate_runs_total") <= 4


def test_a_batch_whose_client_leaves_is_not_finished(single: Service) -> None:
    count = single.counts()
    with socket.create_connection(("127.0.0.1", single.port)) as client:
        client.sendall(post("/judge", [{**RECORD, "code": NAP["code"]}] * 50))
        assert becomes(lambda: count("curate_verdicts_total") >= 1)
    assert becomes(lambda: single.metric("curate_in_flight") == 0)
    assert count("curate_verdicts_total") < 10


# Nothing that a client sends stops the service.

DEEP = b"[" * 100_000 + b"]" * 100_000
MALFORMED = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"7",
    b'"text"',
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b'{"code": NaN}',
    b'{"code": "1", "language": "python", "run_timeout": NaN}',
    b'{"code": "1", "language": "python", "run_timeout": 1e999}',
    b'{"code": "1", "language": "python", "run_timeout": ' + b"9" * 400 + b"}",
    b'{"code": "1", "language": "python", "run_timeout": ' + b"9" * 9000 + b"}",
    b'{"code": "1", "language": "python", "run_timeout": -1}',
    b'{"code": "1", "language": "python", "run_timeout": true}',
    b'{"code": "1", "language": ["python"]}',
    b'{"code": "1", "language": "\\ud800"}',
    b'{"code": null, "language": "python"}',
    b'{"code": "1", "language": "python", "files": {"\\ud800": "eA=="}}',
    b'{"code": "1", "language": "python", "files": [[]]}',
    DEEP,
    b'{"code": ' + DEEP + b"}",
    b'{"records": 3}',
    b'{"program": {"source": ' + DEEP[:1000] + DEEP[-1000:] + b"}}",
    b'{"program": {"source": "1", "language": "python"}, "limits": {"wall_seconds": 1e300}}',
    b'{"program": {"source": "1", "language": "python"}, "limits": {"processes": 2147483648}}',
    b'{"program": {"source": "1", "language": "python"}, "limits": {"seconds": 1}}',
    b'{"program": {"source": "1", "language": "python"}, "invocation": {"stdin": "no base64"}}',
    b'{"program": {"source": "1", "language": "python"}, "suite": {"cases": []}}',
    b'{"program": {"source": "1", "language": "python"}, "suite": {"cases": [{"input": "", "expected": 3}]}}',
    b'{"program": {"source": "1"}, "suite": {"cases": [{"input": "", "expected": ""}], "checker": "x"}}',
]


@pytest.mark.parametrize("body", MALFORMED, ids=lambda body: body[:40].decode("latin-1"))
def test_malformed_requests_are_the_clients_fault(service: Service, body: bytes) -> None:
    for path in ("/judge", "/run_code", "/run", "/judge_suite"):
        if (path, body) == ("/judge", b"[]"):
            continue  # an empty batch
        status, answer, _ = service.send_request(path, body)
        assert (path, status) == (path, 422), answer
        assert answer["detail"]
    assert service.send_request("/run_code", {**ECHO, "stdin": "x\n"})[0] == 200


def test_lone_surrogates_are_text_like_any_other(service: Service) -> None:
    status, answer, _ = service.send_request("/run_code", {**ECHO, "code": "print('\ud800')"})
    assert (status, answer["status"]) == (200, "Failed")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_content_types_that_a_web_page_may_send_without_preflight_are_refused(service: Service, kind: str) -> None:
    assert service.send_request("/run_code", {**ECHO}, headers={"content-type": kind})[0] == 415


def test_unknown_paths_and_methods_say_where_to_look(service: Service) -> None:
    assert service.send_request("/nothing", {})[0] == 404
    assert service.send_request("/judge")[0] == 405
    assert "/openapi.json" in service.send_request("/judge")[1]["detail"]


@pytest.mark.parametrize("how", ["declared", "chunked"])
def test_a_body_that_is_too_large_is_not_read_to_the_end(impatient: Service, shielded: Service, how: str) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    if how == "declared":
        client = raw(shielded, HEAD + b"content-length: 99999999999\r\n\r\n{")
    else:
        client = raw(shielded, HEAD + b"transfer-encoding: chunked\r\n\r\n" + 17 * chunk)
    assert client.recv(65536).startswith(b"HTTP/1.1 413 ")
    assert is_cut_off(client, chunk)
    assert impatient.send_request("/v1/ping")[0] == 200


def test_a_connection_survives_a_body_that_was_too_large(service: Service, shielded: Service) -> None:
    for port in (service.port, shielded.port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for size, status in ((3 << 20, 413), (3, 200), (2 << 20, 413), (5, 200)):
            connection.request("POST", "/run_code", json.dumps({**ECHO, "stdin": "x" * size}), JSON)
            response = connection.getresponse()
            assert (response.status, bool(response.read())) == (status, True)
        connection.close()


@pytest.mark.parametrize("path", ["/v1/ping", "/nothing"])
def test_endless_bodies_are_cut_off_even_if_none_is_expected(shielded: Service, path: str) -> None:
    client = raw(shielded, HEAD.replace(b"/run_code", path.encode()) + b"transfer-encoding: chunked\r\n\r\n")
    assert is_cut_off(client, b"5\r\nabcde\r\n" * 1000)


def test_missing_bodies_are_not_awaited_for_ever_and_delay_nobody(impatient: Service, shielded: Service) -> None:
    for service, answer in ((impatient, b"HTTP/1.1 408 "), (shielded, b"")):
        slow = [raw(service, HEAD + b"content-length: 500\r\n\r\n{") for _ in range(200)]
        assert stdout(service.send_request("/run_code", {**ECHO, "stdin": "in between\n"})[1]) == "in between\n"
        assert service.metric("curate_queue_depth") == 0
        for client in slow:
            assert received(client)[:13] == answer


def test_incomplete_heads_are_cut_off(shielded: Service) -> None:
    silent = [
        raw(shielded, sent)
        for sent in (b"", b"POST /run_code HTTP/1.1\r\nHost: localhost\r\nx-slow: ")
        for _ in range(50)
    ]
    assert shielded.send_request("/v1/ping")[0] == 200
    assert [received(client) for client in silent] == [b""] * 100
    second = raw(shielded, b"GET /v1/ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = b""
    while not answer.endswith(b'"pong"'):  # head and body may come one after the other
        answer += second.recv(65536)
    assert answer.startswith(b"HTTP/1.1 200 ")
    second.sendall(b"GET /v1/ping HTTP/1.1\r\n")
    assert received(second) == b""


@pytest.mark.parametrize("sent", [b"GET /v1/ping HTTP/1.1\r\nx: ", b"GET /", b"GET /v1/ping HTTP/1.1\r\n"])
def test_endless_heads_are_cut_off(shielded: Service, sent: bytes) -> None:
    client = raw(shielded, sent)
    more = b"x: y\r\n" * 10_000 if sent.endswith(b"\n") else b"x" * 60_000
    assert is_cut_off(client, more)
    assert shielded.send_request("/v1/ping")[0] == 200


def test_garbage_is_refused(service: Service) -> None:
    for garbage in (b"\0\1\2\3\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"SSH-2.0-x\r\n"):
        assert received(raw(service, garbage)).startswith(b"HTTP/1.1 400 ")
    assert service.send_request("/v1/ping")[0] == 200


# Who is served.


def test_without_the_token_only_ping_and_health_are_answered(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    with serving("--host", "0.0.0.0", "--token-file", str(tmp_path / "token")) as service:
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": "s3cret"},
            {"authorization": "Bearer"},
        ):
            health = {"service": "curate", "status": "serving", "authorized": False}
            assert service.send_request("/health", headers=headers)[:2] == (200, health)
            for path in ("/metrics", "/openapi.json", "/nothing"):
                assert service.send_request(path, headers=headers)[0] == 401
            assert service.send_request("/run_code", ECHO, headers=headers)[0] == 401
            assert service.send_request("/v1/ping", headers=headers)[0] == 200
        right = {"authorization": "Bearer s3cret"}
        assert service.send_request("/health", headers=right)[1]["layers"]
        assert stdout(service.send_request("/run_code", {**ECHO, "stdin": "hi\n"}, headers=right)[1]) == "hi\n"
        assert "s3cret" not in service.greeting + service.stderr + str(
            service.send_request("/metrics", headers=right)[1]
        )


def test_clients_without_token_support_send_the_token_in_the_url(guarded: Service) -> None:
    import asyncio

    import sandbox_fusion

    url = guarded.url.replace("//", "//anyone:s3cret@")
    request = sandbox_fusion.RunCodeRequest(**ECHO, stdin="hi\n")
    assert sandbox_fusion.run_code(request, url, max_attempts=1).run_result.stdout == "hi\n"
    assert asyncio.run(sandbox_fusion.run_code_async(request, url, max_attempts=1)).run_result.stdout == "hi\n"
    assert verl_scores(f"{url}/run_code", "print(1)", "", "1") is True
    assert verl_scores(f"{guarded.url}/run_code", "print(1)", "", "1") == -1


def test_the_token_may_come_from_the_environment(guarded: Service) -> None:
    assert guarded.send_request("/openapi.json")[0] == 401
    assert guarded.send_request("/openapi.json", headers={"authorization": "bearer s3cret"})[0] == 200


def test_metrics_are_open_if_the_operator_says_so(guarded: Service) -> None:
    assert guarded.metric("curate_workers") > 0
    assert guarded.send_request("/openapi.json")[0] == guarded.send_request("/run_code", ECHO)[0] == 401


def refused(*options: str) -> str:
    """Return the error of a `curate serve` that does not start."""
    result = forked.run([*CURATE, "serve", *options], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    return result.stderr


def test_without_a_token_it_serves_this_machine_only() -> None:
    assert "--token-file" in refused("--host", "0.0.0.0", "--port", "0")
    with serving("--host", "::1") as service:
        assert "[::1]" in service.greeting


def test_a_failed_start_explains_itself(service: Service, tmp_path: Path) -> None:
    assert "--port" in refused("--port", str(service.port))
    assert "--host" in refused("--host", "no.such.host.invalid")
    (tmp_path / "empty").write_text("\n")
    assert "openssl" in refused("--token-file", str(tmp_path / "empty"))


# What the service says about itself.


def test_health_describes_the_service(service: Service) -> None:
    status, health, _ = service.send_request("/health")
    assert (status, health["service"], health["status"], health["workers"]) == (200, "curate", "serving", 2)
    assert health["layers"]["network"]


def test_metrics_count_what_happened(single: Service) -> None:
    count = single.counts()
    for record in records():
        single.send_request("/judge", record)
    single.send_request("/run_code", LATE)
    single.send_request("/run_code", {})
    single.send_request("/secret/path", {})
    assert count("curate_verdicts_total", verdict="accepted") == 2
    assert count("curate_verdicts_total", verdict="compile_error") == 1
    assert count("curate_runs_total", outcome="timed_out") == 1
    assert count("curate_work_seconds_count", kind="judge") == len(records())
    assert count("curate_work_seconds_sum", kind="run") >= 0.3
    assert count("curate_queue_seconds_count") == len(records()) + 1
    assert count("curate_http_responses_total", path="/run_code", code="422") == 1
    assert count("curate_http_responses_total", path="other", code="404") == 1
    assert single.metric("curate_workers") == 1
    assert single.metric("curate_queue_depth") == single.metric("curate_in_flight") == 0


def test_openapi_describes_what_is_asked_and_answered(service: Service) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    document = service.send_request("/openapi.json")[1]
    assert document["openapi"].startswith("3.1")

    def check(schema: dict[str, Any], content: Any) -> None:
        jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(content)

    def content(part: dict[str, Any]) -> dict[str, Any]:
        schema: dict[str, Any] = part["content"]["application/json"]["schema"]
        return schema

    program = {"source": "print(input())", "language": "python"}
    suite = {"cases": [{"input": "a", "expected": "a"}], "limits": {"wall_seconds": 2}}
    asked = [
        ("/judge", RECORD),
        ("/judge", [RECORD, {}]),
        ("/judge", {"records": [RECORD]}),
        ("/run_code", {**ECHO, "files": {"a": None}}),
        ("/run", {"program": program, "invocation": {"stdin": "YQ==", "files": {"b": "YQ=="}, "fetch": ["b"]}}),
        ("/judge_suite", {"program": program, "suite": suite}),
    ]
    for path, request in asked:
        operation = document["paths"][path]["post"]
        if request != [RECORD, {}]:
            check(content(operation["requestBody"]), request)
        status, answer, _ = service.send_request(path, request)
        assert status == 200, answer
        check(content(operation["responses"]["200"]), answer)
        status, answer, _ = service.send_request(path, {"id": "wrong"})
        check(content(operation["responses"][str(status)]), answer)
    for path, operations in document["paths"].items():
        if "get" in operations:
            assert service.send_request(path)[0] == 200
        for operation in operations.values():
            for response in operation["responses"].values():
                for part in response["content"].values():
                    jsonschema.Draft202012Validator.check_schema(part["schema"])


# Shutdown.


def test_a_signal_lets_accepted_requests_finish() -> None:
    with serving("--workers", "1") as service, ThreadPoolExecutor(6) as clients:
        asked = [clients.submit(service.send_request, "/run_code", {**NAP, "stdin": f"{n}\n"}) for n in range(6)]
        assert becomes(lambda: service.metric("curate_in_flight") + service.metric("curate_queue_depth") == 6)
        children = below(service.process.pid)
        assert children
        service.process.send_signal(signal.SIGTERM)
        assert [stdout(each.result()[1]) for each in asked] == [f"{n}\n" for n in range(6)]
        assert service.process.wait(30) == 0
        with pytest.raises(ConnectionRefusedError):
            service.send_request("/v1/ping")
        assert not alive(children)


def test_a_second_signal_stops_at_once_without_verdicts() -> None:
    with serving("--workers", "1") as service, ThreadPoolExecutor(5) as clients:
        asked = [clients.submit(service.send_request, "/judge", {**RECORD, "code": SLEEP["code"], "time_limit_s": 60})]
        asked += [clients.submit(service.send_request, "/run_code", SLEEP) for _ in range(4)]
        assert becomes(lambda: service.metric("curate_in_flight") + service.metric("curate_queue_depth") == 5)
        children = below(service.process.pid)
        service.process.send_signal(signal.SIGTERM)
        assert becomes(lambda: not listens(service.port))
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(20) == 1
        assert [each.result()[0] for each in asked] == [503, 504, 504, 504, 504]
        assert becomes(lambda: not alive(children))
        assert "Traceback" not in service.stderr, service.stderr


def test_draining_is_bounded_in_time() -> None:
    with serve_with_settings(drain_seconds=0.5) as service, ThreadPoolExecutor(5) as clients:
        asked = [clients.submit(service.send_request, "/run_code", SLEEP) for _ in range(5)]
        assert becomes(lambda: service.metric("curate_in_flight") + service.metric("curate_queue_depth") == 5)
        assert service.end() == 1
        assert {each.result()[0] for each in asked} == {504}


def test_nothing_is_left_of_a_service_that_is_killed() -> None:
    with serving("--workers", "1") as service, ThreadPoolExecutor(1) as clients:
        asked = clients.submit(service.send_request, "/run_code", SLEEP)
        assert becomes(lambda: len(below(service.process.pid)) >= 3)  # worker, zygote, program
        children = below(service.process.pid)
        service.end(signal.SIGKILL)
        assert asked.exception() is not None
        assert becomes(lambda: not alive(children))
