"""However many processes of `curate serve` speak HTTP, they are one service."""

import http.client
import signal
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import forked
import psutil
import pytest
from process_tree import alive, below
from serving import CURATE, ECHO, ROOT, SLEEP, Service, front_ends, serve_with_settings, serving, stdout
from waiting import becomes

NAP = {"code": "import time\ntime.sleep(0.5)\nprint(input())", "language": "python"}
RECORD = {"id": 7, "code": "print(input())", "kind": "stdin", "tests": [{"input": "a\n", "output": "a\n"}]}
N = 3


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with serving("--workers", "2", "--processes", str(N), "--queue", "4") as service:
        yield service
        assert "Traceback" not in service.stderr, service.stderr


def connections_of(process: psutil.Process) -> int:
    return sum(each.status == psutil.CONN_ESTABLISHED for each in process.net_connections("tcp"))


def test_connections_are_spread_over_the_processes(service: Service) -> None:
    clients = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(60)]
    assert becomes(lambda: sum(map(connections_of, front_ends(service))) == 60)
    assert len(front_ends(service)) == N
    assert all(connections_of(process) for process in front_ends(service))
    for client in clients:
        client.close()


def test_metrics_count_what_all_processes_have_answered(service: Service) -> None:
    count = service.counts()
    for number in range(1, 31):  # each over a connection of its own
        assert service.send_request("/judge", RECORD)[1]["verdict"] == "accepted"
        assert count("curate_http_responses_total", path="/judge", code="200") == number
        assert count("curate_verdicts_total", verdict="accepted") == number


def test_one_queue_is_before_the_workers(service: Service) -> None:
    with ThreadPoolExecutor(40) as clients:
        answers = list(clients.map(lambda n: service.send_request("/run_code", {**NAP, "stdin": f"{n}\n"}), range(40)))
    served = [(n, stdout(answer)) for n, (status, answer, _) in enumerate(answers) if status == 200]
    assert all(printed == f"{n}\n" for n, printed in served)
    assert {status for status, _, _ in answers} == {200, 429}
    assert len(served) <= 3 * (4 + 4)  # of the first wave, 4 have turns and 4 wait; connecting takes less than two naps


def test_a_client_at_another_process_has_the_next_turn() -> None:
    """One client fills the queue by way of all processes; each request of another one has to wait for one turn."""
    with serve_with_settings("Sandbox(workers=1)", processes=N, queue_timeout_seconds=60) as service:
        busy = [greedy(service) for _ in range(12)]
        assert becomes(lambda: service.metric("curate_queue_depth") == 10)
        for _ in range(N):
            assert stdout(service.send_request("/run_code", {**ECHO, "stdin": "x\n"})[1]) == "x\n"
        assert service.metric("curate_queue_depth") >= 10 - 2 * N
        for connection in busy:
            connection.close()


def greedy(service: Service) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, source_address=("127.0.0.2", 0))
    body = b'{"code": "import time\\ntime.sleep(0.3)", "language": "python"}'
    connection.request("POST", "/run_code", body, {"content-type": "application/json"})
    return connection


def test_a_process_that_is_killed_is_replaced_and_costs_only_its_own_requests() -> None:
    with serve_with_settings("Sandbox(workers=12)", processes=2) as service, ThreadPoolExecutor(12) as clients:
        victim, survivor = front_ends(service)
        long = NAP["code"].replace("0.5", "2")
        asked = [clients.submit(service.send_request, "/run_code", {**NAP, "code": long, "stdin": "rested\n"})
                 for _ in range(12)]  # fmt: skip
        assert becomes(lambda: service.metric("curate_in_flight") == 12)
        n_lost = connections_of(victim)
        victim.kill()
        failed = [future.exception() for future in asked]
        assert all(isinstance(error, OSError | http.client.HTTPException) for error in failed if error is not None)
        assert sum(error is not None for error in failed) == n_lost
        answers = [future.result() for future, error in zip(asked, failed, strict=True) if error is None]
        assert [stdout(answer) for _, answer, _ in answers] == ["rested\n"] * (12 - n_lost)
        assert becomes(lambda: service.metric("curate_in_flight") + service.metric("curate_queue_depth") == 0)
        assert becomes(lambda: len(front_ends(service)) == 2)
        assert victim not in front_ends(service)
        assert survivor in front_ends(service)
        assert all(service.send_request("/v1/ping")[0] == 200 for _ in range(20))
        assert "Traceback" not in service.stderr, service.stderr


def test_bytes_that_a_killed_process_held_are_free_again() -> None:
    head = b"POST /run_code HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    part = head + b"content-length: 1000000\r\n\r\n" + b" " * 0x20000
    with serve_with_settings(max_body_mb=1) as service:
        clients = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(16)]
        for client in clients:
            client.sendall(part)
        large = {**ECHO, "stdin": "x" * 800_000}
        assert becomes(lambda: service.send_request("/run_code", large)[0] == 429)
        [process] = front_ends(service)
        process.kill()
        assert becomes(lambda: process not in front_ends(service) and len(front_ends(service)) == 1)
        assert service.send_request("/run_code", large)[0] == 200
        for client in clients:
            client.close()


def test_a_signal_lets_all_processes_finish() -> None:
    with serving("--workers", "2", "--processes", str(N)) as service, ThreadPoolExecutor(12) as clients:
        asked = [clients.submit(service.send_request, "/run_code", {**NAP, "stdin": f"{n}\n"}) for n in range(12)]
        assert becomes(lambda: service.metric("curate_in_flight") + service.metric("curate_queue_depth") == 12)
        children = below(service.process.pid)
        service.process.send_signal(signal.SIGTERM)
        assert [stdout(each.result()[1]) for each in asked] == [f"{n}\n" for n in range(12)]
        assert service.process.wait(30) == 0
        with pytest.raises(ConnectionRefusedError):
            service.send_request("/v1/ping")
        assert not alive(children)


def test_no_process_is_left_of_a_service_that_is_killed() -> None:
    with serving("--workers", "1", "--processes", str(N)) as service, ThreadPoolExecutor(N) as clients:
        asked = [clients.submit(service.send_request, "/run_code", SLEEP) for _ in range(N)]
        assert becomes(lambda: service.metric("curate_in_flight") == 2)
        children = below(service.process.pid)
        service.end(signal.SIGKILL)
        assert all(each.exception() is not None for each in asked)
        assert becomes(lambda: not alive(children))


def test_another_service_on_the_same_port_is_refused(service: Service) -> None:
    command = [*CURATE, "serve", "--port", str(service.port), "--processes", "2"]
    result = forked.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (result.returncode, "--port" in result.stderr) == (1, True)


UNKNOWN = """
from sandbox import Limits, Sandbox
from sandbox.service import server
from sandbox.service.listener import listen_many
from sandbox.service.settings import ServiceSettings

class Unknown(Limits): "To the other processes."

with Sandbox(workers=1) as box:
    server.serve(box, ServiceSettings(max_limits=Unknown()), listen_many("127.0.0.1", 0, 2), lambda: None)
"""


def test_a_service_whose_processes_do_not_start_says_so() -> None:
    result = forked.run([sys.executable, "-c", UNKNOWN], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode != 0
    assert "exited during its start" in result.stderr
    assert "Unknown" in result.stderr
