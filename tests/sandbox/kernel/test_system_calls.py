"""Programs may make the system calls of honest programs, and no others. The tests make a call with every number."""

import errno
import json
import os
import re
import shutil
import signal
import struct
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sandbox import Case, Limits, Outcome, Program, Sandbox, Suite
from sandbox.backends import _container
from sandbox.kernel import seccomp, system_calls

MACHINE = os.uname().machine
pytestmark = pytest.mark.skipif(MACHINE not in system_calls.NUMBERS, reason="no filter for this machine")
NUMBERS = system_calls.NUMBERS.get(MACHINE, {})
UNFILTERED = {335, 336}  # uretprobe and uprobe on x86-64: only the kernel makes them, and it kills other callers
OPEN = system_calls.ALLOWED | system_calls.NO_OP | seccomp.CONDITIONAL
LIMITS = Limits(wall_seconds=20, memory_mb=512)

TRY_CALLS = """
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
answers = {}
for number in json.loads(input()):
    pid = os.fork()
    if pid == 0:
        returned = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(0)] * 6)
        os._exit(ctypes.get_errno() if returned < 0 else 255)
    status = os.waitpid(pid, 0)[1]
    answers[number] = os.waitstatus_to_exitcode(status)
print(json.dumps(answers))
"""


def test_every_other_call_number_is_denied(box: Sandbox) -> None:
    known = {number for name, number in NUMBERS.items() if name in OPEN}
    if MACHINE == "x86_64":
        known |= UNFILTERED
    numbers = [number for number in (*range(601), 1000, 4095, 65536, 0x3FFFFFFF) if number not in known]
    result = box.run(Program(TRY_CALLS), json.dumps(numbers), LIMITS)
    assert result.outcome is Outcome.EXITED, result
    answers = {int(number): answer for number, answer in json.loads(result.stdout).items()}
    names = {number: name for name, number in NUMBERS.items()}

    def expected(number: int) -> int:
        name = names.get(number)
        if name in system_calls.KILLED:
            return -signal.SIGSYS
        if name in system_calls.DENIED | system_calls.ZYGOTE_ONLY:
            return errno.EPERM
        return errno.ENOTSUP if name in system_calls.NOT_SUPPORTED else errno.ENOSYS

    assert answers == {number: expected(number) for number in numbers}


@pytest.mark.parametrize("number", [0x40000000, 0x40000000 + 39, 0x7FFFFFFF, -1])
def test_system_calls_of_another_architecture_kill_the_program(box: Sandbox, number: int) -> None:
    source = f"import ctypes\nctypes.CDLL(None).syscall(ctypes.c_long({number}))"
    assert box.run(Program(source)).outcome is Outcome.VIOLATION


def test_the_call_numbers_match_this_machine() -> None:
    headers = {"x86_64": "x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "asm-generic/unistd.h"}
    header = Path("/usr/include") / headers[MACHINE]
    if not header.exists():
        pytest.skip("the headers of the kernel are not installed")
    found = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", header.read_text(), re.M)
    theirs = {name: int(number) for name, number in found}
    assert {name: theirs[name] for name in NUMBERS if name in theirs} == {
        name: number for name, number in NUMBERS.items() if name in theirs
    }
    assert len(theirs.keys() & NUMBERS.keys()) > len(NUMBERS) - 10  # the headers may lack the newest calls


def test_each_call_is_in_exactly_one_group() -> None:
    groups = [
        system_calls.ALLOWED,
        system_calls.ZYGOTE_ONLY,
        system_calls.NO_OP,
        system_calls.DENIED,
        system_calls.NOT_SUPPORTED,
        system_calls.KILLED,
        seccomp.CONDITIONAL,
    ]
    assert sum(map(len, groups)) == len(frozenset().union(*groups))
    for numbers in system_calls.NUMBERS.values():
        assert len(set(numbers.values())) == len(numbers)
        assert numbers.keys() <= frozenset().union(*groups)


# The filter, for both architectures.

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL, NOTIFY = 0x7FFF0000, 0x80000000, 0x7FC00000
REFUSE = 0x00050000
NO_KEY = 1  # in the sixth register; the key of an uninstalled filter is 0


def run_filter(
    machine: str, number: int, *arguments: int, notify: bool = True, memfds: bool = True, **others: Any
) -> tuple[int, int]:
    """Interpret the filter for a call; return its action and the number of executed instructions."""
    setting = seccomp.FilterSettings(allow_memfd=memfds, notify=notify, **others)
    code = list(struct.iter_unpack("HBBI", seccomp.build_filter(machine, setting)))
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    key = padded[5] or NO_KEY
    data = struct.pack("<iIQ6Q", number, ARCHITECTURES[machine], 0, *(value % 2**64 for value in (*padded[:5], key)))
    accumulator = position = steps = 0
    while True:
        operation, true, false, operand = code[position]
        position, steps = position + 1, steps + 1
        if operation == 0x20:
            accumulator = struct.unpack_from("<I", data, operand)[0]
        elif operation == 0x54:
            accumulator &= operand
        elif operation == 0x05:
            position += operand
        elif operation == 0x15:
            position += true if accumulator == operand else false
        elif operation == 0x35:
            position += true if accumulator >= operand else false
        elif operation == 0x06:
            return operand, steps
        else:
            raise AssertionError(f"unknown instruction {operation:#x}")


CONDITIONS = [
    ("fcntl", (0, 3), ALLOW),
    ("fcntl", (0, 4, 0x800), ALLOW),
    ("fcntl", (0, 4, 0x2000), REFUSE | errno.EPERM),  # O_ASYNC
    ("fcntl", (0, 6), NOTIFY),
    ("fcntl", (0, 7), NOTIFY),
    ("fcntl", (0, 37), REFUSE | errno.EINVAL),  # open file description locks
    ("fcntl", (0, 1024), REFUSE | errno.EINVAL),  # leases
    ("fcntl", (0, 1026), REFUSE | errno.EINVAL),  # notices of directories
    ("fcntl", (0, 10), REFUSE | errno.EINVAL),  # F_SETSIG
    ("fcntl", (0, 8), REFUSE | errno.EINVAL),  # F_SETOWN
    ("fcntl", (0, 1031), REFUSE | errno.EPERM),
    ("ioctl", (0, 0x5401), ALLOW),
    ("ioctl", (0, 0x5412), REFUSE | errno.ENOTTY),
    ("kill", (5, signal.SIGTERM), ALLOW),
    ("kill", (5, signal.SIGKILL), NOTIFY),
    ("kill", (5, signal.SIGSYS), REFUSE | errno.EPERM),
    ("tgkill", (2, 2, signal.SIGSYS), REFUSE | errno.EPERM),
    ("tgkill", (2, 2, signal.SIGABRT), ALLOW),
    ("rt_sigqueueinfo", (2, signal.SIGSYS), REFUSE | errno.EPERM),
    ("pidfd_send_signal", (3, signal.SIGXCPU), REFUSE | errno.EPERM),
    ("clone", (17,), NOTIFY),
    ("clone", (0x3D0F00,), NOTIFY),  # a thread
    ("clone", (0x4000 | 0x100 | 17,), NOTIFY),  # a vfork
    ("clone", (0x400 | 17,), REFUSE | errno.EPERM),  # the same descriptors in another process
    ("clone", (9,), REFUSE | errno.EPERM),
    ("clone", (0x10000000 | 17,), REFUSE | errno.EPERM),
    ("clone", (0x8000 | 17,), REFUSE | errno.EPERM),
    ("mmap", (0, 4096, 3, 0x22), ALLOW),
    ("mmap", (0, 4096, 3, 0x40022), REFUSE | errno.ENOMEM),
    ("memfd_create", (0, 1), ALLOW),
    ("memfd_create", (0, 4), REFUSE | errno.EINVAL),
    ("preadv2", (0, 0, 0, 0, 0, 8), REFUSE | errno.EOPNOTSUPP),
    ("prlimit64", (0, 0, 0, 4096), ALLOW),
    ("prlimit64", (0, 0, 1 << 32), REFUSE | errno.EPERM),
    ("prlimit64", (0, 4, 4096), REFUSE | errno.EPERM),
    ("prlimit64", (0, 3, 4096), ALLOW),
    ("prlimit64", (7, 3, 4096), REFUSE | errno.EPERM),
    ("setrlimit", (0, 4096), REFUSE | errno.EPERM),
    ("prctl", (15, 4096), ALLOW),
    ("prctl", (22, 2, 4096), REFUSE | errno.EINVAL),
    ("prctl", (0x53564D41,), REFUSE | errno.EINVAL),
    ("socket", (1, 1), ALLOW),
    ("socket", (2, 1), REFUSE | errno.EPERM),
    ("setsockopt", (3, 1, 26), REFUSE | errno.ENOPROTOOPT),  # SO_ATTACH_FILTER
    ("setsockopt", (3, 1, 16), ALLOW),
    ("mount", (), REFUSE | errno.EPERM),
    ("unshare", (0,), REFUSE | errno.EPERM),
]


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize(("name", "arguments", "answers"), CONDITIONS)
def test_the_filter_follows_the_conditions(machine: str, name: str, arguments: tuple[int, ...], answers: int) -> None:
    assert run_filter(machine, system_calls.NUMBERS[machine][name], *arguments)[0] == answers


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_without_notifications_the_filter_denies_calls_that_need_one(machine: str) -> None:
    numbers = system_calls.NUMBERS[machine]
    refused = [("fcntl", 0, 6), ("kill", 2, 9), ("kill", 0, 9), ("kill", -1, 9), ("tgkill", 5, 5), ("tkill", 5, 9)]
    answers = {
        (name, *arguments): run_filter(machine, numbers[name], *arguments, notify=False)[0]
        for name, *arguments in refused
    }
    assert answers.pop(("tgkill", 5, 5)) == ALLOW
    assert set(answers.values()) == {REFUSE | errno.EPERM}
    assert run_filter(machine, numbers["kill"], 5, 9, notify=False)[0] == ALLOW
    assert run_filter(machine, numbers["clone"], 17, notify=False)[0] == ALLOW


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_without_a_cgroup_the_filter_denies_memfds(machine: str) -> None:
    assert run_filter(machine, system_calls.NUMBERS[machine]["memfd_create"], memfds=False)[0] == REFUSE | errno.EPERM


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_filter_decides_in_few_steps(machine: str) -> None:
    steps = [run_filter(machine, number)[1] for name, number in system_calls.NUMBERS[machine].items() if name in OPEN]
    assert max(steps) < 60
    assert sum(steps) / len(steps) < 20


def run_landlock_filter(machine: str, name: str, *arguments: int, abi: int = 6, own_uid: bool = False) -> int:
    number = system_calls.NUMBERS[machine][name]
    return run_filter(machine, number, *arguments, abi=abi, has_own_uid=own_uid)[0]


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_with_landlock_the_filter_denies_accesses_that_landlock_allows(machine: str) -> None:
    decide = partial(run_landlock_filter, machine)
    refused = REFUSE | errno.EPERM
    assert {decide(name) for name in ("socket", "bind", "listen", "connect", "accept4")} == {refused}
    assert {decide(name) for name in ("fchown", "fchownat", "utimensat")} == {refused}
    pairs = {kind: decide("socketpair", 1, kind | 0o2000000) for kind in (1, 2, 3, 5)}
    assert pairs == {1: ALLOW, 2: refused, 3: refused, 5: ALLOW}
    assert decide("pidfd_open", 5) == REFUSE | errno.ENOSYS
    assert decide("prlimit64", 5, 7, 0) == refused
    assert decide("prlimit64", 0, 7, 0) == ALLOW
    assert {decide(name) for name in ("getxattr", "listxattr")} == {REFUSE | errno.ENOTSUP}
    assert decide("fchmod") == decide("fchmodat2") == REFUSE  # errno 0: a no-op
    assert decide("fchmod", own_uid=True) == decide("fchownat", own_uid=True) == ALLOW


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_with_older_landlock_versions_the_filter_denies_more(machine: str) -> None:
    decide = partial(run_landlock_filter, machine)
    refused = REFUSE | errno.EPERM
    assert [decide("truncate", abi=abi) for abi in (1, 2, 3)] == [refused, refused, ALLOW]
    assert [decide("kill", 5, 15, abi=abi) for abi in (1, 5, 6)] == [NOTIFY, NOTIFY, ALLOW]
    assert [decide("tgkill", 5, 5, 15, abi=abi) for abi in (1, 5, 6)] == [NOTIFY, NOTIFY, ALLOW]
    assert [decide("pidfd_send_signal", 5, 15, abi=abi) for abi in (1, 5, 6)] == [refused, refused, ALLOW]
    assert {decide("kill", 5, 9, abi=abi) for abi in (1, 5, 6)} == {NOTIFY}


def test_a_container_allows_the_calls_of_programs_but_none_that_kill() -> None:
    [confinement] = [
        option.removeprefix("seccomp=")
        for option in _container.make_host_config(64, apparmor=False)["SecurityOpt"]
        if option.startswith("seccomp=")
    ]
    profile = json.loads(confinement)
    allowed = {name for rule in profile["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert allowed >= OPEN | system_calls.ZYGOTE_ONLY
    assert not allowed & (system_calls.KILLED | {"io_setup", "shmget", "clone3"})


def test_a_container_has_two_processors() -> None:
    settings = _container.make_host_config(64, apparmor=False)
    assert settings["CpuQuota"] == 2 * settings["CpuPeriod"]


def test_a_program_that_kills_itself_is_signalled(box: Sandbox) -> None:
    by_thread = """
import os, threading, time
thread = threading.Thread(target=time.sleep, args=(30,), daemon=True)
thread.start()
os.kill(thread.native_id, 9)
time.sleep(30)
"""
    for source in (by_thread, "import os\nos.kill(0, 9)", "import os\nos.kill(os.getpid(), 9)"):
        result = box.run(Program(source), limits=LIMITS)
        assert (result.outcome, result.exit_code) == (Outcome.SIGNALLED, -9)


# Each prints 328350.
HONEST = {
    "pool by fork": """
import time
import multiprocessing as mp
def f(x): return x * x
if __name__ == "__main__":
    with mp.get_context("fork").Pool(3) as pool:
        print(sum(pool.map(f, range(100))))
    p = mp.get_context("fork").Process(target=time.sleep, args=(60,))
    p.start(); p.kill(); p.join()
    assert p.exitcode == -9
""",
    **{
        f"pool by {method}": f"""
import multiprocessing as mp
def f(x): return x * x
if __name__ == "__main__":
    with mp.get_context("{method}").Pool(2) as pool:
        print(sum(pool.map(f, range(100))))
"""
        for method in ("spawn", "forkserver")
    },
    "processes that talk": """
import multiprocessing as mp
def f(queue, lock, value, end):
    with lock:
        value.value += 328350
    queue.put(end.recv())
if __name__ == "__main__":
    context = mp.get_context("fork")
    ours, theirs = context.Pipe()
    queue, lock, value = context.Queue(), context.Lock(), context.Value("i", 0)
    p = context.Process(target=f, args=(queue, lock, value, theirs))
    p.start()
    ours.send([1])
    assert queue.get() == [1]
    p.join()
    print(value.value)
""",
    "executors": """
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
def f(x): return x * x
if __name__ == "__main__":
    with ThreadPoolExecutor(8) as pool:
        a = sum(pool.map(f, range(100)))
    with ProcessPoolExecutor(2) as pool:
        assert a == sum(pool.map(f, range(100)))
    print(a)
""",
    "fifty threads": """
import threading
total, lock = [0], threading.Lock()
def add(x):
    with lock:
        total[0] += x * x
threads = [threading.Thread(target=add, args=(x,)) for x in range(50)] + \
    [threading.Thread(target=add, args=(x,)) for x in range(50, 100)]
for half in (threads[:50], threads[50:]):
    for t in half: t.start()
    for t in half: t.join()
print(total[0])
""",
    "asyncio": """
import asyncio, sys
async def serve(reader, writer):
    writer.write((await reader.readline()).upper()); await writer.drain(); writer.close()
async def main():
    server = await asyncio.start_unix_server(serve, "/tmp/socket")
    reader, writer = await asyncio.open_unix_connection("/tmp/socket")
    writer.write(b"hello\\n")
    assert await reader.readline() == b"HELLO\\n"
    writer.close(); server.close()
    p = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(328350)", stdout=asyncio.subprocess.PIPE)
    out, _ = await p.communicate()
    await asyncio.wait_for(asyncio.to_thread(sum, [1]), 5)
    p = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)
    p.kill()
    assert await p.wait() == -9
    print(out.decode().strip())
asyncio.run(main())
""",
    "subprocesses": """
import subprocess, sys
try:
    subprocess.run([sys.executable, "-c", "import time; time.sleep(30)"], timeout=0.2)
    raise SystemExit("no timeout")
except subprocess.TimeoutExpired:
    pass
print(subprocess.check_output([sys.executable, "-c", "print(328350)"], start_new_session=True, text=True).strip())
""",
    "sqlite": """
import os, sqlite3
for name in (":memory:", "x.db"):
    base = sqlite3.connect(name)
    base.execute("create table t(a)")
    for x in range(100):
        base.execute("insert into t values (?)", (x * x,))
        base.commit()
    base.execute("begin"); base.execute("delete from t"); base.rollback()
other = sqlite3.connect("x.db")
assert other.execute("pragma integrity_check").fetchone() == ("ok",)
print(*other.execute("select sum(a) from t").fetchone())
""",
    "a lock on a file": """
import fcntl, os
with open("total", "w+") as file:
    file.write("0"); file.flush()
    pid = os.fork()
    for x in range(100):
        if x % 2 == (pid == 0):
            fcntl.lockf(file, fcntl.LOCK_EX)
            total = int(os.pread(file.fileno(), 99, 0)) + x * x
            os.pwrite(file.fileno(), str(total).encode(), 0)
            fcntl.lockf(file, fcntl.LOCK_UN)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    print(os.pread(file.fileno(), 99, 0).decode())
""",
    "files": """
import mmap, os, shutil, stat, tempfile
with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile() as file, tempfile.TemporaryFile() as other:
    file.write(b"328350"); file.flush(); os.fsync(file.fileno()); os.fdatasync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
    os.sync()
    shutil.copy2(file.name, folder + "/copy")
    shutil.copytree(folder, folder + "2")
    shutil.move(folder + "2/copy", folder + "/moved")
    shutil.rmtree(folder + "2")
    os.mkfifo(folder + "/pipe"); os.symlink("moved", folder + "/link"); os.link(folder + "/moved", folder + "/hard")
    os.utime(folder + "/moved", (1, 2)); os.chmod(folder + "/moved", 0o640)
    assert os.stat(folder + "/link").st_mtime == 2
    os.truncate(folder + "/hard", 6); os.chown(folder + "/hard", os.getuid(), os.getgid())
    descriptor = os.open(folder + "/moved", os.O_RDONLY)
    os.set_inheritable(descriptor, True); os.set_blocking(descriptor, True)
    assert os.preadv(descriptor, [bytearray(6)], 0) == 6
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # Python 3.14 does not resize what is shared
    with mmap.mmap(-1, 1 << 20, flags=private) as memory, mmap.mmap(file.fileno(), 6) as shared:
        memory.madvise(mmap.MADV_DONTNEED); memory.madvise(mmap.MADV_WILLNEED)
        memory[:3] = b"abc"; memory.flush(); memory.resize(2 << 20); shared.flush()
        print(shared[:].decode())
    assert os.copy_file_range(descriptor, other.fileno(), 6) == 6
    assert os.isatty(0) is False
""",
    "signals and timers": """
import faulthandler, resource, signal, time
faulthandler.enable(); faulthandler.dump_traceback_later(60); faulthandler.cancel_dump_traceback_later()
class Rang(Exception): pass
def ring(*_): raise Rang
signal.signal(signal.SIGALRM, ring)
for set_it in (lambda: signal.alarm(1), lambda: signal.setitimer(signal.ITIMER_REAL, 0.05)):
    try:
        set_it(); time.sleep(20)
    except Rang:
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); signal.raise_signal(signal.SIGUSR1)
assert signal.sigwait([signal.SIGUSR1]) == signal.SIGUSR1
hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))
resource.getrlimit(resource.RLIMIT_CPU); resource.getrusage(resource.RUSAGE_CHILDREN)
print(328350)
""",
    "a deep recursion on a stack of its own": """
import sys, threading
sys.setrecursionlimit(10**6); threading.stack_size(256 << 20)
def f(x): return x * x + f(x - 1) if x else 0
def main(): print(f(99))
t = threading.Thread(target=main); t.start(); t.join()
""",
    "ctypes": """
import ctypes
libc = ctypes.CDLL(None)
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
numbers = (ctypes.c_int * 3)(328350, 2, 1)
libc.qsort(numbers, 3, 4, compare(lambda a, b: a[0] - b[0]))
print(numbers[2])
""",
    "readings of the machine": """
import locale, os, platform, random, secrets, socket, ssl, sys, time, uuid, getpass, select, selectors
platform.platform(); os.cpu_count(); os.getloadavg() if os.path.exists("/proc/loadavg") else 0; os.uname()
os.sched_getaffinity(0); os.nice(0); os.getgroups(); os.getpriority(os.PRIO_PROCESS, 0)
uuid.uuid1(); secrets.token_bytes(); random.SystemRandom().random(); os.get_terminal_size if 0 else 0
selectors.DefaultSelector().close(); select.epoll().close(); time.sleep(0.01); time.process_time()
a, b = socket.socketpair(); a.settimeout(1); a.sendall(b"x"); b.recv(1); b.shutdown(socket.SHUT_RDWR)
r, w = os.pipe2(os.O_CLOEXEC); os.dup2(r, w); os.eventfd(1); os.memfd_create("x"); os.pidfd_open(os.getpid())
print(328350)
""",
    "numpy": """
import numpy as np
a = np.arange(100)
m = np.random.default_rng(1).random((60, 60))
assert np.allclose(np.linalg.inv(m) @ m, np.eye(60), atol=1e-6)
np.linalg.svd(m); np.linalg.eigvalsh(m @ m.T); np.fft.fft(a); np.save("x.npy", a); np.load("x.npy", mmap_mode="r")
print(int((a * a).sum()))
""",
}


@pytest.mark.parametrize("source", HONEST.values(), ids=HONEST)
def test_an_honest_program_is_accepted(box: Sandbox, source: str) -> None:
    if "numpy" in source:
        pytest.importorskip("numpy")
    judgement = box.judge(Program(source), Suite([Case("", "328350\n")], limits=LIMITS))
    assert judgement.accepted, judgement


HONEST_CPP = {
    "threads": """
#include <atomic>
#include <future>
#include <iostream>
#include <mutex>
#include <condition_variable>
#include <thread>
#include <vector>
int main() {
    std::atomic<long> total{0};
    std::vector<std::thread> threads;
    for (int x = 0; x < 50; x++) threads.emplace_back([&, x] { total += x * x; });
    for (auto& thread : threads) thread.join();
    auto rest = std::async(std::launch::async, [] { long s = 0; for (int x = 50; x < 100; x++) s += x * x; return s; });
    std::mutex m; std::condition_variable c; bool ready = false;
    std::thread t([&] { std::lock_guard<std::mutex> l(m); ready = true; c.notify_all(); });
    { std::unique_lock<std::mutex> l(m); c.wait(l, [&] { return ready; }); }
    t.join();
    thread_local int local = 0;
    std::cout << total + rest.get() + local << std::endl;
}""",
    "files, clocks and random numbers": """
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>
namespace fs = std::filesystem;
int main() {
    std::random_device device;
    std::mt19937 random(device() ^ std::chrono::steady_clock::now().time_since_epoch().count());
    fs::create_directories("a/b");
    std::ofstream("a/b/c") << 328350;
    fs::copy("a", "d", fs::copy_options::recursive);
    fs::copy_file("a/b/c", "e"); fs::rename("e", "f"); fs::resize_file("f", 6);
    fs::last_write_time("f", fs::file_time_type::clock::now()); fs::permissions("f", fs::perms::owner_all);
    fs::create_symlink("f", "g"); fs::space("."); fs::canonical("g"); fs::remove_all("a");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    FILE* file = tmpfile(); fputs("x", file); rewind(file); if (fgetc(file) != 'x') return 1;
    std::signal(SIGTERM, SIG_IGN); std::raise(SIGTERM);
    long n; std::ifstream("d/b/c") >> n;
    for (auto& entry : fs::recursive_directory_iterator(".")) if (!entry.exists()) return 1;
    try { throw std::runtime_error("x"); } catch (std::exception&) { std::cout << n << std::endl; }
}""",
    "processes": """
#include <cstdio>
#include <cstdlib>
#include <csignal>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
int main() {
    int ends[2]; if (pipe(ends)) return 1;
    long* shared = (long*)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork();
    if (pid == 0) { *shared = 328350; if (write(ends[1], "x", 1) != 1) return 1; pause(); }
    char c; if (read(ends[0], &c, 1) != 1) return 1;
    kill(pid, SIGKILL);
    int status; waitpid(pid, &status, 0); if (!WIFSIGNALED(status)) return 1;
    rlimit stack; getrlimit(RLIMIT_STACK, &stack); stack.rlim_cur = stack.rlim_max; setrlimit(RLIMIT_STACK, &stack);
    char* large = (char*)malloc(100 << 20); large[50 << 20] = 1; large = (char*)realloc(large, 200 << 20); free(large);
    printf("%ld\\n", *shared);
}""",
}


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
@pytest.mark.parametrize("source", HONEST_CPP.values(), ids=HONEST_CPP)
def test_an_honest_compiled_program_is_accepted(box: Sandbox, source: str) -> None:
    judgement = box.judge(Program(source, "cpp"), Suite([Case("", "328350\n")], limits=LIMITS))
    assert judgement.accepted, judgement


WITH_A_THREAD = """
import fcntl, os, threading, time

def lock(file, kind):
    try:
        fcntl.lockf(file, kind | fcntl.LOCK_NB)
        return "taken"
    except OSError as error:
        return os.strerror(error.errno)

threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
print(lock(open(os.__file__), fcntl.LOCK_SH))
file = open("file", "w")
print(lock(file, fcntl.LOCK_EX), flush=True)
if os.fork() == 0:
    print(lock(file, fcntl.LOCK_EX), flush=True)
    os._exit(0)
os.wait()
os._exit(0)
"""


def test_multithreaded_processes_take_no_visible_locks(box: Sandbox) -> None:
    assert box.run(Program(WITH_A_THREAD)).stdout.decode().split("\n")[:3] == ["No locks available", "taken", "taken"]
