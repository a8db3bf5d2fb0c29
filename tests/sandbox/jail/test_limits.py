"""Each limit bounds the whole process tree of a run, and allows usage below it."""

import shutil
from collections.abc import Iterator

import pytest

from sandbox import Case, Limits, Outcome, Program, RunResult, Sandbox, Suite, Verdict
from sandbox.kernel import cgroups, delegation


def run(box: Sandbox, source: str, **limits: float) -> RunResult:
    return box.run(Program(source), limits=Limits(**limits))  # type: ignore[arg-type]


def test_memory_below_the_limit_may_be_used(box: Sandbox) -> None:
    assert run(box, "x = b'x' * (200 << 20)", memory_mb=256).outcome is Outcome.EXITED


def test_freed_memory_may_be_used_again(box: Sandbox) -> None:
    source = "for _ in range(2):\n    x = b'x' * (150 << 20)\n    del x"
    assert run(box, source, memory_mb=256).outcome is Outcome.EXITED


def test_address_space_does_not_count_as_memory(box: Sandbox) -> None:
    assert run(box, "import mmap\nx = mmap.mmap(-1, 900 << 20)\nx[0] = 1", memory_mb=256).exit_code == 0


def test_the_memory_of_one_run_does_not_count_for_the_next(single: Sandbox) -> None:
    for _ in range(3):
        assert run(single, "x = b'x' * (90 << 20)", memory_mb=128).outcome is Outcome.EXITED


# Programs that could change the effective limit of the next run.
BEFORE = {
    "a hog": Program("x = []\nwhile True: x.append(bytearray(b'x' * 10**6))"),
    "full disk": Program("for n in range(9): open(str(n), 'wb').write(b'x' * (7 << 20))"),
    "much output": Program("print('x' * (14 << 20))"),
    "many processes": Program("import os, time\nfor _ in range(40):\n    if os.fork() == 0: time.sleep(9)"),
    "numpy": Program("import numpy\nprint(numpy.ones(9).sum())"),
    "a compiler": Program("#include <bits/stdc++.h>\nint main() {}", "cpp"),
}
SOCKETS = """
import socket
for _ in range(120):
    one, other = socket.socketpair()
    one.setblocking(False)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    try:
        socket.send_fds(one, [b"x"], [one.fileno(), other.fileno()])
        while True: one.send(b"x" * 65536)
    except OSError:
        pass
    one.close(), other.close()
"""
BEFORE["sockets that keep one another alive"] = Program(SOCKETS)
ALLOCATE = "x = bytearray(b'x') * ({} << 20)"


@pytest.fixture(scope="module")
def single() -> Iterator[Sandbox]:
    """Yield a Sandbox with one worker, whose runs share one zygote."""
    with Sandbox(workers=1) as box:
        yield box


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(program, marks=[] if name in ("a hog", "much output") else pytest.mark.thorough, id=name)
        for name, program in BEFORE.items()
    ],
)
def test_the_memory_limit_is_exact_after_any_run(single: Sandbox, before: Program) -> None:
    if before.language == "cpp" and shutil.which("g++") is None:
        pytest.skip("there is no g++")
    limits = Limits(memory_mb=64)
    for _ in range(2):
        single.run(before, limits=limits)
        assert single.run(Program(ALLOCATE.format(64 + 24)), limits=limits).outcome is Outcome.OUT_OF_MEMORY
        single.run(before, limits=limits)
        assert single.run(Program(ALLOCATE.format(64 - 8)), limits=limits).outcome is Outcome.EXITED


def records_peaks() -> bool:
    """Return whether the kernel records a memory peak for each run."""
    try:
        cgroup = cgroups.create_cgroup(delegation.find_subtree(), "peaks")
    except OSError:
        return False
    has_peak = "peak" in cgroup.files
    cgroup.remove()
    return has_peak


def test_a_measured_peak_belongs_to_its_own_run(single: Sandbox) -> None:
    if not records_peaks():
        pytest.skip("only cgroup v1 and, since Linux 6.12, v2 record a peak for each run")
    peaks = [single.run(Program("print(1)" if n % 2 else ALLOCATE.format(50))).memory_mb for n in range(10)]
    assert all(50 <= peak < 56 for peak in peaks[::2]), peaks
    assert all(0 < peak < 6 for peak in peaks[1::2]), peaks


@pytest.mark.parametrize("mebibytes", [20, 100])
def test_peak_memory_is_measured(box: Sandbox, mebibytes: int) -> None:
    used = run(box, f"x = b'x' * ({mebibytes} << 20)\ndel x").memory_mb
    assert mebibytes <= used < 2 * mebibytes + 30


def test_memory_is_counted_for_all_processes(box: Sandbox) -> None:
    source = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        x = b"x" * (50 << 20)
        time.sleep(0.3)
        os._exit(0)
for _ in range(4): os.wait()
"""
    assert run(box, source, memory_mb=128).outcome is Outcome.OUT_OF_MEMORY
    assert run(box, source, memory_mb=320).outcome is Outcome.EXITED


def test_shared_memory_counts(box: Sandbox) -> None:
    source = "import mmap\nx = mmap.mmap(-1, 400 << 20)\nfor page in range(0, 400 << 20, 4096): x[page] = 1"
    assert run(box, source, memory_mb=256).outcome is Outcome.OUT_OF_MEMORY


def test_many_small_processes_need_little_memory(box: Sandbox) -> None:
    source = """
import os, time
children = [pid for pid in (os.fork() for _ in range(5))]
if all(children):
    for _ in range(5): os.wait()
time.sleep(0.3)
"""
    assert run(box, source, memory_mb=256).outcome is Outcome.EXITED


def test_cpu_time_is_counted_for_all_processes(box: Sandbox) -> None:
    source = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        while time.process_time() < 0.3: pass
        os._exit(0)
for _ in range(3): os.wait()
"""
    result = run(box, source, wall_seconds=10, cpu_seconds=0.5)
    assert result.outcome is Outcome.TIMED_OUT
    assert result.cpu_seconds >= 0.5


def test_cpu_and_wall_clock_are_two_limits(box: Sandbox) -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    assert run(box, busy, wall_seconds=10, cpu_seconds=0.15).outcome is Outcome.TIMED_OUT
    assert run(box, busy, wall_seconds=10, cpu_seconds=5).outcome is Outcome.EXITED
    assert run(box, "import time\ntime.sleep(0.5)", wall_seconds=5, cpu_seconds=0.4).outcome is Outcome.EXITED


def test_output_up_to_the_limit_is_complete(box: Sandbox) -> None:
    result = run(box, "print('x' * (15 << 20))", memory_mb=512)
    assert (result.outcome, len(result.stdout)) == (Outcome.EXITED, (15 << 20) + 1)
    assert run(box, "print('x' * 2000)", output_kb=1).outcome is Outcome.OUTPUT_LIMIT


def test_disk_is_bounded(box: Sandbox) -> None:
    source = "with open('big', 'wb') as f:\n    for _ in range({}): f.write(b'x' * (1 << 20))"
    assert run(box, source.format(10), disk_mb=32, memory_mb=256).exit_code == 0
    assert run(box, source.format(40), disk_mb=32, memory_mb=256).exit_code == 1


def test_processes_are_bounded(box: Sandbox) -> None:
    source = """
import os, time
for _ in range(70):
    os.waitpid(os.fork() or os._exit(0), 0)  # those that have ended do not count
made = 1
try:
    while made < 300:
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        made += 1
except OSError:
    pass
print(made)
"""
    assert run(box, source, processes=20, memory_mb=1024).stdout == b"20\n"
    assert run(box, source, processes=60, memory_mb=1024).stdout == b"60\n"


def test_descriptors_are_bounded(box: Sandbox) -> None:
    source = "import os\nn = 0\ntry:\n    while n < 10**5: n = os.dup(1)\nexcept OSError: print(n)"
    assert int(run(box, source).stdout) < 2000


def test_a_run_is_not_throttled_after_a_parallel_one(single: Sandbox) -> None:
    busy = "import os, time\nfor _ in range(40): os.fork() or exec('while True: pass')\ntime.sleep(9)"
    for _ in range(2):
        assert run(single, busy, wall_seconds=1, cpu_seconds=0.5).outcome is Outcome.TIMED_OUT
        assert run(single, "print(1)", wall_seconds=0.3).outcome is Outcome.EXITED


def test_all_tests_share_one_budget(box: Sandbox) -> None:
    program = Program("import time\ntime.sleep(0.2)\nprint(input())")
    cases = [Case(f"{number}\n", f"{number}\n") for number in range(4)]
    assert box.judge(program, Suite(cases, limits=Limits(wall_seconds=5))).accepted
    judgement = box.judge(program, Suite(cases, limits=Limits(wall_seconds=5, budget_seconds=0.5)))
    assert judgement.verdict is Verdict.TIME_LIMIT
    assert len(judgement.cases) < 4


def test_each_test_has_the_whole_wall_limit(box: Sandbox) -> None:
    program = Program("import time\ntime.sleep(0.3)\nprint(input())")
    suite = Suite([Case(f"{number}\n", f"{number}\n") for number in range(4)], limits=Limits(wall_seconds=1))
    assert box.judge(program, suite).accepted


@pytest.mark.parametrize("name", ["wall_seconds", "memory_mb", "processes", "output_kb", "disk_mb", "cpu_seconds"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), 1e9])
def test_a_limit_out_of_bounds_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        Limits(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["memory_mb", "processes", "output_kb", "disk_mb"])
def test_limits_on_counts_must_be_whole_numbers(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a whole number, not 64.5"):
        Limits(**{name: 64.5})  # type: ignore[arg-type]


def test_the_highest_limits_delay_no_run(box: Sandbox) -> None:
    most = Limits(10**5, 10**5, 2**24, 2**20, 2**22, 2**24, 10**5)
    assert box.run(Program("print(1)"), limits=most).stdout == b"1\n"
