"""Without namespaces, each run is in a Landlock domain of its own: for an ordinary user, and in containers."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from batch import ADDS, HARMLESS
from confined import CONTAINER, PLACES, ROOT, ROOT_OF_CONTAINER, USER, command, install, judged
from hostile import attacks
from waiting import becomes

from sandbox import Case, Limits, Outcome, Program, Sandbox, Suite
from sandbox.conformance import CHECKS

ATTACKS = {f"{language}: {name}": pair for language in ("python", "cpp") for name, pair in attacks(language).items()}
THEFTS = [name for name in ATTACKS if name.startswith("python: expected_")]
SOME = [
    f"python: {name}"
    for name in """everything_in_sight_is_killed own_group_is_killed ptrace process_vm_readv sockets_to_anywhere
    message_by_file message_by_abstract_socket message_by_file_time message_by_lock_on_a_library memory_in_files
    daemon_outlives_the_program late_asleep_in_another_session fork_bomb fork_relay thread_bomb privileges
    disk_of_deep_folders disk_of_many_files verdict_by_the_signal_of_the_filter files_of_the_interpreter
    the_key_of_the_zygote""".split()
]
OTHERS = [name for name in ATTACKS if name not in THEFTS + SOME]
# What does not hold at this level; docs/concepts/isolation.md has a line for each.
EXISTENCE = "whether a file of the machine exists can be asked"
PIDS = "pids are those of the machine, and tell how many processes it has started"
SCRATCH = "the program's directory has another name than /tmp, which the attack expects"
NOT_HELD = {
    USER: {
        "python: device_nodes": EXISTENCE,
        "python: files_of_the_host": EXISTENCE,
        "cpp: files_of_the_host": EXISTENCE,
        "python: files_of_the_interpreter": SCRATCH,
        "python: set_user_id_file": "a change of mode succeeds without doing anything",
    },
    CONTAINER: {"python: kernel_settings": "what Docker hides below /proc is /dev/null, which may be opened"},
    ROOT_OF_CONTAINER: {
        "python: set_user_id_file": "it belongs to the program's own user, and nobody else can reach it"
    },
}
NOT_HELD[CONTAINER] |= NOT_HELD[USER]
EVERYWHERE = {
    "python: message_by_process_count": PIDS,
    "cpp: only_own_processes_in_proc": PIDS,
    "python: only_own_processes_in_proc": "there is no /proc",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[Sandbox, int]]:
    before = children(os.getpid())
    with Sandbox(workers=1, levels=("landlock",)) as box:
        [worker] = set(children(os.getpid())).difference(before)
        yield box, worker


@pytest.fixture
def confined(started: tuple[Sandbox, int]) -> Sandbox:
    return started[0]


@pytest.fixture
def worker(started: tuple[Sandbox, int]) -> int:
    return started[1]


def escaped(place: str, installed: Path, names: list[str]) -> set[str]:
    """Return the attacks that were accepted in such a place. Each is followed by a program that must be right."""
    pairs = [pair for name in names for pair in (ATTACKS[name], (ADDS, HARMLESS))]
    answers = judged(place, installed, pairs)
    assert {verdict for answer in answers[1::2] for verdict, _ in answer} == {"accepted"}
    verdicts = dict(zip(names, ({verdict for verdict, _ in answer} for answer in answers[::2]), strict=True))
    return {name for name, seen in verdicts.items() if "accepted" in seen}


def test_an_expected_output_cannot_be_read_in_the_memory_of_the_caller(installed: Path) -> None:
    assert not escaped(USER, installed, THEFTS)


def test_attacks_fail_where_nobody_has_privileges(installed: Path) -> None:
    assert escaped(USER, installed, SOME) <= NOT_HELD[USER].keys()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("place", "names"), [(USER, OTHERS), (CONTAINER, ATTACKS), (ROOT_OF_CONTAINER, ATTACKS)], ids=PLACES
)
def test_all_attacks_fail_except_those_that_are_named(place: str, names: Iterable[str], installed: Path) -> None:
    assert escaped(place, installed, list(names)) <= NOT_HELD[place].keys() | EVERYWHERE.keys()


@pytest.mark.parametrize(
    "place", [USER, *(pytest.param(place, marks=pytest.mark.thorough) for place in (CONTAINER, ROOT_OF_CONTAINER))]
)
def test_programs_get_the_same_verdicts_as_in_namespaces(place: str, installed: Path) -> None:
    answers = judged(place, installed, [(check.program, check.suite) for check in CHECKS])
    failed = {
        check.name: answer
        for check, answer in zip(CHECKS, answers, strict=True)
        if answer[-1][0] not in {verdict.value for verdict in check.expected}
    }
    assert not failed


# Everything that a program of the same user could reach by a path or a number, if it were not refused.
REACHES = """
import ctypes, os, signal, socket
won = []
def attempt(name, action):
    try:
        action()
    except OSError:
        return
    won.append(name)
folder, caller = FOLDER, CALLER
victim = folder + "/victim"
for pid in (caller, os.getppid()):
    for number in (0, signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
        attempt("kill", lambda: os.kill(pid, number))
        attempt("send by pidfd", lambda: signal.pidfd_send_signal(os.pidfd_open(pid), number))
    attempt("look into its limits", lambda: __import__("resource").prlimit(pid, 7))
    for name in ("environ", "mem", "maps", "cmdline", "stat", "fd/0", "root/etc/passwd"):
        attempt(name, lambda: open(f"/proc/{pid}/{name}", "rb").read(1))
    for name in ("exe", "cwd", "ns/mnt"):
        attempt(name, lambda: os.readlink(f"/proc/{pid}/{name}"))
for path in (victim, "/proc/self/fd/%d" % os.open(victim, os.O_PATH) if os.path.exists(victim) else victim):
    attempt("read", lambda: open(path).read())
    attempt("write", lambda: open(path, "a"))
    attempt("truncate", lambda: os.truncate(path, 1))
    attempt("truncate by opening", lambda: os.open(path, os.O_RDONLY | os.O_TRUNC))
    attempt("times", lambda: os.utime(path))
    attempt("owner", lambda: os.chown(path, os.getuid(), os.getgid()))
    attempt("attribute", lambda: os.setxattr(path, "user.x", b"1"))
    attempt("attributes", lambda: os.listxattr(path))
    attempt("remove", lambda: os.unlink(path))
    attempt("move", lambda: os.rename(path, "moved"))
    attempt("link", lambda: os.link(path, "linked"))
    attempt("execute", lambda: os.posix_spawn(path, [path], {}))
    try:
        os.chmod(path, 0)
    except OSError:
        pass
os.symlink(victim, "link")
attempt("follow a link", lambda: open("link").read())
for name in (folder, "/", "/proc", "/etc", "/usr/bin/.."):
    attempt("list " + name, lambda: os.listdir(name))
attempt("make a folder", lambda: os.mkdir(folder + "/new"))
attempt("make a fifo", lambda: os.mkfifo(folder + "/new"))
attempt("make a link", lambda: os.symlink("x", folder + "/new"))
attempt("make a file", lambda: open(folder + "/new", "w"))
attempt("shell", lambda: os.posix_spawn("/bin/sh", ["sh", "-c", ":"], {}))
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    attempt("socket", lambda: socket.socket(socket.AF_UNIX, kind))
for ends in (socket.socketpair(), socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)):
    for end in ends:
        attempt("connect", lambda: end.connect(folder + "/socket"))
        attempt("bind", lambda: end.bind("\\0name"))
        try:
            end.sendto(b"x", folder + "/datagrams")
        except OSError:
            pass
print(won)
"""


@pytest.mark.parametrize("abi", [1, 3, 5, 7])
def test_nothing_of_the_same_user_can_be_reached_whatever_the_version_of_landlock(
    abi: int, installed: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("content")
    for path, mode in ((victim, 0o666), (tmp_path, 0o777)):
        path.chmod(mode)
    datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    stream = socket.socket(socket.AF_UNIX)
    with datagrams, stream:
        for each, name in ((datagrams, "datagrams"), (stream, "socket")):
            each.bind(str(tmp_path / name))
            (tmp_path / name).chmod(0o777)
        stream.listen()
        stream.setblocking(False)
        datagrams.setblocking(False)
        before = victim.stat()
        source = REACHES.replace("FOLDER", repr(str(tmp_path))).replace("CALLER", str(os.getpid()))
        suite = Suite([Case("", "[]")], limits=Limits(wall_seconds=20))
        assert judged(USER, installed, [(Program(source), suite)], abi=abi) == [[("accepted", "")]]
        assert victim.stat() == before
        assert victim.read_text() == "content"
        assert len(list(tmp_path.iterdir())) == 3
        for each in (datagrams, stream):
            with pytest.raises(BlockingIOError):
                each.recv(1) if each is datagrams else each.accept()


DAEMONS = """
import ctypes, os, signal, time
for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
for _ in range(8):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(1, 0)
            while True:
                time.sleep(100)
        os._exit(0)
"""
# Leaves names that no honest program has where a run can: its files, its processes, its arguments.
NAMES = """
import ctypes, os, time
name = "".join(map(chr, CODES))
libc = ctypes.CDLL(None)
for place in (name, "folder/" + name, "folder/deep/" + name):
    os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
    open(place, "w").write(name)
if os.fork():
    libc.prctl(15, name[:15].encode())
    os.symlink(name, "link")
    time.sleep(0.3)
    os.wait()
else:
    libc.prctl(15, name[:15].encode())
    time.sleep(0.2)
    os._exit(0)
"""


def children(pid: int) -> list[int]:
    try:
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:  # it is gone
        return []


def descendants(pid: int) -> list[int]:
    return [each for child in children(pid) for each in (child, *descendants(child))]


def test_no_process_of_a_run_stays(confined: Sandbox, worker: int) -> None:
    before = descendants(worker)
    for source in (DAEMONS, "import os\nwhile True:\n    if os.fork(): os._exit(0)"):
        assert confined.run(Program(source)).outcome is Outcome.EXITED
        assert descendants(worker) == before


@pytest.mark.quiet
def test_a_fork_bomb_is_ended_at_its_limit(confined: Sandbox, worker: int) -> None:
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    before = descendants(worker)
    started = time.monotonic()
    assert confined.run(Program(bomb), limits=Limits(wall_seconds=1)).outcome is Outcome.TIMED_OUT
    assert time.monotonic() - started < 30
    assert descendants(worker) == before


def test_processes_and_threads_are_counted_for_each_run_alone(installed: Path) -> None:
    source = (
        "import os, sys, threading, time\n"
        "for _ in range(50):\n    os.waitpid(os.fork() or os._exit(0), 0)\n"  # those that have ended do not count
        "try:\n    for n in range(100): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "except RuntimeError: print(n, flush=True)\n"
        "os._exit(0)\n"
    )
    suite = Suite([Case("", "9")], limits=Limits(processes=10))
    assert judged(USER, installed, [(Program(source), suite)]) == [[("accepted", "")]]


def test_memory_that_is_refused_without_a_cgroup_counts_if_the_program_fails(installed: Path) -> None:
    """With a cgroup, the kernel kills the first of them."""
    limits = Limits(memory_mb=256)
    sources = [
        "x = bytearray(2 << 30)",
        "x = bytearray(b'x') * (500 << 20)",
        "try: x = bytearray(2 << 30)\nexcept MemoryError: print(1)",
        "1 / 0",
    ]
    verdicts = ["memory_limit", "memory_limit", "accepted", "runtime_error"]
    answers = judged(USER, installed, [(Program(each), Suite([Case("", "1\n")], limits=limits)) for each in sources])
    assert [verdict for [(verdict, _)] in answers] == verdicts


def test_what_a_run_leaves_is_gone_when_its_zygote_is_lost(confined: Sandbox, worker: int) -> None:
    """The zygote is killed while a run has processes in sessions of their own."""
    assert confined.judge(ADDS, HARMLESS).accepted
    before = set(descendants(worker))
    killed: list[int] = []

    def kill_a_zygote() -> None:
        while not killed:
            for zygote in children(worker):
                if len(descendants(zygote)) > 8:
                    os.kill(zygote, signal.SIGKILL)
                    killed.append(zygote)

    killing = threading.Thread(target=kill_a_zygote)
    killing.start()
    result = confined.run(Program(DAEMONS + "time.sleep(1)"), limits=Limits(wall_seconds=20))
    killing.join()
    assert result.outcome is Outcome.EXITED  # it was repeated with another zygote
    assert len(set(descendants(worker)) - before) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read the memory of a zygote")
def test_names_that_a_run_has_chosen_stay_out_of_the_memory_that_later_runs_inherit(
    confined: Sandbox, worker: int
) -> None:
    name = "kqzv" + os.urandom(4).hex()
    source = NAMES.replace("CODES", str(list(map(ord, name))))
    assert confined.run(Program(source)).outcome is Outcome.EXITED
    zygotes = [pid for pid in children(worker) if b"jail.zygote" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert zygotes
    for zygote in zygotes:
        assert name.encode() not in memory_of(zygote)


def memory_of(pid: int) -> bytes:
    """Return the memory that a fork of a process would inherit."""
    parts = []
    with open(f"/proc/{pid}/smaps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            words = line.split()
            if "-" in words[0]:
                start, end = (int(part, 16) for part in words[0].split("-"))
                is_writable = words[1].startswith("rw")
            elif words[0] == "VmFlags:" and is_writable and "dc" not in words:
                memory.seek(start)
                parts.append(memory.read(end - start))
    return b"".join(parts)


HIDES = """
import os
os.makedirs("a/b/c")
open("a/b/c/file", "w").close()
os.chmod("a/b", 0)
os.umask(0o777)
os.mkdir("unreadable")
"""
LISTS = Program("import os\nprint(os.listdir('.'))")


def test_files_of_a_run_are_bounded_and_gone_after_it(confined: Sandbox) -> None:
    grows = "import time\nfor n in range(100):\n    open(str(n), 'wb').write(bytes(10**6))\n    time.sleep(0.01)"
    assert confined.run(Program(grows), limits=Limits(disk_mb=20)).outcome is Outcome.OUT_OF_MEMORY
    assert confined.run(Program(HIDES)).outcome is Outcome.EXITED
    assert confined.run(LISTS).stdout == b"['solution.py']\n"


def test_files_that_a_run_has_made_unreadable_are_gone_for_an_ordinary_user_too(installed: Path) -> None:
    pairs = [(Program(HIDES), Suite([Case("", "")])), (LISTS, Suite([Case("", "['solution.py']")]))]
    assert judged(USER, installed, pairs, workers=1) == [[("accepted", "")], [("accepted", "")]]


def test_nothing_stays_when_the_caller_is_killed(installed: Path) -> None:
    script = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from sandbox import Sandbox, Program, Limits\n"
        "box = Sandbox(workers=1, levels=('landlock',))\n"
        f"box.run(Program({DAEMONS!r}))\n"
        "print('begun', flush=True)\n"
        f"box.run(Program({DAEMONS + 'time.sleep(100)'!r}), limits=Limits(wall_seconds=100))\n"
    )
    arguments = [*command(USER, installed), "-c", script, str(installed)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == b"begun\n"
        while len(family := descendants(caller.pid)) < 12:
            time.sleep(0.01)
        caller.kill()
    assert becomes(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in family))


@pytest.mark.thorough
def test_many_hostile_runs_leave_nothing(confined: Sandbox) -> None:
    before = descendants(os.getpid())
    for number in range(150):
        source = (DAEMONS, "import os\nfor _ in range(30):\n    os.fork()", "import os\nwhile os.fork() == 0: pass")
        confined.run(Program(source[number % 3]), limits=Limits(wall_seconds=0.3, processes=30))
    assert confined.judge(ADDS, HARMLESS).accepted
    assert len(descendants(os.getpid())) == len(before)  # a zygote that was too slow has a successor by now


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_where_nothing_may_be_executed_the_refusal_names_another_folder(tmp_path: Path) -> None:
    starts = "from sandbox import Sandbox; Sandbox(workers=1, levels=('landlock',)).layers"
    mounts = f'mount -t tmpfs -o noexec none {tmp_path} && TMPDIR={tmp_path} exec {sys.executable} -c "{starts}"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mounts], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert f"{tmp_path} is mounted noexec; type: export TMPDIR=" in done.stderr
