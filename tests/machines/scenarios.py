"""What must hold on a machine with systemd and cgroup v2. Runs in the guest, as root; see run.py.

scenarios.py [WORD...]    the scenarios whose name has one of the words; all without
"""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

_CGROUPS = Path("/sys/fs/cgroup")
_CALLER = [sys.executable, str(Path(__file__).with_name("caller.py"))]
_ENVIRONMENT = ["env", f"PYTHONPATH={Path(__file__).parents[1]}"]
_UNIT = "caller.service"
_SERVICE = ["systemd-run", "--quiet", "--wait", "--pipe", "--collect", f"--unit={_UNIT}"]
_SCOPE = ["systemd-run", "--quiet", "--collect", "--scope", "--unit=caller.scope"]
_SECONDS = 900  # until a caller is killed
_LEFT_SECONDS = 20

Words = list[str]


def _as_user(*prefix: str) -> Callable[[Words], Words]:
    """Return what makes a command one of a user's login shell, with a user manager."""
    return lambda command: ["su", "-", "user", "-c", shlex.join([*prefix, *command])]


_WITHOUT_CGROUP = "user, no user manager"  # the only way that has none, see docs/concepts/isolation.md

# How a caller is started -> the command for it.
WAYS: dict[str, Callable[[Words], Words]] = {
    "root, service with Delegate": lambda command: [*_SERVICE, "-p", "Delegate=yes", *command],
    "root, service": lambda command: [*_SERVICE, *command],
    "root, scope": lambda command: [*_SCOPE, *command],
    "root, login": lambda command: ["su", "-", "-c", shlex.join(command)],
    "user, service with Delegate": lambda command: [*_SERVICE, "-p", "Delegate=yes", "--uid=user", *command],
    "user, scope with Delegate": _as_user(*_SCOPE, "--user", "-p", "Delegate=yes"),
    "user, scope": _as_user(*_SCOPE, "--user"),
    "user, login": _as_user(),
    _WITHOUT_CGROUP: lambda command: [
        *("sh", "-c", 'systemctl stop user@1000.service && exec "$@"', "sh"),
        *("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "env", "-u", "XDG_RUNTIME_DIR"),
        *command,
    ],
}


class Report:
    """What one scenario has shown."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.wrong: list[str] = []

    def check(self, holds: bool, seen: str) -> None:
        (self.seen if holds else self.wrong).append(seen)

    def check_line(self, line: dict[str, Any]) -> None:
        """Check the verdict that a caller has printed, if it is one."""
        if "program" in line:
            detail = "" if line["right"] else f" {line['detail']}"
            self.check(line["right"], f"{line['program']}: {line['verdict']}, {line['seconds']} s{detail}")
        elif "words" in line:
            self.wrong.append(line["words"])

    def check_layers(self, layers: dict[str, str], *, cgroup: bool) -> None:
        """Check that cgroup v2 sets all limits or, if this may be, that the layers say why not and what to do."""
        ways = {layers[name] for name in ("memory", "number of processes", "processors")}
        has_remedy = any(word in layers["memory"] for word in ("type:", "start it", "Start the sandbox", "install"))
        self.check(ways == {"cgroup v2"} or (has_remedy and not cgroup), f"limits: {' / '.join(sorted(ways))}")


class Caller:
    """A running caller.py. Iterate for the lines that it prints; a context that kills what is left of it."""

    def __init__(self, way: Callable[[Words], Words], action: str) -> None:
        command = way([*_ENVIRONMENT, *_CALLER, action])
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._timer = threading.Timer(_SECONDS, kill_callers)
        self._timer.start()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        assert self._process.stdout is not None
        words = ""
        for line in self._process.stdout:
            try:
                yield json.loads(line)
            except ValueError:  # a traceback, for example
                words += line
        status = self._process.wait()
        if words or status:
            yield {"words": f"exit status {status}: {words[-600:]}"}

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        kill_callers()
        self._timer.cancel()
        self._process.kill()
        self._process.wait()


def kill_callers() -> None:
    for pid in processes():
        with contextlib.suppress(OSError):
            if str(_CALLER[1]).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)


def processes() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdecimal()}


def cgroups() -> set[Path]:
    return {Path(folder) for folder, _, _ in os.walk(_CGROUPS)}


class Made:
    """The cgroups that were made since this object was: those of a caller, and of all that it has started."""

    def __init__(self) -> None:
        self._before = cgroups()

    def sum(self, file: str, word: int = 0) -> int:
        """Return the sum of a number in a file of each of the cgroups, which counts what is below."""
        total = 0
        for folder in cgroups() - self._before:
            if folder.parent in self._before:
                with contextlib.suppress(OSError):
                    total += int((folder / file).read_text().split()[word])
        return total


def left(before: set[int]) -> list[str]:
    """Return the cgroups and processes of callers and sandboxes that are left."""
    found = [str(folder) for folder in cgroups() if folder.name.startswith("curate-")]
    for pid in processes() - before:
        with contextlib.suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            if os.path.exists(f"/proc/{pid}/exe") and not name.startswith(("systemd", "(sd", "dbus", "agetty")):
                found.append(f"process {pid} {name}")
    return found


def check_nothing_left(report: Report, before: set[int]) -> None:
    started = time.monotonic()
    while (found := left(before)) and time.monotonic() < started + _LEFT_SECONDS:
        time.sleep(0.1)
    seconds = time.monotonic() - started
    report.check(not found, f"after {seconds:.1f} s, {', '.join(found) or 'nothing'} is left")


def verdicts(report: Report, way: str) -> None:
    with Caller(WAYS[way], "verdicts") as caller:
        for line in caller:
            if "layers" in line:
                report.check_layers(line["layers"], cgroup=way != _WITHOUT_CGROUP)
            report.check_line(line)


def limited(*properties: str, delegate: bool) -> Callable[[Words], Words]:
    options = [word for each in (*properties, *["Delegate=yes"] * delegate) for word in ("-p", each)]
    return lambda command: [*_SERVICE, *options, *command]


def until_running(caller: Caller, report: Report, *, cgroup: bool) -> bool:
    """Read lines until programs run; return False if the caller has ended before."""
    for line in caller:
        if "running" in line:
            return True
        if "layers" in line:
            report.check_layers(line["layers"], cgroup=cgroup)
        report.check_line(line)
    return False


def quota(report: Report, *, delegate: bool) -> None:
    made = Made()
    with Caller(limited("CPUQuota=50%", delegate=delegate), "busy") as caller:
        if until_running(caller, report, cgroup=delegate):
            started, used = time.monotonic(), made.sum("cpu.stat", 1)
            time.sleep(20)
            seconds = time.monotonic() - started
            share = (made.sum("cpu.stat", 1) - used) / 1e6 / seconds
            report.check(0.2 < share < 0.6, f"{share:.0%} of a processor is used")


def tasks(report: Report, *, delegate: bool) -> None:
    made = Made()
    most = _most(report, made, "pids.current", limited("TasksMax=60", delegate=delegate), "forks", cgroup=delegate)
    report.check(0 < most <= 60, f"at most {most} tasks")


def memory(report: Report, *, delegate: bool) -> None:
    made = Made()
    way = limited("MemoryMax=700M", "MemorySwapMax=0", delegate=delegate)
    most = _most(report, made, "memory.current", way, "holds", cgroup=delegate) >> 20
    report.check(0 < most <= 705, f"at most {most} MB")


def _most(report: Report, made: Made, file: str, way: Callable[[Words], Words], action: str, *, cgroup: bool) -> int:
    """Return the highest value of the file while a caller does something."""
    most = 0
    ended = threading.Event()

    def look() -> None:
        nonlocal most
        while not ended.wait(0.1):
            most = max(most, made.sum(file))

    watcher = threading.Thread(target=look)
    watcher.start()
    with Caller(way, action) as caller:
        for line in caller:
            if "layers" in line:
                report.check_layers(line["layers"], cgroup=cgroup)
            elif line.get("verdict") == "memory_limit" and action == "holds":
                report.wrong.append(f"a program below its limit got {line['verdict']}")
            else:
                report.seen.append(
                    str(line.get("verdict") or line.get("words", "running")) + " " + line.get("detail", "")
                )
    ended.set()
    watcher.join()
    return most


def killed_zygotes(report: Report, way: str) -> None:
    with Caller(WAYS[way], "killed_zygotes") as caller:
        for line in caller:
            if "layers" in line:
                report.check_layers(line["layers"], cgroup=True)
                report.check("curate-" in line["cgroup"], f"zygotes are in {line['cgroup']}")
            report.check_line(line)


def without_cpu(report: Report, way: str) -> None:
    with Caller(WAYS[way], "without_cpu") as caller:
        for line in caller:
            report.check_line(line)


def ended(report: Report, way: str, *, stop: bool) -> None:
    before = processes()
    with Caller(WAYS[way], "stays") as caller:
        if until_running(caller, report, cgroup=False):
            if stop:
                subprocess.run(["systemctl", "stop", _UNIT], check=True)
            else:
                kill_callers()
            check_nothing_left(report, before)


def processors(report: Report, quota: str, expected: int) -> None:
    for line in Caller(limited(f"CPUQuota={quota}", delegate=False), "processors"):
        report.check(line.get("processors") == expected, str(line))


def doctor(report: Report, way: str) -> None:
    command = WAYS[way]([*_ENVIRONMENT, sys.executable, "-m", "curate", "doctor"])
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_SECONDS)
    lines = [line.strip() for line in done.stdout.splitlines() if "FAILED" in line or line.startswith("!")]
    slow = [line for line in lines if line.endswith(": time_limit")]  # the emulator has not reached another limit
    holds = done.returncode == 0 or (bool(slow) and len(slow) == done.stdout.count("FAILED"))
    report.check(holds, f"exit status {done.returncode}: {'; '.join(lines) or done.stdout[-600:]}")


SCENARIOS: dict[str, Callable[[Report], None]] = {
    **{f"verdicts: {way}": partial(verdicts, way=way) for way in WAYS},
    **{
        f"{limit.__name__}: service{' with Delegate' * delegate}": partial(limit, delegate=delegate)
        for limit in (quota, tasks, memory)
        for delegate in (False, True)
    },
    **{
        f"{action.__name__}: {way}": partial(action, way=way)
        for action in (killed_zygotes, without_cpu)
        for way in ("root, service with Delegate", "root, service")
    },
    **{
        f"stopped: {way}": partial(ended, way=way, stop=True)
        for way in ("root, service with Delegate", "root, service", "user, service with Delegate")
    },
    **{f"killed: {way}": partial(ended, way=way, stop=False) for way in WAYS},
    "processors: CPUQuota=50%": partial(processors, quota="50%", expected=1),
    "processors: CPUQuota=400%": partial(processors, quota="400%", expected=2),
    **{f"doctor: {way}": partial(doctor, way=way) for way in ("root, service", "user, login")},
}


def main(words: list[str]) -> None:
    os.environ["SYSTEMD_BUS_TIMEOUT"] = "600"  # seconds; by default 25, in which an emulator may not answer
    for name, scenario in SCENARIOS.items():
        if words and not any(word in name for word in words):
            continue
        report = Report()
        before, started = processes(), time.monotonic()
        try:
            scenario(report)
        except Exception as error:
            report.wrong.append(f"{type(error).__name__}: {error}")
        seconds = round(time.monotonic() - started)
        check_nothing_left(report, before)
        print(json.dumps({"name": name, "seconds": seconds, "seen": report.seen, "wrong": report.wrong}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
