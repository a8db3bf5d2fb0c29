"""A run finds no data of any other run, referee or suite in its memory, its mapped files or the file system."""

import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import Case, Limits, Outcome, Program, Referee, RefereeConvention, Sandbox, Suite

SECRET = f"S{secrets.token_hex(3)}"  # prefix of all secrets
# The input is the reversed prefix, so that the search does not find its own input.
SEARCH = """
import re, sys
prefix = input()[::-1].encode()
found = set()
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps:
        bounds, mode, _, _, _, *name = line.split()
        if "r" not in mode or name[:1] == ["[vvar]"] or name[:1] == ["[vsyscall]"]:
            continue
        start, end = (int(bound, 16) for bound in bounds.split("-"))
        try:
            memory.seek(start)
            found |= set(re.findall(re.escape(prefix) + rb"_[a-z]+", memory.read(end - start)))
        except (OSError, ValueError):
            pass
print(sorted(word.decode()[-12:] for word in found))
"""
CPP = shutil.which("g++") is not None


def secret(name: str) -> str:
    return f"{SECRET}_{name}"


def search_memory(box: Sandbox, search: str = SEARCH) -> str:
    result = box.run(Program(search), f"{SECRET[::-1]}\n", Limits(wall_seconds=30, memory_mb=1024))
    assert result.outcome is Outcome.EXITED, result.stderr.decode()
    return result.text.strip()


def test_the_search_finds_a_secret_in_its_own_memory(box: Sandbox) -> None:
    assert search_memory(box, f"here = '{secret('own')}'\n{SEARCH}") != "[]"


@pytest.fixture(scope="module")
def used_box() -> Iterator[Sandbox]:
    """Yield a Sandbox with one worker, which has executed every kind of request with secrets."""
    box = Sandbox(workers=1)
    numpy = "import numpy\n" if "numpy" in sys.modules or box.layers["numpy"] == "yes" else ""
    judge = f"hidden = '{secret('referee')}'\nprint(int(open('answer.txt').read() == open('output.txt').read()))"
    for _ in range(3):
        echo = Program(
            f"hidden = '{secret('source')}'\ndef {secret('name')}(): return '{secret('constant')}'\nprint(input())"
        )
        box.judge(echo, Suite([Case(secret("input"), secret("expected")), Case("x", "x")]), run_all=True)
        box.judge(Program(f"{numpy}print('{secret('numpy')}')"), Suite([Case("", secret("expectednumpy"))]))
        call = Program("class Solution:\n def f(self, x): return x")
        box.judge(call, Suite([Case(f'["{secret("argument")}"]', f'"{secret("value")}"')], entry_point="f"))
        entry = secret("entry")
        box.judge(Program(f"def {entry}(x): return x"), Suite([Case("[1]", "1")], entry_point=entry))
        special = Suite(
            [Case(secret("judgeinput"), secret("judgeexpected"))],
            checker="program",
            referee=Referee(Program(judge), RefereeConvention.PRINTED),
        )
        box.judge(Program(f"print('{secret('output')}')"), special)
        box.run(
            Program(
                f"import sys\nsys.stderr.write('{secret('words')}')\nopen('{secret('left')}', 'w').write(input() * 99)"
            ),
            secret("stdin"),
            arguments=[secret("given")],
            files={f"{secret('file')}/{secret('inner')}": secret("content").encode()},
            fetch=[secret("left"), secret("missing")],
        )
        box.judge(Program(f"print('{secret('broken')}'"), Suite([Case("", "")]))
        box.run(
            Program(f"open('/proc/self/comm', 'w').write('{secret('comm')}')\nwhile True: pass"),
            "",
            Limits(wall_seconds=0.3),
        )
        if CPP:
            text = f'#include <iostream>\nint main() {{ std::cout << "{secret("compiled")}"; }}'
            box.judge(Program(text, "cpp"), Suite([Case(secret("cppinput"), secret("cppexpected"))]))
    yield box
    box.close()


def test_a_program_finds_no_data_of_other_runs_in_its_memory(used_box: Sandbox) -> None:
    assert search_memory(used_box) == "[]"
    if used_box.layers["numpy"] == "yes":
        assert search_memory(used_box, "import numpy\n" + SEARCH) == "[]"


def test_a_referee_finds_no_data_of_other_runs_in_its_memory(used_box: Sandbox) -> None:
    judge = SEARCH.replace("input()", "open('input.txt').read()") + "print(len(found), file=sys.stderr)\n"
    judge = judge.replace("print(sorted(", "print(int(not found)) or str(sorted(")
    suite = Suite(
        [Case(SECRET[::-1], "")], checker="program", referee=Referee(Program(judge), RefereeConvention.PRINTED)
    )
    assert used_box.judge(Program("print(1)"), suite).accepted


LOOK = """
import os, sys, sysconfig
print(open("/proc/self/mountinfo").read())
print(open("/proc/self/cgroup").read())
print(open("/proc/1/cmdline").read())
print(open("/proc/self/maps").read())
print(sys.path, sys.prefix, sys.executable, os.environ)
for folder, folders, names in os.walk("/"):
    if folder.startswith(("/proc", "/box/proc")):
        folders.clear()
    else:
        print(folder, names)
"""


def test_a_program_finds_no_path_or_package_of_the_machine(box: Sandbox) -> None:
    seen = box.run(Program(LOOK)).text
    assert "/usr/bin/python3" in seen
    assert str(Path(__file__).parents[3]) not in seen
    if sys.base_prefix not in ("/usr", "/usr/local"):
        assert sys.base_prefix not in seen
    for trace in ("site-packages", "dist-packages", "curate-sandbox", "/sandbox", "g++", "include", "overlay"):
        assert trace not in seen, trace


def test_the_processes_of_a_worker_have_no_privileges_while_they_are_idle(box: Sandbox) -> None:
    wardens = [name for name in os.listdir("/proc") if name.isdigit() and _parent(name) == os.getpid()]
    wardens = [name for name in wardens if b"judging.worker" in Path(f"/proc/{name}/cmdline").read_bytes()]
    judges = [
        name for name in os.listdir("/proc") if name.isdigit() and str(_parent(name)) in wardens and _is_judge(name)
    ]
    assert wardens
    assert judges
    for name in wardens + judges:
        lines = Path(f"/proc/{name}/status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        assert int(status["CapEff"], 16) == 0
        if name in judges:
            assert int(status["CapPrm"], 16) == 0
            assert status["NoNewPrivs"] == "1"
        if os.geteuid() == 0:
            assert "0" not in status["Uid"].split()
            assert "0" not in status["Gid"].split()
            assert status["Groups"].split() == []


def _parent(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _is_judge(pid: str) -> bool:
    """Return whether a process is a judge: unlike a zygote, it is in our pid namespace."""
    return (
        os.stat(f"/proc/{pid}/ns/pid").st_ino == os.stat("/proc/self/ns/pid").st_ino
        and b"worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
