"""Requests can be cancelled, excessive limits are lowered, and memory is given out only once."""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from echoes import ECHO, ONE, SLEEP
from process_tree import below
from serving import ROOT
from waiting import becomes

from sandbox import (
    Cancelled,
    CancelToken,
    Case,
    KilledExternally,
    Limits,
    Program,
    Sandbox,
    SandboxError,
    Suite,
    Verdict,
    machine,
)
from sandbox.backends._workers import ThreadLane, WorkerBackend
from sandbox.limit_bounds import MAX_PROCESSES
from sandbox.machine import get_available_memory_mb, read_cpu_quotas, read_memory_limits
from sandbox.request import Request, RunRequest

LONG = Limits(wall_seconds=60)
BUSY = Program("while True: pass")


# Cancellation.


@pytest.mark.parametrize("program", [SLEEP, pytest.param(BUSY, marks=pytest.mark.thorough)], ids=["sleeps", "computes"])
def test_cancelling_frees_the_worker(program: Program) -> None:
    with Sandbox(workers=1) as box, ThreadPoolExecutor(2) as threads:
        box.run(ECHO, "1\n")
        idle = len(below(os.getpid()))
        cancellation = CancelToken()
        run = threads.submit(box.run, program, "", LONG, cancellation=cancellation)
        judged = threads.submit(box.judge, program, Suite([Case("", "")], limits=LONG), cancellation=cancellation)
        assert becomes(lambda: len(below(os.getpid())) > idle)  # one runs, the other waits
        cancellation.cancel()
        for request in (run, judged):
            with pytest.raises(Cancelled):
                request.result(timeout=20)
        assert box.run(ECHO, "next\n", Limits(wall_seconds=20)).stdout == b"next\n"
        assert len(below(os.getpid())) == idle


def test_a_request_cancelled_in_advance_is_not_run(box: Sandbox) -> None:
    cancellation = CancelToken()
    cancellation.cancel()
    with pytest.raises(Cancelled):
        box.judge(ECHO, ONE, cancellation=cancellation)
    assert box.judge(ECHO, ONE, cancellation=CancelToken()).accepted


@pytest.mark.parametrize("moments", [(1, 8), pytest.param(range(12), marks=pytest.mark.thorough)], ids=["some", "all"])
def test_cancelling_at_any_moment_harms_nobody_else(moments: Iterable[int]) -> None:
    with Sandbox(workers=2) as box, ThreadPoolExecutor(4) as threads:
        for number in moments:
            cancellation = CancelToken()
            asked = [threads.submit(box.run, ECHO, f"{number}\n", cancellation=cancellation) for _ in range(2)]
            kept = [threads.submit(box.run, ECHO, f"{number}\n") for _ in range(2)]
            time.sleep(number / 2000)
            cancellation.cancel()
            assert all(each.result().stdout == f"{number}\n".encode() for each in kept)
            for each in asked:
                assert isinstance(each.exception(), Cancelled) or each.result().stdout == f"{number}\n".encode()


# Maxima.


def test_limits_above_the_maximum_are_lowered_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    most = Limits(wall_seconds=0.5, memory_mb=200, processes=50, output_kb=100, disk_mb=10)
    wants = Limits(wall_seconds=60, memory_mb=4000, processes=10**6, output_kb=10**5)
    with Sandbox(workers=1, max_limits=most) as box, caplog.at_level(logging.WARNING, "sandbox.limit_bounds"):
        hungry = Program("x = bytearray(b'x' * (400 << 20))\nprint(input())")
        assert box.judge(hungry, Suite([Case("1\n", "1\n")], limits=wants)).verdict is Verdict.MEMORY_LIMIT
        assert [each.verdict for _, each in box.judge_many([(BUSY, Suite([Case("", "")], limits=wants))] * 2)] == [
            Verdict.TIME_LIMIT
        ] * 2
        assert box.run(Program("print('x' * 10**6)"), "", wants).outcome.value == "output_limit"
        assert box.judge(ECHO, ONE).accepted
    words = [record.getMessage() for record in caplog.records]
    assert len(words) == len({each.split()[0] for each in words}) >= 4
    assert any("memory_mb of 4000 was requested; programs get at most 200" in each for each in words)


def test_a_row_with_excessive_limits_is_judged(box: Sandbox) -> None:
    row = Suite([Case("1\n", "1\n")], limits=Limits(memory_mb=16_000_000, processes=10**6))
    assert box.judge(ECHO, row).accepted
    many = Program(
        "import threading, time\nfor _ in range(100): threading.Thread(target=time.sleep, args=(1,)).start()"
    )
    assert box.run(many, "", Limits(processes=10**6)).exit_code == 0


def test_memory_limits_of_surrounding_cgroups_count(tmp_path: Path) -> None:
    for path, name, words in (
        ("v2/pod", "memory.max", "max"),
        ("v2", "memory.max", "3000"),
        ("v1/a/b", "memory.limit_in_bytes", "9223372036854771712"),
        ("v1/a", "memory.limit_in_bytes", "2000"),
    ):
        (tmp_path / path).mkdir(parents=True, exist_ok=True)
        (tmp_path / path / name).write_text(f"{words}\n")
    mounts = (
        f"31 1 0:1 / {tmp_path}/v2 rw - cgroup2 cgroup2 rw\n"
        f"32 1 0:2 /outer {tmp_path}/v1 rw shared:1 - cgroup cgroup rw,memory\n"
    )
    assert list(read_memory_limits("4:memory:/outer/a/b\n1:cpu:/x\n0::/pod\n", mounts)) == [
        3000,
        9223372036854771712,
        2000,
    ]
    assert get_available_memory_mb() > 100


def test_cpu_quotas_of_surrounding_cgroups_count(tmp_path: Path) -> None:
    for path, name, words in (
        ("v2/pod/a", "cpu.max", "max 100000"),
        ("v2/pod", "cpu.max", "350000 100000"),
        ("v1/a/b", "cpu.cfs_quota_us", "-1"),
        ("v1/a/b", "cpu.cfs_period_us", "100000"),
        ("v1/a", "cpu.cfs_quota_us", "25000"),
        ("v1/a", "cpu.cfs_period_us", "50000"),
    ):
        (tmp_path / path).mkdir(parents=True, exist_ok=True)
        (tmp_path / path / name).write_text(f"{words}\n")
    mounts = (
        f"31 1 0:1 / {tmp_path}/v2 rw - cgroup2 cgroup2 rw\n"
        f"32 1 0:2 /outer {tmp_path}/v1 rw shared:1 - cgroup cgroup rw,cpu,cpuacct\n"
    )
    assert list(read_cpu_quotas("1:cpu,cpuacct:/outer/a/b\n0::/pod/a\n", mounts)) == [3.5, 0.5]


def test_there_are_no_more_workers_than_the_cpu_quota_can_keep_busy() -> None:
    v1, v2 = (machine.find_cgroups(*machine.read_memberships_and_mounts()).get(name) for name in ("cpu", "v2"))
    name, words = ("cpu.cfs_quota_us", "100000") if v1 else ("cpu.max", "100000 100000")
    around = v1 or v2
    if around is None or not os.access(around[1], os.W_OK):
        pytest.skip("no cgroup can be made here")
    inside = around[1] / f"curate-test-{os.getpid()}"
    inside.mkdir()
    try:
        if not (inside / name).exists():
            pytest.skip("a new cgroup has no CPU quota here")
        (inside / name).write_text(words)
        (inside / name).write_text(words)
        join = f'echo $$ > {inside}/cgroup.procs; exec "$@"'
        count = "from sandbox import Sandbox\nwith Sandbox() as box: print(box.workers)"
        command = ["sh", "-c", join, "sh", sys.executable, "-c", count]
        assert subprocess.check_output(command, text=True, cwd=ROOT) == "1\n"
    finally:
        inside.rmdir()


# Memory.


class Gated(ThreadLane):
    """A worker whose requests end when the test says so. They are known by their memory."""

    layers: dict[str, str] = {}

    def __init__(self, *_: object) -> None:
        super().__init__()
        self.aborted = threading.Event()

    def execute(self, request: Request[Any]) -> Any:
        began.append(request.memory_mb)
        while not self.aborted.is_set() and request.memory_mb not in ended:
            time.sleep(0.005)
        if self.aborted.is_set():
            raise EOFError
        return request.memory_mb

    def abort(self) -> None:
        self.aborted.set()

    def join(self, why: str) -> str:
        self.abort()
        return super().join(why)


began: list[int] = []
ended: set[int] = set()


@pytest.fixture
def gated() -> Iterator[WorkerBackend]:
    began.clear()
    ended.clear()
    gated = WorkerBackend(lambda *_: Gated(), workers=3, isolation="full", memory_mb=100)
    yield gated
    gated.close()


def needs(memory_mb: int) -> RunRequest:
    return RunRequest(ECHO, limits=Limits(memory_mb=memory_mb))


def n_waiting(pool: WorkerBackend) -> int:
    return len(pool.dispatcher._waiting)


def test_memory_is_not_promised_twice_and_nobody_waits_for_ever(gated: WorkerBackend) -> None:
    with ThreadPoolExecutor(4) as threads:
        threads.submit(gated.execute, needs(60))
        assert becomes(lambda: began == [60])
        threads.submit(gated.execute, needs(90))
        assert becomes(lambda: n_waiting(gated) == 1)
        threads.submit(gated.execute, needs(20))  # would fit beside the first, but came later
        assert becomes(lambda: n_waiting(gated) == 2)
        assert began == [60]
        ended.add(60)
        assert becomes(lambda: began == [60, 90])
        assert n_waiting(gated) == 1
        ended.add(90)
        assert becomes(lambda: began == [60, 90, 20])
        last = threads.submit(gated.execute, needs(10**6))  # more than there is: alone
        assert becomes(lambda: n_waiting(gated) == 1)
        ended.update({20, 100})
        assert last.result(20) == 100


def test_a_request_that_leaves_the_queue_blocks_nobody(gated: WorkerBackend) -> None:
    cancellation = CancelToken()
    with ThreadPoolExecutor(3) as threads:
        threads.submit(gated.execute, needs(60))
        assert becomes(lambda: began == [60])
        large = threads.submit(gated.execute, needs(90), cancellation)
        assert becomes(lambda: n_waiting(gated) == 1)
        threads.submit(gated.execute, needs(10))
        assert becomes(lambda: n_waiting(gated) == 2)
        cancellation.cancel()
        assert isinstance(large.exception(10), Cancelled)
        assert becomes(lambda: began == [60, 10])
        ended.update({60, 10})


def test_requests_one_by_one_need_one_worker() -> None:
    started: list[Gated] = []

    def start(*_: object) -> ThreadLane:
        started.append(Gated())
        return started[-1]

    ended.add(10)
    pool = WorkerBackend(start, workers=3, isolation="full", memory_mb=100)
    assert [pool.execute(needs(10)) for _ in range(3)] == [10] * 3
    assert len(started) == 1
    pool.close()
    with pytest.raises(SandboxError, match="closed"):
        pool.execute(needs(10))


def test_runs_that_need_all_memory_come_one_after_another(box: Sandbox) -> None:
    wants = Limits(memory_mb=get_available_memory_mb())
    nap = Program("import time\nprint(time.time())\ntime.sleep(0.2)\nprint(time.time())")
    with ThreadPoolExecutor(2) as threads:
        runs = list(threads.map(lambda _: box.run(nap, "", wants), range(2)))
    (_, first_end), (second_begin, _) = sorted(tuple(map(float, run.text.split())) for run in runs)
    assert second_begin >= first_end


# Kills from outside.


class Scripted(ThreadLane):
    """A worker that gives prepared answers."""

    layers = {"processes": "all"}

    def __init__(self, answers: list[Any], ended: list["Scripted"]) -> None:
        super().__init__()
        self.answers, self.ended = answers, ended

    def execute(self, request: Request[Any]) -> Any:
        return self.answers.pop(0)

    def abort(self) -> None: ...

    def join(self, why: str) -> str:
        self.ended.append(self)
        return super().join(why)


def asked_of(answers: list[Any]) -> tuple[Any, int]:
    """Return a pool's answer if its workers give these answers, and the number of workers that it ended."""
    ended: list[Scripted] = []
    scripted = WorkerBackend(lambda *_: Scripted(answers, ended), workers=1, isolation="full", memory_mb=1000)
    try:
        answer = scripted.execute(RunRequest(ECHO))
    except SandboxError as error:
        answer = error
    number = len(ended)
    scripted.close()
    return answer, number


def test_a_run_killed_from_outside_is_repeated_once_on_another_worker() -> None:
    killed = KilledExternally("killed")
    assert asked_of([killed, "answer"]) == ("answer", 1)
    assert asked_of([killed, killed, "too late"]) == (killed, 2)
    assert asked_of(["answer"]) == ("answer", 0)


def test_the_bound_on_processes_is_a_few_thousand() -> None:
    assert 1000 <= MAX_PROCESSES < 10_000
