"""However a program forks, it holds its worker for little longer than its limits allow, on a busy machine, too."""

import time
from collections.abc import Iterator

import pytest
from busy import busy_processes
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
QUICK_IN_A_CROWD = ("fork bomb", "memory in children in C++")
# Two hundred processes one after another, then forty at a time, as a shell script or a pool of workers has them.
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
    """Return a Sandbox with one worker, which has compiled all bombs."""
    with Sandbox(workers=1) as box:
        if not box.layers["processors"].startswith("cgroup"):
            pytest.skip("without a cgroup for processors, a run cannot be given precedence on a busy machine")
        for (program, _), _ in BOMBS.values():
            if program.language == "cpp":
                box.run(program, limits=Limits(wall_seconds=0.01))
        yield box


def assert_ends_in_time(box: Sandbox, name: str) -> None:
    (program, _), outcome = BOMBS[name]
    started = time.monotonic()
    assert box.run(program, b"1\n", limits=LIMITS).outcome is outcome
    assert time.monotonic() - started < 2 * LIMITS.wall_seconds + 1


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_in_time(single: Sandbox, name: str) -> None:
    assert_ends_in_time(single, name)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] * (name not in QUICK_IN_A_CROWD)) for name in BOMBS]
)
def test_beside_twenty_busy_processes_a_bomb_ends_in_time(single: Sandbox, name: str) -> None:
    with busy_processes(20):
        assert_ends_in_time(single, name)


@pytest.mark.parametrize("n_busy", [0, pytest.param(20, marks=pytest.mark.thorough)])
def test_a_program_of_many_processes_is_no_bomb(single: Sandbox, n_busy: int) -> None:
    with busy_processes(n_busy):
        result = single.run(Program(MANY_PROCESSES), limits=LIMITS)
    assert (result.outcome, result.stdout) == (Outcome.EXITED, b"40\n")


def test_the_processor_time_of_all_processes_counts_while_they_run(single: Sandbox) -> None:
    source = "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n"
    source += "        while time.process_time() < 0.4: pass\n        os._exit(0)\ntime.sleep(60)"
    result = single.run(Program(source), limits=Limits(wall_seconds=30, cpu_seconds=1))
    assert result.outcome is Outcome.TIMED_OUT
    assert result.wall_seconds < 15


def test_a_run_ends_when_one_of_its_processes_is_killed_for_lack_of_memory(single: Sandbox) -> None:
    source = "import os, time\nif os.fork() == 0:\n    x = []\n    while True: x.append(b'x' * 2**20)\ntime.sleep(60)"
    result = single.run(Program(source), limits=Limits(wall_seconds=30, memory_mb=64))
    assert result.outcome is Outcome.OUT_OF_MEMORY
    assert result.wall_seconds < 15


def test_a_run_in_time_follows_a_bomb(single: Sandbox) -> None:
    single.run(BOMBS["fork bomb"][0][0], limits=LIMITS)
    started = time.monotonic()
    assert single.run(Program("print(7)"), limits=LIMITS).stdout == b"7\n"
    assert time.monotonic() - started < 1
