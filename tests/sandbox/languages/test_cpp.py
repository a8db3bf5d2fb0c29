"""The sandbox compiles a C++ program once, and judges it like any other."""

import contextlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from batch import judged

from sandbox import Case, Judgement, Limits, Outcome, Program, RunResult, Sandbox, Suite, Verdict
from sandbox.jail import compile_cache
from sandbox.jail.compile_cache import CompileCache, CompiledProgram, SharedFolderStore

SUM = Program('#include <cstdio>\nint main() { int a, b; scanf("%d %d", &a, &b); printf("%d\\n", a + b); }', "cpp")
SUMS = Suite([Case("1 2\n", "3\n"), Case("20 22\n", "42\n")])
SHORT = Limits(wall_seconds=0.3, memory_mb=64)


def test_a_right_program_is_accepted(box: Sandbox) -> None:
    assert box.judge(SUM, SUMS).accepted


PROGRAMS = {
    "all headers": ("#include <bits/stdc++.h>\nint main() { std::cout << std::max(3, 7); }", "7"),
    "threads": (
        "#include <iostream>\n#include <thread>\nint main() { int x = 0; std::thread([&] { x = 7; }).join();"
        " std::cout << x; }",
        "7",
    ),
    "a stack of a million frames": (
        "#include <iostream>\nlong f(long n) { volatile long x = n; return n ? x - n + 1 + f(n - 1) : 0; }\n"
        "int main() { std::cout << f(1000000); }",
        "1000000",
    ),
    "exceptions": (
        "#include <iostream>\n#include <stdexcept>\n"
        'int main() { try { throw std::runtime_error("7"); } catch (std::exception& e) { std::cout << e.what(); } }',
        "7",
    ),
    "the judge's macro": ('#include <cstdio>\nint main() {\n#ifdef ONLINE_JUDGE\nputs("7");\n#endif\n}', "7"),
}


@judged(
    {
        name: (Program(source, "cpp"), Suite([Case("", printed)], limits=Limits(wall_seconds=15, memory_mb=256)))
        for name, (source, printed) in PROGRAMS.items()
    },
    quick=["all headers", "a stack of a million frames"],
)
def test_common_libraries_are_available(judgement: Judgement) -> None:
    assert judgement.accepted, judgement


FAILURES = {
    "wrong": ("int main() {}", Verdict.WRONG_ANSWER),
    "does not compile": ("int main() { return x; }", Verdict.COMPILE_ERROR),
    "no main": ("int f() { return 1; }", Verdict.COMPILE_ERROR),
    "exit status": ("int main() { return 3; }", Verdict.RUNTIME_ERROR),
    "segmentation fault": ("int main() { volatile int* p = nullptr; *p = 1; }", Verdict.RUNTIME_ERROR),
    "endless loop": ("int main() { for (volatile int x = 0;;) x = 1; }", Verdict.TIME_LIMIT),
    "endless sleep": ("#include <unistd.h>\nint main() { sleep(100); }", Verdict.TIME_LIMIT),
    "too much memory": (
        "#include <vector>\nint main() { std::vector<int> v; for (;;) v.push_back(1); }",
        Verdict.MEMORY_LIMIT,
    ),
    "too much output": ('#include <cstdio>\nint main() { for (;;) puts("x"); }', Verdict.OUTPUT_LIMIT),
    "a call for attackers": (
        "#include <sys/ptrace.h>\nint main() { ptrace(PTRACE_TRACEME); }",
        Verdict.SANDBOX_VIOLATION,
    ),
    "a header of the host": ('#include "/etc/passwd"\nint main() {}', Verdict.COMPILE_ERROR),
    "a header without end": ('#include "/dev/zero"\nint main() {}', Verdict.COMPILE_ERROR),
    "a compiler kept busy": (
        "template <int N> struct F { static constexpr int v = F<N - 1>::v + F<N - 2>::v; };\n"
        "constexpr long f(long n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\nint x[f(50)];\nint main() {}",
        Verdict.COMPILE_ERROR,
    ),
}


# Failures that tests of Python programs cover, too, or that keep the compiler busy for seconds.
REPEATED = {"wrong", "no main", "exit status", "endless sleep", "a header without end", "a compiler kept busy"}


@judged(
    {name: (Program(source, "cpp"), Suite([Case("", "7")], limits=SHORT)) for name, (source, _) in FAILURES.items()},
    quick=FAILURES.keys() - REPEATED,
)
def test_each_failure_gets_its_verdict(name: str, judgement: Judgement) -> None:
    assert judgement.verdict is FAILURES[name][1], judgement


def test_a_compile_error_includes_the_first_message_of_the_compiler(box: Sandbox) -> None:
    judgement = box.judge(Program("int main() { return x; }", "cpp"), SUMS)
    assert "solution.cpp:1" in judgement.cases[0].detail
    assert "‘x’ was not declared" in judgement.cases[0].detail


def test_functions_of_a_compiled_program_cannot_be_called(box: Sandbox) -> None:
    with pytest.raises(ValueError, match="cannot be called"):
        box.judge(SUM, Suite([Case("[1]", "1")], entry_point="f"))


def test_programs_do_not_see_the_compiler(box: Sandbox) -> None:
    seen = box.run(Program("import os\nprint(os.path.exists('/usr/bin/g++'), os.path.exists('/usr/include'))"))
    assert seen.stdout == b"False False\n"


def test_a_program_cannot_change_its_executable(box: Sandbox) -> None:
    source = """
    #include <cstdio>
    #include <fcntl.h>
    #include <sys/wait.h>
    #include <unistd.h>
    int main() {
        int self = open("/proc/self/exe", O_RDONLY);
        char name[64];
        sprintf(name, "/proc/self/fd/%d", self);
        int again = open(name, O_RDWR);
        char byte = 0;
        puts(again >= 0 && (pwrite(again, &byte, 1, 0) == 1 || ftruncate(again, 1) == 0) ? "changed" : "kept");
    }"""
    assert box.judge(Program(source, "cpp"), Suite([Case("", "kept")] * 2)).accepted


def make_compiler_run(cpu_seconds: float) -> RunResult:
    return RunResult(Outcome.EXITED, 0, b"", b"", cpu_seconds, cpu_seconds, 1.0)


def test_slow_compilations_are_shared_by_the_workers(tmp_path: Path) -> None:
    one, other = CompileCache(SharedFolderStore(str(tmp_path))), CompileCache(SharedFolderStore(str(tmp_path)))
    one.add(SUM, make_compiler_run(cpu_seconds=1), b"code")
    found = other.find(SUM)
    assert isinstance(found, CompiledProgram)
    assert os.pread(found.artifact_fd, 10, 0) == b"code"
    assert other.find(Program(SUM.source, "python")) is None


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the bounds of the compile cache to an eighth."""
    monkeypatch.setattr(compile_cache, "_MAX_MEMORY_BYTES", 8 << 20)
    monkeypatch.setattr(compile_cache, "_MAX_DIRECTORY_BYTES", 64 << 20)


@pytest.mark.usefixtures("small_bounds")
def test_shared_compilations_are_bounded_in_bytes(tmp_path: Path) -> None:
    one, large = CompileCache(SharedFolderStore(str(tmp_path))), bytes(7 << 20)
    for number in range(12):
        one.add(Program(f"large {number}", "cpp"), make_compiler_run(cpu_seconds=1), large)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 64 << 20
    other = CompileCache(SharedFolderStore(str(tmp_path)))
    assert isinstance(other.find(Program("large 11", "cpp")), CompiledProgram)
    assert other.find(Program("large 0", "cpp")) is None
    for number in range(30):
        one.add(Program(f"small {number}", "cpp"), make_compiler_run(cpu_seconds=1), b"code")
        one.add(Program(f"quick {number}"), make_compiler_run(cpu_seconds=0.01), b"code")
    assert 30 <= len(list(tmp_path.iterdir())) <= 38


@pytest.mark.usefixtures("small_bounds")
def test_compilations_in_memory_are_bounded_in_bytes_and_descriptors() -> None:
    def count_descriptors_and_bytes() -> tuple[int, int]:
        sizes = []
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # the descriptor of listdir itself
                sizes.append(os.fstat(int(name)).st_size)
        return len(sizes), sum(sizes)

    some = CompileCache(None)
    before = count_descriptors_and_bytes()
    for number in range(9):
        some.add(Program("#" * (6 << 20) + str(number)), make_compiler_run(cpu_seconds=1), b"code")
    for number in range(400):
        some.add(Program(str(number)), make_compiler_run(cpu_seconds=0.01), b"code")
        some.add_failure(Program(f"bad {number}"), make_compiler_run(cpu_seconds=0.01))
    assert count_descriptors_and_bytes()[0] - before[0] < 100
    for number in range(9):
        some.add(Program(f"large {number}"), make_compiler_run(cpu_seconds=1), bytes(7 << 20))
    assert count_descriptors_and_bytes()[1] - before[1] <= 8 << 20


@pytest.mark.usefixtures("small_bounds")
def test_concurrent_stores_stay_within_the_bound(tmp_path: Path) -> None:
    def share(worker: int) -> None:
        for number in range(60):
            SharedFolderStore(str(tmp_path)).store_artifact(f"{worker}.{number}", bytes(512 << 10))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(share, range(4)))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 64 << 20
    assert SharedFolderStore(str(tmp_path)).load_artifact("nothing") is None


MISSING = """
import sys
from sandbox import Program, Sandbox, SandboxError
from sandbox.languages import cpp
with Sandbox(workers=1) as box:
    try:
        box.run(Program("int main() {}", "cpp"))
    except SandboxError as error:
        print(type(error).__name__, error)
    print(box.run(Program("print(7)")).stdout)
"""


def test_a_missing_compiler_is_an_error_that_names_the_package() -> None:
    """Run MISSING in its own mount namespace, where a mount of /dev/null hides the compiler."""
    done = subprocess.run(
        ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
        + ["sh", "-ec", 'mount --bind /dev/null "$(realpath /usr/bin/g++)"; exec "$@"', "sh"]
        + [os.path.realpath(sys.executable), "-c", MISSING],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(__file__).parents[3]), "PATH": os.environ["PATH"]},
    )
    assert done.stdout.startswith("BackendUnavailable cannot compile cpp: no g++"), done.stdout
    assert "apt install g++" in done.stdout
    assert done.stdout.endswith("b'7\\n'\n")
