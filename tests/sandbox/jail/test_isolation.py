"""A Sandbox isolates as its level requires, for root and for ordinary users, or refuses to start."""

import os
import re
import subprocess
from pathlib import Path

import confined
import pytest

from sandbox import Case, Program, Sandbox, Suite

# A script for another user; requires only the standard library and the package.
JUDGE = """
import sys
sys.path.insert(0, sys.argv[1])
from sandbox import BackendUnavailable, Case, Limits, Program, Sandbox, Suite
try:
    box = Sandbox(workers=1, isolation=sys.argv[2])
except BackendUnavailable as error:
    print("refused:", error)
    raise SystemExit
suite = Suite([Case("3 4", "7")], limits=Limits(wall_seconds=1, memory_mb=256))
print("level:", box.level)
print("missing:", *sorted(name for name, how in box.layers.items() if how.startswith("none")))
for source in sys.stdin.read().split("\\0"):
    print(box.judge(Program(source), suite).verdict.value)
box.close()
"""

# Denies user namespaces, as container runtimes do, and Landlock for the argument "landlock"; then execs the command.
WITHOUT = """
import ctypes, errno, os, struct, sys
CLONE, UNSHARE, NEWUSER, LANDLOCK = 56, 272, 0x10000000, 444 if sys.argv[1] == "landlock" else -1 & 0xFFFFFFFF
code = [(0x20, 0, 0, 0), (0x15, 5, 0, LANDLOCK), (0x15, 2, 0, UNSHARE), (0x15, 1, 0, CLONE), (0x06, 0, 0, 0x7FFF0000),
        (0x20, 0, 0, 16), (0x45, 0, 1, NEWUSER), (0x06, 0, 0, 0x50000 | errno.EPERM), (0x06, 0, 0, 0x7FFF0000)]
filter = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(filter)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.c_ulong(ctypes.addressof(head)), 0, 0) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""

PROGRAMS = {
    "print(sum(map(int, input().split())))": "accepted",
    "open('note', 'w').write('x')\nprint(sum(map(int, input().split())))": "accepted",
    "print(8)": "wrong_answer",
    "while True: pass": "time_limit",
    "x = []\nwhile True: x.append(bytearray(b'x' * 10**6))": "memory_limit",
    "import mmap\nx = mmap.mmap(-1, 600 << 20)\nfor page in range(0, 600 << 20, 4096): x[page] = 1": "memory_limit",
    "import os, time\nprint(7, flush=True)\nfor _ in range(30): os.fork() or time.sleep(1) or os._exit(0)": "accepted",
    "while True: print('x' * 1000)": "output_limit",
    "print(": "compile_error",
    "1 / 0": "runtime_error",
    "import socket\nsocket.create_connection(('127.0.0.1', 80), 1)": "runtime_error",
    "import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)": "sandbox_violation",
}


@pytest.fixture
def install(tmp_path: Path) -> Path:
    """Install the package in a temporary directory that every user can read."""
    return confined.install(tmp_path)


def run_judge_script(install: Path, isolation: str, *, without: str = "") -> tuple[list[str], str]:
    """Run JUDGE as an ordinary user; return the lines of its stdout, and its stderr.

    without   "namespaces" to deny these, "landlock" to deny both; "" for none
    """
    python, user = confined.interpreter(), confined.ordinary_user()
    command = [python, "-c", JUDGE, str(install), isolation]
    if without:
        command = [python, "-c", WITHOUT, without, *command]
    done = subprocess.run(
        command, user=user, input="\0".join(PROGRAMS), capture_output=True, text=True, cwd="/", check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_all_layers_are_there(box: Sandbox) -> None:
    assert {name for name, how in box.layers.items() if how.startswith("none")} <= {"numpy"}


only_x86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="WITHOUT is a filter for x86-64")


def test_an_ordinary_user_gets_full_isolation(install: Path) -> None:
    (level, missing, *verdicts), _ = run_judge_script(install, "full")
    assert level in ("level: namespaces", "level: landlock")
    assert missing.split()[1:] in ([], ["numpy"])
    assert verdicts == list(PROGRAMS.values())


@only_x86_64
def test_without_namespaces_landlock_isolates(install: Path) -> None:
    (level, missing, *verdicts), _ = run_judge_script(install, "full", without="namespaces")
    assert level == "level: landlock"
    assert missing.split()[1:] in ([], ["numpy"])
    assert verdicts == list(PROGRAMS.values())


@only_x86_64
def test_without_isolation_the_error_names_attempts_and_obstacles(install: Path) -> None:
    [line], _ = run_judge_script(install, "full", without="landlock")
    assert line.startswith("refused: cannot isolate")
    assert re.search(r"Tried namespaces: \w+: .*unshare: Operation not permitted", line)
    assert "a seccomp filter applies to this process" in line
    assert re.search(r"Tried landlock: .*landlock_create_ruleset: Operation not permitted", line)
    assert "expected outputs" in line
    assert "best-effort" in line


@only_x86_64
def test_best_effort_judges_without_isolation_and_warns(install: Path) -> None:
    (level, missing, *verdicts), warnings = run_judge_script(install, "best-effort", without="landlock")
    assert level == "level: none"
    assert {"level", "files", "network", "processes", "ipc"} <= set(missing.split())
    assert "submissions can read expected outputs" in warnings
    assert verdicts == list(PROGRAMS.values())


def test_best_effort_is_full_where_possible(box: Sandbox) -> None:
    with Sandbox(workers=1, isolation="best-effort") as other:
        assert other.layers == box.layers


@pytest.mark.parametrize("wrong", [{"isolation": "none"}, {"workers": 0}, {"backend": "moon"}])
def test_wrong_arguments_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must be|choose one of"):
        Sandbox(**wrong)  # type: ignore[arg-type]


def test_a_program_inherits_neither_our_environment_nor_our_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    reads = "import os\nfor fd in range(256):\n    try: print(fd, os.pread(fd, 99, 0))\n    except OSError: pass"
    with secret.open() as file:
        os.set_inheritable(file.fileno(), True)
        with Sandbox(workers=1) as other:
            everything = other.run(Program("import os\nprint(os.environ)")).text + other.run(Program(reads)).text
    assert "hidden" not in everything
    assert "SECRET" not in everything


def test_a_program_cannot_read_the_suite(box: Sandbox) -> None:
    source = "import sys\nprint(open('/proc/self/cmdline').read(), vars(sys.modules['__main__']), sys.argv)"
    judgement = box.judge(Program(source), Suite([Case("", "the expected output")]))
    assert "the expected output" not in judgement.cases[0].detail
