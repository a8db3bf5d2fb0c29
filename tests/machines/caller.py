"""A process that uses the sandbox, started by scenarios.py in a unit or session. Prints what it sees as JSON lines.

caller.py ACTION, where ACTION is the name of a function below
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from sandbox import Case, Limits, Program, Sandbox, SandboxError, Suite, machine

_LONG = Limits(wall_seconds=60)  # the emulator is twenty times slower than the processor
_CONTAINED = {"wrong_answer", "runtime_error", "memory_limit", "time_limit"}
_SUM = Program("print(sum(map(int, input().split())))")
_CHILDREN = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        kept = bytearray(b"x" * (100 << 20))
        time.sleep(20)
        os._exit(0)
for _ in range(8): os.wait()
"""
_BOMB = """
import os, time
end = time.monotonic() + 2
while time.monotonic() < end:
    try: os.fork()
    except OSError: time.sleep(0.1)
print("contained")
"""
_BOMB_CPP = """
#include <cstdio>
#include <ctime>
#include <unistd.h>
int main() {
    for (time_t end = time(nullptr) + 2; time(nullptr) < end;)
        if (fork() < 0) usleep(100'000);
    puts("contained");
}
"""
_THREADS = """
#include <cstdio>
#include <thread>
#include <vector>
int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([] { for (volatile long n = 0; n < 100'000'000; n = n + 1); });
    for (auto &thread : threads) thread.join();
    puts("7");
}
"""
# name -> (program, limits, verdicts of which it must get one)
_PROGRAMS = {
    "accepted": (_SUM, _LONG, {"accepted"}),
    "endless loop": (Program("while True: pass"), Limits(wall_seconds=3), {"time_limit"}),
    "2 GB": (Program("kept = b'x' * (2 << 30)"), _LONG, {"memory_limit"}),
    "8 children of 100 MB": (Program(_CHILDREN), _LONG, {"memory_limit"}),
    "fork bomb": (Program(_BOMB), _LONG, _CONTAINED),
    "fork bomb in C++": (Program(_BOMB_CPP, "cpp"), _LONG, _CONTAINED),
    "endless output": (Program("while True: print('x' * 1000)"), _LONG, {"output_limit"}),
    "accepted again": (_SUM, _LONG, {"accepted"}),
}
_BUSY = {
    "four busy threads": (Program(_THREADS, "cpp"), _LONG, {"accepted"}),
    "endless loops in four processes": (
        Program("import os\nos.fork(); os.fork()\nwhile True: pass"),
        Limits(wall_seconds=3),
        {"time_limit"},
    ),
    "accepted": (_SUM, _LONG, {"accepted"}),
}


def verdicts() -> None:
    """Judge one program of each kind."""
    with Sandbox(workers=1) as box:
        _say(layers=box.layers)
        _judge(box, _PROGRAMS)


def killed_zygotes() -> None:
    """Judge after the zygotes were killed, after all in their cgroup was, and while they are killed."""
    with Sandbox(workers=1) as box:
        _judge(box, {"accepted": _PROGRAMS["accepted"]})
        for pid in _zygotes():
            os.kill(pid, signal.SIGKILL)
        _judge(box, {"zygotes killed": _PROGRAMS["accepted"]})
        for pid in _zygotes()[:1]:
            (_cgroup(pid) / "cgroup.kill").write_text("1")
        _judge(box, {"cgroup killed": _PROGRAMS["accepted"]})
        sleeper = Program("import time\ntime.sleep(5)\nprint(7)")
        thread = threading.Thread(target=_judge, args=(box, {"killed during the run": (sleeper, _LONG, {"accepted"})}))
        thread.start()
        time.sleep(3)
        for pid in _zygotes():
            os.kill(pid, signal.SIGKILL)
        thread.join()
        _say(layers=box.layers, cgroup=str(_cgroup(_zygotes()[0])))


def without_cpu() -> None:
    """Judge busy programs after the cpu controller was taken from the runs, and after systemd has reloaded."""
    with Sandbox(workers=1) as box:
        _judge(box, _BUSY)
        cgroup = _cgroup(_zygotes()[0])
        (cgroup.parent / "cgroup.subtree_control").write_text("-cpu")
        assert not (cgroup / "cpu.max").exists()
        _judge(box, {f"{name}, without cpu": rest for name, rest in _BUSY.items()})
        subprocess.run(["systemd-run", "--quiet", "--wait", "-p", "CPUQuota=50%", "true"], check=True)
        subprocess.run(["systemctl", "daemon-reload"], check=True)
        _judge(box, {f"{name}, after daemon-reload": rest for name, rest in _BUSY.items()})


def processors() -> None:
    """Print how many processors there are."""
    _say(processors=machine.count_cpus())


def busy() -> None:
    """Keep two workers busy until killed."""
    _run_two("while True: pass", warm=True)


def forks() -> None:
    """Have each of two programs make as many processes as it can."""
    _run_two("import os, time\ntry:\n    while os.fork(): pass\nexcept OSError: pass\ntime.sleep(30)")


def holds() -> None:
    """Have each of two programs hold 400 MB for a while."""
    _run_two("kept = b'x' * (400 << 20)\nimport time\ntime.sleep(10)\nprint(7)")


def stays() -> None:
    """Run a program with five children until killed."""
    _run_two("import os, time\nfor _ in range(5): os.fork() or time.sleep(600)\ntime.sleep(600)", warm=True)


def _run_two(source: str, *, warm: bool = False) -> None:
    """Judge the same program in two workers. warm: have both judge another one before."""
    limits = Limits(wall_seconds=600, cpu_seconds=600)
    program = {"program": (Program(source), limits, {"accepted"})}
    with Sandbox(workers=2) as box:
        _say(layers=box.layers)
        for programs in [{"accepted": _PROGRAMS["accepted"]}] * warm + [program]:
            threads = [threading.Thread(target=_judge, args=(box, programs)) for _ in range(2)]
            for thread in threads:
                thread.start()
            if programs is program:
                time.sleep(5)
                _say(running=True)
            for thread in threads:
                thread.join()


def _judge(box: Sandbox, programs: dict[str, tuple[Program, Limits, set[str]]]) -> None:
    for name, (program, limits, expected) in programs.items():
        started = time.monotonic()
        try:
            judgement = box.judge(program, Suite([Case("3 4\n", "7\n")], checker="tokens", limits=limits))
            verdict, detail = judgement.verdict.value, judgement.cases[-1].detail
        except SandboxError as error:
            verdict, detail = type(error).__name__, str(error)
        seconds = round(time.monotonic() - started, 1)
        _say(program=name, verdict=verdict, detail=detail[-300:], seconds=seconds, right=verdict in expected)


def _say(**values: Any) -> None:
    print(json.dumps(values) + "\n", end="", flush=True)


def _zygotes() -> list[int]:
    """Return the zygotes of our workers: grandchildren of this process in pid namespaces of their own."""
    workers = _children(os.getpid())
    ours = os.readlink("/proc/self/ns/pid")
    return [pid for worker in workers for pid in _children(worker) if os.readlink(f"/proc/{pid}/ns/pid") != ours]


def _children(parent: int) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{parent}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            children += map(int, (task / "children").read_text().split())
    return children


def _cgroup(pid: int) -> Path:
    return Path("/sys/fs/cgroup" + Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::"))


if __name__ == "__main__":
    {each.__name__: each for each in (verdicts, killed_zygotes, without_cpu, processors, busy, forks, holds, stays)}[
        sys.argv[1]
    ]()
