"""A cluster judges as this machine does, and whatever happens to its nodes, no verdict is lost or doubled.

The cluster is real: a head and several nodes, each with all its processes, on this machine.
"""

import contextlib
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from echoes import ECHO, LONG, SLEEP, count_reads, echo
from process_tree import alive, below, processes
from test_survival import traces
from waiting import becomes

from sandbox import (
    BackendUnavailable,
    Cancelled,
    CancelToken,
    Case,
    ExecutionLost,
    Limits,
    Program,
    Sandbox,
    SandboxError,
    Suite,
    Verdict,
)
from sandbox.backends import _cluster
from sandbox.backends._cluster import ClusterNodes, NodeLane
from sandbox.backends._dispatch import QueuedBackend, RequestDispatcher
from sandbox.backends._supervisor import NodeSupervisor, compute_code_fingerprint, pack, unpack
from sandbox.conformance import run
from sandbox.request import JudgeRequest

ROOT = Path(__file__).parents[3]
SLOW_ECHO = Program("import time\ntime.sleep(0.05)\nprint(input())")
MIXED = [
    (ECHO, echo(7)),
    (Program("print(8)"), echo(7)),
    (Program("1 / 0"), echo(7)),
    (Program("print("), echo(7)),
    (Program("while True: pass"), Suite([Case("", "")], limits=Limits(wall_seconds=0.5))),
    (Program("def f(a):\n    return a + 1"), Suite([Case("[1]", "2"), Case("[2]", "3")], entry_point="f")),
    (ECHO, Suite([Case(f"{n}\n", f"{n if n < 3 else 0}\n") for n in range(5)])),
]


@pytest.fixture(scope="module")
def box(cluster: Any) -> Iterator[Sandbox]:
    with Sandbox(backend="ray", address=cluster.address) as box:
        yield box


def supervisors() -> set[int]:
    """Return the processes of all supervisors on our nodes."""
    found = set()
    for pid, _ in below(os.getpid()):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::NodeSupervisor"):
                found.add(pid)
    return found


def with_all_below(pids: set[int]) -> set[tuple[int, str]]:
    return {(pid, processes()[pid][1]) for pid in pids}.union(*map(below, pids))


def python(code: str, *arguments: str, cwd: Path = ROOT, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_verdicts_match_those_of_this_machine(box: Sandbox) -> None:
    pairs = MIXED * 4
    with Sandbox(workers=1) as local:
        here = [local.judge(*pair) for pair in MIXED] * 4
    there = dict(box.judge_many(pairs))
    assert sorted(there) == list(range(len(pairs)))
    for index, judgement in enumerate(here):
        assert there[index].verdict is judgement.verdict
        assert [case.verdict for case in there[index].cases] == [case.verdict for case in judgement.cases]
        assert [case.detail for case in there[index].cases] == [case.detail for case in judgement.cases]


@pytest.mark.thorough
def test_the_self_check_holds(box: Sandbox) -> None:
    assert [finding for finding in run(box) if finding.passed is False] == []


@pytest.mark.thorough
def test_the_backend_reports_the_clusters_size_and_the_isolation_of_all_nodes(box: Sandbox) -> None:
    assert box.workers == 2
    assert box.layers["cluster"] == "nodes: 2, workers: 2"
    with Sandbox(workers=1) as local:
        assert {**box.layers, "cluster": ""} == {**local.layers, "cluster": ""}


@pytest.mark.thorough
def test_many_threads_share_one_cluster(box: Sandbox) -> None:
    with ThreadPoolExecutor(16) as threads:
        verdicts = list(threads.map(lambda n: box.judge(ECHO, echo(n)).verdict, range(100)))
    assert set(verdicts) == {Verdict.ACCEPTED}


def test_pairs_are_read_only_a_little_ahead(box: Sandbox) -> None:
    assert count_reads(box) <= 5 + 4 * box.workers
    assert box.judge(ECHO, echo(1)).accepted


def test_an_exception_in_the_pairs_reaches_the_caller(box: Sandbox) -> None:
    def pairs() -> Iterator[tuple[Program, Suite]]:
        yield ECHO, echo(1)
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        list(box.judge_many(pairs()))


def test_an_error_in_one_request_concerns_that_request_alone(box: Sandbox) -> None:
    unsendable = Program(lambda: 0)  # type: ignore[arg-type]
    pairs = [(ECHO, echo(1)), (ECHO, Suite([])), (unsendable, echo(1)), (ECHO, echo(2))]
    answers = dict(box.judge_many_with_errors(pairs))
    assert isinstance(answers[1], ValueError)
    assert isinstance(answers[2], AttributeError | pickle.PicklingError)
    assert answers[0].accepted  # type: ignore[union-attr]
    assert answers[3].accepted  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="suite"):
        box.judge(ECHO, Suite([]))


def test_large_inputs_and_outputs_get_through(box: Sandbox) -> None:
    text = "x" * (6 << 20)
    assert box.run(Program("print(input(), end='')"), text).text == text
    suites = [Suite([Case(f"{n}{text}", f"{n}{text}")]) for n in range(3)]
    assert all(judgement.accepted for _, judgement in box.judge_many((ECHO, suite) for suite in suites))


def test_cancelling_ends_the_program_on_its_node(box: Sandbox) -> None:
    cancellations = [CancelToken() for _ in range(4)]  # two programs run, two wait
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(box.judge, SLEEP, LONG, cancellation=each) for each in cancellations]
        for cancellation in cancellations:
            cancellation.cancel()
        for each in asked:
            with pytest.raises(Cancelled):
                each.result(timeout=20)
    assert box.judge(ECHO, echo(1)).accepted  # within the time that a test may take: workers are free again


@pytest.mark.thorough
def test_an_unresponsive_head_soon_becomes_an_error(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cluster, "_LIVENESS_SECONDS", 4)
    head = cluster.head.all_processes["gcs_server"][0].process.pid
    with Sandbox(backend="ray", address=cluster.address) as own, ThreadPoolExecutor(1) as thread:
        judging = thread.submit(own.judge, SLEEP, LONG)
        os.kill(head, signal.SIGSTOP)
        try:
            with pytest.raises(SandboxError, match="has not responded"):
                judging.result()
            with pytest.raises(SandboxError, match="has not responded"):
                own.judge(ECHO, echo(1))
        finally:
            os.kill(head, signal.SIGCONT)


@pytest.mark.thorough
def test_a_closed_sandbox_leaves_nothing_and_says_that_it_is_closed(cluster: Any) -> None:
    before = supervisors()
    own = Sandbox(backend="ray", address=cluster.address)
    with ThreadPoolExecutor(1) as thread:
        judging = thread.submit(own.judge, SLEEP, LONG)
        assert len(list(own.judge_many((ECHO, echo(n)) for n in range(8)))) == 8
        everything = with_all_below(supervisors() - before)
        own.close()
        own.close()
        with pytest.raises(SandboxError, match="closed"):
            judging.result()
    with pytest.raises(SandboxError, match="closed"):
        own.judge(ECHO, echo(1))
    assert [str(error) for _, error in own.judge_many_with_errors([(ECHO, echo(1))])] == ["this Sandbox is closed"]
    assert becomes(lambda: not alive(everything))
    assert not traces(everything)


DRIVER = """
import sys
from sandbox import Case, Limits, Program, Sandbox, Suite
busy = Program("import os, time\\nfor _ in range(5):\\n    os.setsid() if os.fork() == 0 else 0\\n"
               "open('file', 'w').write('x')\\nprint(1)\\ntime.sleep(60)")
box = Sandbox(backend="ray", address=sys.argv[1])
pairs = [(Program("print(1)"), Suite([Case("", "1")]))] * 4
pairs += [(busy, Suite([Case("", "")], limits=Limits(wall_seconds=60)))] * 4
for number, _ in enumerate(box.judge_many(pairs)):
    if number == 3:
        print("ready", flush=True)
"""


@pytest.mark.thorough
def test_killing_the_caller_leaves_nothing(cluster: Any) -> None:
    before = supervisors()
    driver = python(DRIVER, cluster.address)
    assert driver.stdout is not None
    assert driver.stdout.readline() == "ready\n"
    everything = with_all_below(supervisors() - before)
    assert len(everything) > 4
    driver.kill()
    driver.communicate()
    assert becomes(lambda: not alive(everything))
    assert becomes(lambda: not traces(everything))


GUEST = """
import sys, ray
ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
@ray.remote(num_cpus=1)
class Trainer:
    pass
trainers = [Trainer.remote() for _ in range(2)]
ray.get([trainer.__ray_ready__.remote() for trainer in trainers])
from sandbox import Case, Program, Sandbox, SandboxError, Suite
try:
    with Sandbox(backend="ray", workers=1) as box:
        print(box.workers, box.judge(Program("print(7)"), Suite([Case("", "7")])).verdict.value)
except SandboxError as error:
    print(error)
print(ray.is_initialized())
"""


@pytest.mark.thorough
def test_a_trainer_that_holds_all_processors_keeps_its_connection(cluster: Any) -> None:
    said, errors = python(GUEST, cluster.address).communicate()
    assert said.splitlines() == ["2 accepted", "True"], errors


@pytest.mark.thorough
def test_nodes_with_another_version_are_refused_with_a_reason(cluster: Any, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "sandbox", tmp_path / "sandbox")
    (tmp_path / "sandbox" / "another.py").write_text("")
    (tmp_path / "elsewhere").mkdir()
    guest = python(GUEST, cluster.address, cwd=tmp_path / "elsewhere", PYTHONPATH=str(tmp_path))
    said, errors = guest.communicate()
    assert "another version of curate-code" in said.splitlines()[0], errors
    assert said.splitlines()[1:] == ["True"]


NOWHERE = """
import sys
from sandbox import BackendUnavailable, Sandbox
from sandbox.backends import ray
ray._CONNECT_SECONDS = 3
for address in sys.argv[1:]:
    try:
        Sandbox(backend="ray", address=address)
    except BackendUnavailable as error:
        print(error)
"""


@pytest.mark.thorough
def test_nodes_do_not_import_from_the_working_folder_of_the_caller(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "sandbox.py").write_text("raise SystemExit('sandbox.py of the user was imported')\n")
    (tmp_path / "records.jsonl").write_text(
        '{"id": 1, "code": "print(input())", "kind": "stdin", "tests": [{"input": "7", "output": "7"}]}\n'
    )
    code = f"import sys; sys.path[0] = {str(ROOT)!r}; from cli import main; main()"
    words = ["judge", "records.jsonl", "--out", "verdicts", "--backend", "ray", "--address", cluster.address]
    asked = python(code, *words, cwd=tmp_path)
    printed, errors = asked.communicate(timeout=120)
    assert (asked.returncode, printed) == (0, "1 records: accepted 1\nverdicts in verdicts\n"), errors


def test_without_a_cluster_the_error_says_what_to_type() -> None:
    with socket.socket() as free, socket.socket() as silent:
        free.bind(("127.0.0.1", 0))
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        addresses = [f"127.0.0.1:{free.getsockname()[1]}", "nonsense", f"127.0.0.1:{silent.getsockname()[1]}"]
        said, errors = python(NOWHERE, *addresses).communicate()
    refused, nonsense, no_answer = said.splitlines()
    assert "refused" in refused, errors
    assert "nonsense" in nonsense
    assert "no response in 3 s" in no_answer
    for line in (refused, nonsense, no_answer):
        assert 'Start one with "ray start --head", or pass the address' in line


def test_without_the_package_the_error_says_what_to_type() -> None:
    code = (
        "import sys; sys.modules['ray'] = None\n"
        "from sandbox import BackendUnavailable, Sandbox\n"
        "try: Sandbox(backend='ray')\n"
        "except BackendUnavailable as error: print(error)"
    )
    said, errors = python(code).communicate()
    assert "type: pip install 'ray>=" in said, errors


def test_a_message_is_bounded_and_holds_shared_parts_once() -> None:
    suite = Suite([Case("x" * 100_000, "y")])
    items = [(number, (Program(f"print({number})"), suite)) for number in range(10)]
    message, sizes = pack(items, 1 << 20)
    assert unpack(message) == items
    assert sum(sizes) == len(message) < 110_000
    others = [(number, str(number) * 1000) for number in range(10)]
    message, sizes = pack(others, 3500)
    assert unpack(message) == others[:3]
    assert len(sizes) == 3
    message, _ = pack(others, 10)
    assert unpack(message) == others[:1]  # but one always
    assert unpack(b"") == []


class LocalCluster(ClusterNodes):
    """A cluster whose nodes are supervisors in this process, created by `make`."""

    def __init__(self, names: str, make: Callable[[str], NodeSupervisor], dispatcher: RequestDispatcher) -> None:
        self._names, self._make = names, make
        super().__init__("a cluster in this process", dispatcher)

    def list_nodes(self) -> dict[str, str]:
        return {name: name for name in self._names}

    def start_node(self, id: str, name: str) -> "LocalNodeLane":
        return LocalNodeLane(self._make(id), id)

    def disconnect(self) -> None:
        pass


class LocalNodeLane(NodeLane):
    def __init__(self, supervisor: NodeSupervisor, id: str) -> None:
        options = {"workers": 1, "isolation": "full", "seed": None}
        super().__init__(id, id, *supervisor.start(compute_code_fingerprint(), (), options, 1))
        self._supervisor = supervisor

    def exchange(self, message: bytes, cancelled_numbers: Sequence[int]) -> bytes:
        return self._supervisor.exchange(message, cancelled_numbers)

    def end(self) -> None:
        self._supervisor.close()


@contextlib.contextmanager
def open_local_cluster(
    names: str, make: Callable[[str], NodeSupervisor]
) -> Iterator[tuple[QueuedBackend, ClusterNodes]]:
    """Yield a backend and its nodes in this process."""
    box = QueuedBackend(RequestDispatcher())
    nodes = LocalCluster(names, make, box.dispatcher)
    try:
        yield box, nodes
    finally:
        nodes.close()


def submit_judge(box: QueuedBackend, *about: Any) -> "Future[Any]":
    """Submit a judge request; return a future of its response."""
    answer: Future[Any] = Future()
    box.submit(JudgeRequest(*about), answer.set_result)
    return answer


class LostSupervisor(NodeSupervisor):
    def exchange(self, *_: Any) -> bytes:
        raise ConnectionError("it went up in smoke")


class FailingSupervisor(NodeSupervisor):
    def _take_response(self, number: int, response: Any) -> None:
        super()._take_response(number, ExecutionLost("no memory is left"))


def test_no_request_waits_behind_a_long_one_while_a_node_is_idle() -> None:
    with open_local_cluster("ab", lambda name: NodeSupervisor()) as (box, nodes):
        nodes.wait_until_ready()
        long = submit_judge(box, SLEEP, LONG)
        short = [submit_judge(box, ECHO, echo(number)) for number in range(40)]
        assert {answer.result().verdict for answer in short} == {Verdict.ACCEPTED}
        assert not long.done()


@pytest.mark.thorough
def test_a_request_that_loses_every_node_fails() -> None:
    with open_local_cluster("abcd", lambda name: LostSupervisor()) as (box, nodes):
        nodes.wait_until_ready()
        with pytest.raises(ExecutionLost, match="3 nodes were lost while running the same request.*smoke"):
            box.execute(JudgeRequest(ECHO, echo(1)))


@pytest.mark.thorough
def test_a_node_that_fails_at_everything_costs_no_verdict() -> None:
    with open_local_cluster("ab", lambda name: FailingSupervisor() if name == "a" else NodeSupervisor()) as (
        box,
        nodes,
    ):
        nodes.wait_until_ready()
        answers = [submit_judge(box, ECHO, echo(number)) for number in range(60)]
        assert {answer.result().verdict for answer in answers} == {Verdict.ACCEPTED}


@pytest.mark.thorough
def test_differences_between_nodes_show_in_the_layers() -> None:
    class Another(NodeSupervisor):
        def start(self, *arguments: Any) -> Any:
            workers, layers = super().start(*arguments)
            return workers, layers | {"memory": "none: it has none"}

    with open_local_cluster("abc", lambda name: Another() if name == "b" else NodeSupervisor()) as (_, nodes):
        nodes.wait_until_ready()
        layers = nodes.describe_layers()
    with Sandbox(workers=1) as local:
        memory = local.layers.pop("memory")
        assert layers["memory"] == f"none: it has none (on 1 nodes, such as b); {memory} (on 2 nodes, such as a)"
        assert layers["network"] == local.layers["network"]


def test_an_error_of_all_nodes_is_reported() -> None:
    class Refusing(NodeSupervisor):
        def start(self, *arguments: Any) -> Any:
            raise BackendUnavailable("it is out of order")

    with (
        open_local_cluster("ab", lambda name: Refusing()) as (_, nodes),
        pytest.raises(BackendUnavailable, match="node a: it is out of order; node b: it is out of order"),
    ):
        nodes.wait_until_ready()
