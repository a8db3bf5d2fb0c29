"""Whatever dies, at whatever moment: no verdict is lost or doubled, and nothing stays behind."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from echoes import ECHO, LONG, SLEEP, count_reads, echo
from process_tree import alive, below, processes
from waiting import becomes

from sandbox import Case, Limits, Program, Sandbox, SandboxError, Suite, Verdict
from sandbox.jail.spawn import ZygoteKind
from sandbox.jail.warden import WardenClient


def traces(owners: set[tuple[int, str]]) -> list[str]:
    """Return the directories and cgroups that are named after one of these processes, and the mounts of a sandbox."""
    names = tuple(f"curate-sandbox-{pid}-{started}-" for pid, started in owners)
    folders = (Path(folder, name) for folder, below, _ in os.walk("/sys/fs/cgroup") for name in below)
    named = [str(path) for path in (*Path("/tmp").iterdir(), *folders) if path.name.startswith(names)]
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "curate-sandbox" in line]
    return named + mounts


def workers() -> list[int]:
    return sorted(pid for pid, (parent, _) in processes().items() if parent == os.getpid())


@pytest.fixture
def own() -> Iterator[Sandbox]:
    """Yield a Sandbox whose processes tests may kill, and check that none is left when it is closed."""
    before = {pid for pid, _ in below(os.getpid())}
    with Sandbox(workers=1) as own:
        yield own
    assert becomes(lambda: {pid for pid, _ in below(os.getpid())} <= before)


def killed_in_the_middle(own: Sandbox, victim: Callable[[], int]) -> None:
    """Judge a slow but correct program while `victim` is killed during its first attempt."""
    program = Program("import time\ntime.sleep(0.5)\nprint(input())")
    with ThreadPoolExecutor(1) as thread:
        judging = thread.submit(own.judge, program, Suite([Case("7\n", "7\n")], limits=Limits(wall_seconds=30)))
        time.sleep(0.2)
        os.kill(victim(), signal.SIGKILL)
        assert judging.result().accepted
    assert own.judge(ECHO, echo(1)).accepted


def test_a_killed_worker_costs_no_verdict() -> None:
    before = below(os.getpid())
    with Sandbox(workers=1) as own:
        [worker] = [pid for pid, _ in below(os.getpid()) - before if processes()[pid][0] == os.getpid()]
        killed_in_the_middle(own, lambda: worker)


@pytest.mark.thorough
def test_a_killed_zygote_costs_no_verdict() -> None:
    before = below(os.getpid())
    with Sandbox(workers=1) as own:
        [zygote] = [pid for pid, _ in below(os.getpid()) - before if is_elsewhere(pid)]
        killed_in_the_middle(own, lambda: zygote)


@pytest.mark.thorough
def test_a_killed_judge_costs_no_verdict() -> None:
    before = below(os.getpid())
    with Sandbox(workers=1) as own:
        ours = {pid for pid, _ in below(os.getpid()) - before}
        [judge] = [pid for pid in ours if processes()[pid][0] in ours and not is_elsewhere(pid)]
        killed_in_the_middle(own, lambda: judge)


def test_a_judge_ends_with_its_warden_while_it_is_idle() -> None:
    before = below(os.getpid())
    with Sandbox(workers=1) as own:
        ours = below(os.getpid()) - before
        [warden] = [pid for pid, _ in ours if processes()[pid][0] == os.getpid()]
        os.kill(warden, signal.SIGKILL)
        assert becomes(lambda: not alive(ours))
        assert own.judge(ECHO, echo(1)).accepted


def test_workers_that_are_all_killed_while_they_are_idle_cost_no_verdict() -> None:
    others = set(workers())
    sleep = Program("import time\ntime.sleep(0.3)\nprint(input())")
    with Sandbox(workers=4) as own:
        assert len(list(own.judge_many((sleep, echo(n)) for n in range(8)))) == 8
        assert becomes(lambda: len(set(workers()) - others) == 4)
        killed = set(workers()) - others
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        for pid in killed:
            with suppress(ChildProcessError):  # the Sandbox has reaped it
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert own.judge(ECHO, echo(1)).accepted  # at once, while their judges exit


def test_a_judge_without_its_warden_ends_and_does_not_answer_that_the_run_was_lost() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        theirs.close()
        with pytest.raises(EOFError):  # upon which a judge ends, as upon the end of its caller
            WardenClient(ours).start_zygote(ZygoteKind(), 0)


def is_elsewhere(pid: int) -> bool:
    """Return whether a process has a pid namespace of its own, as zygotes do."""
    return os.stat(f"/proc/{pid}/ns/pid").st_ino != os.stat("/proc/self/ns/pid").st_ino


@pytest.mark.thorough
def test_repeated_deaths_neither_lose_nor_double_verdicts() -> None:
    before = below(os.getpid())
    seen: dict[int, Verdict] = {}
    programs = [ECHO, Program("import time\ntime.sleep(0.03)\nprint(input())"), Program("print(-1)")]
    with Sandbox(workers=2) as own:
        for index, judgement in own.judge_many((programs[n % 3], echo(n)) for n in range(300)):
            assert index not in seen
            seen[index] = judgement.verdict
            if len(seen) % 20 == 0:
                # Workers and zygotes only: killed programs are not the subject of this test.
                first = [pid for pid in workers() if (pid, processes()[pid][1]) not in before]
                ours = sorted(pid for pid, (parent, _) in processes().items() if pid in first or parent in first)
                os.kill(ours[len(seen) // 20 % len(ours)], signal.SIGKILL)
    assert len(seen) == 300
    assert {verdict for index, verdict in seen.items() if index % 3 == 2} == {Verdict.WRONG_ANSWER}
    assert {verdict for index, verdict in seen.items() if index % 3 != 2} == {Verdict.ACCEPTED}


PARENT = """
import sys
from sandbox import Case, Limits, Program, Sandbox, Suite
busy = Program("import os, time\\nfor _ in range(5):\\n    os.setsid() if os.fork() == 0 else 0\\n"
               "open('file', 'w').write('x')\\nprint(1)\\ntime.sleep(60)")
box = Sandbox(workers=2)
print("ready", flush=True)
for _ in box.judge_many([(busy, Suite([Case("", "")], limits=Limits(wall_seconds=60)))] * 4): pass
"""


@pytest.mark.parametrize(
    ("ready", "delay"),
    [
        pytest.param(True, 0.1, id="judging"),
        pytest.param(False, 0.5, id="starting"),
        *(
            pytest.param(ready, delay, id=f"{'judging' if ready else 'starting'}-{delay}", marks=pytest.mark.thorough)
            for ready, delay in ((True, 0), (True, 0.02), (True, 0.5), (False, 0), (False, 0.02), (False, 0.1))
        ),
    ],
)
def test_killing_the_parent_leaves_nothing(ready: bool, delay: float) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3], text=True
    )
    assert parent.stdout is not None
    if ready:
        parent.stdout.readline()
    time.sleep(delay)
    descendants = below(parent.pid)
    itself = (parent.pid, processes()[parent.pid][1])
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert becomes(lambda: not alive(descendants))
    # If it is killed before it has a worker, it leaves an empty folder for the next Sandbox on this machine to remove.
    owners = descendants | ({itself} if ready else set())
    assert becomes(lambda: not traces(owners))


def test_a_closed_sandbox_leaves_nothing_and_says_that_it_is_closed() -> None:
    before = below(os.getpid())
    box = Sandbox(workers=2)
    assert len(list(box.judge_many((ECHO, echo(n)) for n in range(8)))) == 8
    ours = below(os.getpid()) - before
    box.close()
    box.close()
    assert not alive(ours)
    assert not traces(ours)
    with pytest.raises(SandboxError, match="closed"):
        box.judge(ECHO, echo(1))


def test_closing_ends_what_runs() -> None:
    before = below(os.getpid())
    box = Sandbox(workers=1)
    with ThreadPoolExecutor(1) as thread:
        judging = thread.submit(box.judge, SLEEP, LONG)
        time.sleep(0.3)
        box.close()
        with pytest.raises(SandboxError):
            judging.result()
    assert becomes(lambda: not below(os.getpid()) - before)


def test_a_forgotten_sandbox_closes_itself() -> None:
    before = below(os.getpid())
    box = Sandbox(workers=1)
    assert below(os.getpid()) - before
    del box
    assert becomes(lambda: not below(os.getpid()) - before)


def test_a_run_leaves_no_process(box: Sandbox) -> None:
    idle = len(below(os.getpid()))
    source = "import os, time\nfor _ in range(20):\n    if os.fork() == 0: os.setsid(), time.sleep(60)\nprint(1)"
    assert box.judge(Program(source), Suite([Case("", "1")])).accepted
    assert becomes(lambda: len(below(os.getpid())) <= idle + 2)  # a worker more may have been started


def test_a_sandbox_is_not_shared_with_a_forked_process(box: Sandbox) -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            box.judge(ECHO, echo(1))
        except SandboxError:
            os.write(writer, b"refused")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(writer)
    assert os.read(reader, 99) == b"refused"
    os.close(reader)
    assert box.judge(ECHO, echo(1)).accepted


def test_a_forked_process_that_exits_as_programs_do_leaves_the_sandbox_usable() -> None:
    source = """
import os, sys
from sandbox import Case, Program, Sandbox, Suite
box = Sandbox(workers=1)
suite = Suite([Case("1", "1")])
box.judge(Program("print(input())"), suite)
if os.fork() == 0:
    sys.exit()
os.wait()
print(box.judge(Program("print(input())"), suite).verdict)
"""
    root = Path(__file__).parents[3]
    run = subprocess.run([sys.executable, "-c", source], cwd=root, capture_output=True, text=True, timeout=60)
    assert run.stdout == "Verdict.ACCEPTED\n", run.stderr


def test_a_forked_process_may_end_without_ending_the_sandbox() -> None:
    with Sandbox(workers=1) as own:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        assert own.judge(ECHO, echo(1)).accepted


def test_requests_and_answers_of_any_size_get_through(box: Sandbox) -> None:
    for size in (1, 200_000, 5_000_000):  # the larger ones do not fit into a socket
        text = "x" * size
        copied = box.run(Program("import sys; sys.stdout.write(sys.stdin.read())"), text, Limits(wall_seconds=60))
        assert copied.text == text


def test_many_threads_share_one_sandbox(box: Sandbox) -> None:
    with ThreadPoolExecutor(16) as threads:
        verdicts = list(threads.map(lambda n: box.judge(ECHO, echo(n)).verdict, range(200)))
    assert set(verdicts) == {Verdict.ACCEPTED}


@pytest.mark.thorough
def test_128_submissions_at_once_are_all_in_time(box: Sandbox) -> None:
    program = Program(
        "import time\ne = time.process_time() + 0.05\nwhile time.process_time() < e: pass\nprint(input())"
    )
    suite = Suite([Case("7\n", "7\n")], limits=Limits(wall_seconds=2))
    with ThreadPoolExecutor(128) as threads:
        verdicts = list(threads.map(lambda _: box.judge(program, suite).verdict, range(128)))
    assert set(verdicts) == {Verdict.ACCEPTED}


def test_pairs_are_read_only_a_little_ahead(box: Sandbox) -> None:
    assert count_reads(box) < 5 + 8 * box.workers
    assert box.judge(ECHO, echo(1)).accepted


def test_an_exception_in_the_pairs_reaches_the_caller(box: Sandbox) -> None:
    def pairs() -> Iterator[tuple[Program, Suite]]:
        yield ECHO, echo(1)
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        list(box.judge_many(pairs()))
    assert box.judge(ECHO, echo(1)).accepted


def test_an_impossible_suite_is_an_error_and_the_sandbox_lives_on(box: Sandbox) -> None:
    for suite in (Suite([]), Suite([Case("", "")], checker="none of ours")):
        with pytest.raises(ValueError, match="suite|checker|none of ours"):
            list(box.judge_many([(ECHO, suite)]))
    assert box.judge(ECHO, echo(1)).accepted


INTERRUPTED = """
import os, signal, threading
from sandbox import Case, Limits, Program, Sandbox, Suite
sleep = Program("import time\\ntime.sleep(60)")
with Sandbox(workers=2) as box:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        {call}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(box.judge(Program("print(7)"), Suite([Case("", "7")])).verdict.value)
"""


@pytest.mark.parametrize(
    "call",
    [
        "box.judge(sleep, Suite([Case('', '')], limits=Limits(wall_seconds=60)))",
        "list(box.judge_many([(sleep, Suite([Case('', '')], limits=Limits(wall_seconds=1.5)))] * 2))",
    ],
    ids=["judge", "judge_many"],
)
def test_an_interrupt_gets_through_and_the_sandbox_lives_on(call: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.replace("{call}", call)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        check=False,
        timeout=50,
    )
    assert done.stdout.split() == ["interrupted", "accepted"], done.stderr


def test_many_runs_leave_nothing_that_adds_up(own: Sandbox) -> None:
    def descriptors() -> int:
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in workers())

    programs = [ECHO, Program("1 / 0"), Program("print("), Program("import os\nos.fork()\nprint(1)")]
    seen = []
    for turn in range(3):
        many = (Program(f"#{turn} {n}\n" + programs[n % 4].source) for n in range(40))
        list(own.judge_many((program, echo(1)) for program in many))
        seen.append(descriptors())
    assert max(seen[1:]) <= seen[0] + 4  # compiled programs are kept, but not all
