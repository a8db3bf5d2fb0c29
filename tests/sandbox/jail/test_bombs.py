"""Fork bombs, thread bombs and memory bombs end soon after their limits, also on a busy machine."""

import pickle
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from busy import busy_processes
from confined import NO_CGROUP, ROOT, USER, command, install
from hostile import attacks

from sandbox import Limits, Outcome, Program, Sandbox

pytestmark = pytest.mark.quiet
LIMITS = Limits(wall_seconds=1, memory_mb=256)
PYTHON, CPP = attacks("python"), attacks("cpp")
BOMBS = {
    "fork bomb": (PYTHON["late_fork_bomb"], Outcome.TIMED_OUT),
    "fork bomb in C++": (CPP["late_fork_bomb"], Outcome.TIMED_OUT),
    "fork relay": (PYTHON["late_fork_relay"], Outcome.TIMED_OUT),
    "thread bomb": (PYTHON["late_thread_bomb"], Outcome.TIMED_OUT),
    "thread bomb in C++": (CPP["late_thread_bomb"], Outcome.TIMED_OUT),
    "memory in children": (PYTHON["memory_in_children"], Outcome.OUT_OF_MEMORY),
    "memory in children in C++": (CPP["memory_in_children"], Outcome.OUT_OF_MEMORY),
    "memory in children again": (PYTHON["memory_in_children_again_and_again"], Outcome.OUT_OF_MEMORY),
}
QUICK_ON_A_BUSY_MACHINE = ("fork bomb", "thread bomb", "memory in children in C++")
ON_A_BUSY_MACHINE = [
    pytest.param(name, marks=[pytest.mark.thorough] * (name not in QUICK_ON_A_BUSY_MACHINE)) for name in BOMBS
]
WITHOUT_CGROUP = {"namespaces": NO_CGROUP, "landlock": USER}  # by level
# Reads pickled programs and limits; writes the outcome and duration in seconds for each.
RUN_EACH = """
import pickle, sys, time
sys.path.insert(0, sys.argv[1])
from sandbox import Sandbox
with Sandbox(workers=1, levels=(sys.argv[2],)) as box:
    assert box.layers["memory"].startswith("best-effort"), box.layers
    while sys.stdin.buffer.peek():
        program, limits = pickle.load(sys.stdin.buffer)
        started = time.monotonic()
        outcome = box.run(program, b"1\\n", limits=limits).outcome
        pickle.dump((outcome, time.monotonic() - started), sys.stdout.buffer)
        sys.stdout.buffer.flush()
"""
# Two hundred processes one after another, like a shell script, then forty at a time, like a pool of workers.
MANY_PROCESSES = """
import os

for number in range(200):
    if os.fork() == 0:
        os._exit(number % 7)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == number % 7
pipe = os.pipe()
for number in range(40):
    if os.fork() == 0:
        os.write(pipe[1], b"%d\\n" % sum(range(20_000 + number)))
        os._exit(0)
for _ in range(40):
    os.wait()
print(os.read(pipe[0], 1 << 16).count(b"\\n"))
"""


@pytest.fixture(scope="module")
def single() -> Iterator[Sandbox]:
    """Yield a Sandbox with one worker, which has compiled all bombs."""
    with Sandbox(workers=1) as box:
        if not box.layers["processors"].startswith("cgroup"):
            pytest.skip("without a cpu controller, the sandbox cannot raise the priority of a run on a busy machine")
        for (program, _), _ in BOMBS.values():
            if program.language == "cpp":
                box.run(program, limits=Limits(wall_seconds=0.01))
        yield box


@pytest.fixture(scope="module", params=WITHOUT_CGROUP)
def run_without_cgroup(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Program, Limits], tuple[Outcome, float]]]:
    """Yield a function that runs a program without a cgroup, and returns its outcome and duration in seconds."""
    environment = WITHOUT_CGROUP[request.param]
    package = install(tmp_path_factory.mktemp("installed")) if environment == USER else ROOT
    arguments = [*command(environment, package), "-c", RUN_EACH, str(package), request.param]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        requests, responses = child.stdin, child.stdout

        def run(program: Program, limits: Limits) -> tuple[Outcome, float]:
            pickle.dump((program, limits), requests)
            requests.flush()
            response: tuple[Outcome, float] = pickle.load(responses)
            return response

        for (program, _), _ in BOMBS.values():
            if program.language == "cpp":
                run(program, Limits(wall_seconds=0.01))
        yield run


def assert_bomb_ends_in_time(box: Sandbox, name: str) -> None:
    (program, _), outcome = BOMBS[name]
    started = time.monotonic()
    assert box.run(program, b"1\n", limits=LIMITS).outcome is outcome
    assert time.monotonic() - started < 2 * LIMITS.wall_seconds + 1


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_in_time(single: Sandbox, name: str) -> None:
    assert_bomb_ends_in_time(single, name)


@pytest.mark.parametrize("name", ON_A_BUSY_MACHINE)
def test_a_bomb_ends_in_time_on_a_busy_machine(single: Sandbox, name: str) -> None:
    with busy_processes(20):
        assert_bomb_ends_in_time(single, name)


@pytest.mark.parametrize("name", QUICK_ON_A_BUSY_MACHINE)
def test_a_bomb_ends_in_time_on_a_busy_machine_without_a_cgroup(
    run_without_cgroup: Callable[[Program, Limits], tuple[Outcome, float]], name: str
) -> None:
    (program, _), outcome = BOMBS[name]
    with busy_processes(20):
        ended, seconds = run_without_cgroup(program, LIMITS)
    assert ended in {outcome, Outcome.TIMED_OUT}  # before it has filled its memory
    assert seconds < 2 * LIMITS.wall_seconds + 1


@pytest.mark.parametrize("n_busy", [0, pytest.param(20, marks=pytest.mark.thorough)])
def test_a_program_with_many_processes_is_not_killed(single: Sandbox, n_busy: int) -> None:
    with busy_processes(n_busy):
        result = single.run(Program(MANY_PROCESSES), limits=replace(LIMITS, wall_seconds=5))
    assert (result.outcome, result.stdout) == (Outcome.EXITED, b"40\n")


def test_the_cpu_limit_counts_running_processes(single: Sandbox) -> None:
    source = "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n"
    source += "        while time.process_time() < 0.4: pass\n        os._exit(0)\ntime.sleep(60)"
    result = single.run(Program(source), limits=Limits(wall_seconds=30, cpu_seconds=1))
    assert result.outcome is Outcome.TIMED_OUT
    assert result.wall_seconds < 15


def test_an_oom_kill_of_one_process_ends_the_run(single: Sandbox) -> None:
    source = "import os, time\nif os.fork() == 0:\n    x = []\n    while True: x.append(b'x' * 2**20)\ntime.sleep(60)"
    result = single.run(Program(source), limits=Limits(wall_seconds=30, memory_mb=64))
    assert result.outcome is Outcome.OUT_OF_MEMORY
    assert result.wall_seconds < 15


def test_a_run_in_time_follows_a_bomb(single: Sandbox) -> None:
    single.run(BOMBS["fork bomb"][0][0], limits=LIMITS)
    started = time.monotonic()
    assert single.run(Program("print(7)"), limits=LIMITS).stdout == b"7\n"
    assert time.monotonic() - started < 1
