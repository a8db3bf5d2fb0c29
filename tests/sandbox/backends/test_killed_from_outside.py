"""A kill by neither sandbox nor program is not a verdict: the run is repeated once on another worker."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox import Case, Limits, Program, Sandbox, SandboxError, Suite, Verdict
from sandbox.errors import KilledExternally

SLOW = "import time\ntime.sleep(0.5)\n{}\nprint(7)"
SUITE = Suite([Case("", "7")], limits=Limits(wall_seconds=10))


def parts_of_a_compiler(name: str) -> Callable[[], list[int]]:
    """Return a function that finds the pids of all our descendants with this name."""

    def found() -> list[int]:
        pids = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == name and _descends(int(pid), os.getpid()):
                    pids.append(int(pid))
        return pids

    return found


def programs() -> list[int]:
    """Return the pids, in our namespace, of all running programs: each is process 2 of a pid namespace below ours."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{name}/status").read_text()
            numbers = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
            if len(numbers) > 2 and numbers[-1] == "2" and _descends(int(name), os.getpid()):
                found.append(int(name))
    return found


def _descends(pid: int, ancestor: int) -> bool:
    while pid > 1 and pid != ancestor:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid == ancestor


@contextmanager
def killer(times: int, victims: Callable[[], list[int]] = programs) -> Iterator[list[int]]:
    """Inside the `with` block, kill the given number of programs, or other victims, a moment after they have begun."""
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        while len(killed) < times and not over.is_set():
            for pid in victims():
                if pid not in killed and len(killed) < times:
                    time.sleep(0.1)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
            time.sleep(0.01)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


@pytest.fixture(scope="module")
def own() -> Iterator[Sandbox]:
    with Sandbox(workers=1) as own:
        own.judge(Program("print(7)"), SUITE)
        yield own


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("", id="one thread"),
        pytest.param(
            "import threading\nthreading.Thread(target=time.sleep, args=(0.5,)).start()",
            id="two threads",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_program_that_was_killed_once_gets_its_own_verdict(own: Sandbox, body: str) -> None:
    with killer(1) as killed:
        assert own.judge(Program(SLOW.format(body)), SUITE).accepted
    assert len(killed) == 1


def test_a_program_that_is_killed_again_and_again_gets_no_verdict(own: Sandbox) -> None:
    with killer(100) as killed, pytest.raises(SandboxError) as caught:
        own.judge(Program(SLOW.format("")), SUITE)
    assert isinstance(caught.value, KilledExternally)
    assert len(killed) >= 2
    assert own.judge(Program("print(7)"), SUITE).accepted


# Half a second for the compiler, and half a second for the assembler.
SLOW_TO_COMPILE = """
#include <cstdio>
constexpr long sum() {{ long s = 0; for (long i = 0; i < 250000; i++) s += i; return s; }}
static_assert(sum() > 0);
asm(".rept 2000000\\nnop\\n.endr");
int main() {{ puts("7"); }}  // {}
"""


@pytest.mark.thorough
@pytest.mark.parametrize("part", ["cc1plus", "as"])
def test_a_compiler_that_was_killed_once_compiles_again(own: Sandbox, part: str) -> None:
    own.judge(Program(SLOW_TO_COMPILE.format("before"), "cpp"), SUITE)
    with killer(1, parts_of_a_compiler(part)) as killed:
        assert own.judge(Program(SLOW_TO_COMPILE.format(f"{part} once"), "cpp"), SUITE).accepted
    assert len(killed) == 1


@pytest.mark.parametrize("part", ["cc1plus", "as"])
@pytest.mark.thorough
def test_a_compiler_that_is_killed_again_and_again_gives_no_verdict(own: Sandbox, part: str) -> None:
    own.judge(Program(SLOW_TO_COMPILE.format("before"), "cpp"), SUITE)
    with killer(100, parts_of_a_compiler(part)), pytest.raises(SandboxError):
        own.judge(Program(SLOW_TO_COMPILE.format(f"{part} always"), "cpp"), SUITE)


KILLED = "g++: fatal error: Killed signal terminated program cc1plus\\ncompilation terminated.\\n"
LINKER_KILLED = "collect2: fatal error: ld terminated with signal 9 [Killed]\\ncompilation terminated.\\n"
CLAIMS = {
    "in the name of a file": f'#line 1 "x\\n{KILLED}"\n#error 1\n',
    "in an assertion": f'#line 1 "/nowhere"\nstatic_assert(false, "x\\n{KILLED}"); int main() {{}}',
    "in a pragma": f'#line 1 "/nowhere"\n#pragma GCC error "x\\n{KILLED}"\nint main() {{}}',
    "of the linker": f'#line 1 "/nowhere"\nstatic_assert(false, "x\\n{LINKER_KILLED}"); int main() {{}}',
    "by the assembler": 'asm(".error \\"x\\' + KILLED.replace("\\n", "\\\\n") + '\\""); int main() {}',
}


@pytest.mark.parametrize("source", CLAIMS.values(), ids=CLAIMS)
def test_a_program_that_fakes_the_compilers_message_of_a_kill_does_not_compile(own: Sandbox, source: str) -> None:
    assert own.judge(Program(source, "cpp"), SUITE).verdict is Verdict.COMPILE_ERROR


KILLS_ITSELF = {
    "by its number": "import os\nos.kill(os.getpid(), 9)",
    "by its group": "import os\nos.killpg(0, 9)",
    "all in sight": "import os\nos.kill(-1, 9)",
    "by a child": "import os, time\npid = os.getpid()\nif os.fork() == 0: os.kill(pid, 9)\ntime.sleep(2)",
    "by a thread's number": "import os, threading, time\nt = threading.Thread(target=time.sleep, args=(9,))\n"
    "t.start()\nos.kill(t.native_id, 9)\ntime.sleep(2)",
    "through a descriptor": "import os, signal, time\n"
    "signal.pidfd_send_signal(os.pidfd_open(os.getpid()), 9)\ntime.sleep(2)",
    "when a child ends": "import ctypes, os, time\n"
    "ctypes.CDLL(None).syscall(56, 9, 0, 0, 0, 0) or os._exit(0)\ntime.sleep(2)\nraise SystemExit(1)",
    "by its limit": "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass",
}


@pytest.mark.parametrize("source", KILLS_ITSELF.values(), ids=KILLS_ITSELF)
def test_a_program_that_kills_itself_gets_its_verdict(own: Sandbox, source: str) -> None:
    assert own.judge(Program(source), SUITE).verdict in {Verdict.RUNTIME_ERROR, Verdict.WRONG_ANSWER}
