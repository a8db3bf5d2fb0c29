"""The controller over HTTP: what it answers, what it refuses, and workers for which the network is bad."""

import random
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import fleet
import msgspec
import pytest
import urllib3
from fleet import SETTINGS, Worker, publish

from train.asynchronous import server as server_module
from train.asynchronous.client import ControllerClient
from train.asynchronous.events import GroupDispatched, GroupRejected
from train.asynchronous.journal import NullJournal
from train.asynchronous.messages import MSGPACK, RUN_HEADER, LeaseRequest, LeaseResponse, ReleaseRequest
from train.asynchronous.server import MAX_BODY_BYTES, ControllerServer
from train.errors import ConfigError, ControllerUnreachable, RunError
from train.sampling.engine_spec import EngineSpec
from train.weights.manifest import WeightFile, WeightManifest

TERMS = EngineSpec("the run", "a-model", "transformers", 128)
TOKEN = "correct horse"


@pytest.fixture
def controller():
    made = fleet.controller(SETTINGS, now=time.monotonic)
    publish(made, 0)
    return made


@pytest.fixture
def server(controller):
    serving = ControllerServer(controller, "127.0.0.1:0", token=TOKEN, run="the run", spec=TERMS)
    yield serving
    serving.close(run_ended=False)


@pytest.fixture
def client(server):
    made = ControllerClient(server.url, TOKEN)
    assert made.fetch_engine_spec() == TERMS
    yield made
    made.close()


def test_a_batch_is_sampled_over_http(controller, client):
    worker = Worker(client)
    for version in range(3):
        for lease in worker.ask():
            assert worker.finish(lease) == ["taken"] * 3
        assert len(controller.wait_for_batch(version, 10)) == 2
        publish(controller, version + 1)
        worker.load()
    worker.beat()
    assert controller.collect_metrics()["workers/alive"] == 1
    client.release(ReleaseRequest("w"))
    assert controller.collect_metrics()["workers/alive"] == 0


def test_new_weights_end_the_wait_of_workers(controller, client):
    assert client.wait_for_weights(0, 0.0) is None
    threading.Timer(0.3, lambda: publish(controller, 1)).start()
    assert client.wait_for_weights(0, 30.0) == WeightManifest(1)


def test_files_of_the_newest_weights_can_be_fetched_in_parts(controller, server, tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"0123456789")
    (tmp_path / "secret").write_text("not a file of the weights")
    controller.publish_weights(WeightManifest(4, files=(WeightFile("a.safetensors", 10, ""),), folder=str(tmp_path)))

    def get(path, **headers):
        headers["authorization"] = f"Bearer {TOKEN}"
        return urllib3.request("GET", server.url + path, headers=headers, retries=False)

    assert get("/weights/4/a.safetensors").data == b"0123456789"
    part = get("/weights/4/a.safetensors", range="bytes=3-5")
    assert (part.status, part.data) == (206, b"345")
    assert get("/weights/4/secret").status == 404
    assert get("/weights/4/..%2Fsecret").status == 404
    assert get(f"/weights/{'4' * 5000}/a.safetensors").status == 404
    gone = get("/weights/3/a.safetensors")
    assert gone.status == 404
    assert "the newest weights are 4" in gone.json()["detail"]


def test_a_download_may_take_longer_than_a_step_but_not_longer_than_two(controller, server, client, tmp_path):
    def publish_files(version):
        folder = tmp_path / str(version)
        folder.mkdir()
        (folder / "a.safetensors").write_bytes(b"weights %d" % version)
        controller.publish_weights(
            WeightManifest(version, files=(WeightFile("a.safetensors", 9, ""),), folder=str(folder))
        )

    def get(version):
        headers = {"authorization": f"Bearer {TOKEN}"}
        return urllib3.request("GET", f"{server.url}/weights/{version}/a.safetensors", headers=headers, retries=False)

    publish_files(4)
    assert client.wait_for_weights(0, 0.0).version == 4  # a worker begins to fetch
    publish_files(5)
    assert get(4).data == b"weights 4"
    assert get(5).data == b"weights 5"
    publish_files(6)
    assert get(4).status == 404
    assert get(5).data == b"weights 5"


@pytest.mark.parametrize("token", [None, "wrong"])
def test_a_worker_without_the_token_is_told_what_to_set(server, token):
    with pytest.raises(RunError, match="refuses this worker: the token is missing or wrong: set CURATE_TOKEN"):
        ControllerClient(server.url, token).request_leases(LeaseRequest("w", 0, 1))


def test_everyone_may_ask_whether_it_is_there(server):
    answer = urllib3.request("GET", f"{server.url}/health", retries=False)
    assert answer.json() == {"service": "curate", "status": "controller"}


def test_a_worker_of_another_run_is_refused(server, client):
    client._client.headers[RUN_HEADER] = "another run"
    with pytest.raises(RunError, match="this address now serves run"):
        client.request_leases(LeaseRequest("w", 0, 1))


@pytest.mark.parametrize(
    ("body", "kind", "status", "words"),
    [
        pytest.param(b"\xc1", MSGPACK, 422, "not of type LeaseRequest", id="no msgpack"),
        pytest.param(msgspec.msgpack.encode({"worker": 3}), MSGPACK, 422, "Expected `str`", id="wrong type"),
        pytest.param(b"{}", "text/plain", 415, "must be msgpack", id="of a web page"),
        pytest.param(b"0" * (MAX_BODY_BYTES + 1), MSGPACK, 413, "at most 67,108,864 bytes", id="too large"),
        pytest.param(iter([b"0" * 2**20] * 65), MSGPACK, 413, "at most 67,108,864 bytes", id="too large in parts"),
    ],
)
def test_what_cannot_be_read_is_refused_with_words(server, body, kind, status, words):
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": kind}
    answer = urllib3.request("POST", f"{server.url}/work", body=body, headers=headers, retries=False)
    assert answer.status == status
    assert words in answer.json()["detail"]


def test_a_body_that_never_ends_is_refused(server, monkeypatch):
    monkeypatch.setattr(server_module, "_BODY_SECONDS", 0.3)
    ended = threading.Event()

    def trickle():
        while not ended.wait(0.05):
            yield b"x"

    headers = {"authorization": f"Bearer {TOKEN}", "content-type": MSGPACK}
    threading.Timer(5, ended.set).start()
    with suppress(urllib3.exceptions.ProtocolError):  # the server hangs up while this is still being sent
        answer = urllib3.request("POST", f"{server.url}/work", body=trickle(), headers=headers, retries=False)
        assert answer.status == 408
    assert not ended.is_set()
    ended.set()


def test_workers_that_wait_for_weights_are_looked_after_together(controller, server, monkeypatch):
    looks = []
    look = controller.wait_for_weights
    monkeypatch.setattr(controller, "wait_for_weights", lambda *arguments: looks.append(arguments) or look(*arguments))
    clients = [ControllerClient(server.url, TOKEN) for _ in range(30)]
    with ThreadPoolExecutor(len(clients)) as threads:
        waiting = [threads.submit(client.wait_for_weights, 0, 30.0) for client in clients]
        time.sleep(1)
        publish(controller, 1)
        assert [each.result() for each in waiting] == [WeightManifest(1)] * len(clients)
    assert len(looks) < 3 * len(clients)  # each for itself would look ten times a second


FEW_FILES = """
import resource, sys, time
sys.path[:0] = {path!r}
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
import fleet
from test_controller_over_http import SETTINGS, TERMS
from train.asynchronous.server import ControllerServer
with ControllerServer(fleet.controller(SETTINGS), "127.0.0.1:0", token=None, run="r", spec=TERMS) as server:
    print(server.url, flush=True)
    sys.stdin.read()
    files = [open("/dev/null") for _ in range(50)]
    print("the trainer has room", flush=True)
"""


def test_connections_that_say_nothing_leave_the_trainer_its_files(tmp_path):
    path = [str(Path(fleet.__file__).parent), str(Path(__file__).parent)]
    command = [sys.executable, "-c", FEW_FILES.format(path=path)]
    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
        )
        stack.callback(process.kill)
        port = int(process.stdout.readline().rpartition(":")[2])
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        time.sleep(0.5)  # they are accepted
        assert process.communicate("", timeout=30)[0] == "the trainer has room\n"


@pytest.mark.parametrize("query", ["wait=nan", "wait=inf", "wait=long", "after=first"])
def test_what_is_no_number_is_refused_with_words(query, server):
    headers = {"authorization": f"Bearer {TOKEN}"}
    answer = urllib3.request("GET", f"{server.url}/weights?after=0&{query}", headers=headers, retries=False, timeout=5)
    assert answer.status == 422
    assert "must be a" in answer.json()["detail"]


def test_other_paths_are_no_calls(server):
    answer = urllib3.request("GET", f"{server.url}/wörk", headers={"authorization": f"Bearer {TOKEN}"}, retries=False)
    assert answer.status == 404
    assert "is not a call of a controller" in answer.json()["detail"]


def test_without_a_token_only_this_machine_is_served(controller):
    with pytest.raises(ConfigError, match="so it needs a token: set the environment variable CURATE_TOKEN"):
        ControllerServer(controller, "0.0.0.0:0", token=None, run="r", spec=TERMS)
    with ControllerServer(controller, "127.0.0.1:0", token=None, run="r", spec=TERMS) as server:
        assert ControllerClient(server.url).fetch_engine_spec() == TERMS
        rebound = urllib3.request("GET", f"{server.url}/run", headers={"host": "evil.example"}, retries=False)
        assert rebound.status == 421


@pytest.mark.parametrize("listen", ["8000", "host:", "127.0.0.1:99999", "no.such.host.invalid:1"])
def test_an_address_that_cannot_be_listened_on_is_explained(controller, listen):
    with pytest.raises(ConfigError, match=r"workers\.listen"):
        ControllerServer(controller, listen, token=None, run="r", spec=TERMS)


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host", "http://", "::"])
def test_an_url_that_is_none_is_explained(url):
    with pytest.raises(ConfigError, match="--controller"):
        ControllerClient(url)


def test_a_controller_that_is_not_there_is_gone():
    with pytest.raises(ControllerUnreachable, match=r"the controller at http://127.0.0.1:1 cannot be reached"):
        ControllerClient("http://127.0.0.1:1").request_leases(LeaseRequest("w", 0, 1))


def test_workers_hear_that_the_run_is_over_before_the_server_ends(controller, server, client):
    client.request_leases(LeaseRequest("w", 0, 0))
    controller.close()
    heard = []
    threading.Timer(0.3, lambda: heard.append(client.request_leases(LeaseRequest("w", 0, 1)))).start()
    server.close()
    assert heard == [LeaseResponse(run_ended=True)]


class BadNetwork:
    """Calls that are lost, replies that are lost, and calls that arrive a second time, later and out of order."""

    def __init__(self, controller, seed):
        self.controller = controller
        self.rng = random.Random(seed)
        self.late = []

    def __getattr__(self, name):
        def call(*arguments):
            real = getattr(self.controller, name)
            if self.late and self.rng.random() < 0.4:
                self.late.pop(self.rng.randrange(len(self.late)))()
            fate = self.rng.random()
            if fate < 0.15:
                raise ControllerUnreachable("the call was lost")
            reply = real(*arguments)
            if name == "answers" and self.rng.random() < 0.4:
                self.late.append(lambda: real(*arguments))
            if fate < 0.3:
                raise ControllerUnreachable("the reply was lost")
            return reply

        return call


class Noted(NullJournal):
    def __init__(self):
        self.events = []

    def append(self, event):
        self.events.append(event)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_nothing_is_lost_or_doubled_by_a_bad_network(seed):
    noted = Noted()
    controller = fleet.controller(SETTINGS, noted, now=time.monotonic)
    publish(controller, 0)
    rng = random.Random(seed)
    version, trained = 0, []
    with ExitStack() as stack:
        server = ControllerServer(controller, "127.0.0.1:0", token=TOKEN, run="the run", spec=TERMS)
        stack.callback(server.close, run_ended=False)  # these workers do not ask whether the run is over
        workers = [Worker(BadNetwork(ControllerClient(server.url, TOKEN), 10 * seed + n), f"w{n}") for n in range(3)]
        while version < SETTINGS.total_steps:
            for worker in workers:
                with suppress(ControllerUnreachable):
                    worker.load()
                    if worker.leases and rng.random() < 0.7:
                        lease = rng.choice(worker.leases)
                        worker.send(*(fleet.answer_to(lease, number) for number in rng.sample(range(3), 3)))
                        worker.leases.remove(lease)
                    else:
                        worker.ask(3)
                    worker.beat()
            controller.expire_leases(time.monotonic() + rng.random() * 20)
            if (groups := controller.try_take_batch(version)) is not None:
                trained += [group[0].problem_id for group in groups]
                version += 1
                publish(controller, version)
        controller.close()
    assert len(set(trained)) == len(trained) == 2 * SETTINGS.total_steps
    positions = {event.group: event.position for event in noted.events if isinstance(event, GroupDispatched)}
    given_up = {f"q{positions[event.group]}" for event in noted.events if isinstance(event, GroupRejected)}
    assert {*trained, *given_up} == {f"q{position}" for position in positions.values()}
    assert not given_up & set(trained)


@pytest.mark.parametrize("name", ["", "two\nlines", "\x1b[31mred", "w" * 201])
def test_names_of_workers_that_would_spoil_a_log_are_refused(client, name):
    with pytest.raises(RunError, match="LeaseRequest"):
        client.request_leases(LeaseRequest(name, 0, 3))


def test_a_server_that_fails_ends_the_run(controller, monkeypatch):
    def fail(server, sockets):
        server.started = True
        raise OSError("no more memory")

    monkeypatch.setattr("uvicorn.Server.run", fail)
    serving = ControllerServer(controller, "127.0.0.1:0", token=TOKEN, run="r", spec=TERMS, fail=controller.fail)
    serving.close(run_ended=False)
    with pytest.raises(RunError, match="no more memory"):
        controller.try_take_batch(0)
