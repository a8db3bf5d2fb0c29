"""Each way to fail has its own verdict, and nothing that a program says about itself changes it."""

import shutil

import pytest
from batch import judged

from sandbox import Case, Judgement, Limits, Outcome, Program, Sandbox, Suite, Verdict

SUM = [Case("3 4\n", "7\n"), Case("10 -2\n", "8\n")]
LIMITS = Limits(wall_seconds=1.5, memory_mb=256)


def suites_of(sources: dict[str, str], limits: Limits) -> dict[str, tuple[Program, Suite]]:
    suite = Suite(SUM, checker="tokens", limits=limits)
    return {name: (Program(source), suite) for name, source in sources.items()}


def verdict(box: Sandbox, source: str, cases: list[Case] = SUM, checker: str = "tokens") -> Verdict:
    return box.judge(Program(source), Suite(cases, checker=checker, limits=LIMITS)).verdict


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("", id="nothing"),
        pytest.param("print(7)", id="right in the first test only"),
        pytest.param("print(sum(map(int, input().split())) + 1)", id="off by one"),
        pytest.param("print(sum(map(int, input('a b? ').split())))", id="prompt"),
        pytest.param("print(float(sum(map(int, input().split()))))", id="decimal for an integer"),
        pytest.param("print('0%d' % sum(map(int, input().split())))", id="leading zero"),
        pytest.param("print(sum(map(int, input().split())), '\\0')", id="NUL"),
        pytest.param("import sys\nsys.stdout.buffer.write(b'\\xff7')", id="no text"),
        pytest.param("import sys\nprint(sum(map(int, input().split())), file=sys.stderr)", id="on stderr"),
        pytest.param("import os\nprint(sum(map(int, input().split())))\nos._exit(0)", id="never flushed"),
        pytest.param("print(sum(map(int, input().split())), file=open('out.txt', 'w'))", id="in a file"),
    ],
)
def test_a_program_that_does_not_print_the_answer_is_a_wrong_answer(box: Sandbox, source: str) -> None:
    assert verdict(box, source) is Verdict.WRONG_ANSWER


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("1 / 0", id="exception"),
        pytest.param("print(sum(map(int, input().split())))\n1 / 0", id="exception after the answer"),
        pytest.param("print(sum(map(int, input().split())))\nexit(1)", id="exit status"),
        pytest.param("print(sum(map(int, input().split())))\nexit('done')", id="exit with words"),
        pytest.param("raise SystemExit(0.0)", id="exit with a float"),
        pytest.param("input()\ninput()", id="end of input"),
        pytest.param("import nothing_of_this_name", id="import"),
        pytest.param("raise KeyboardInterrupt", id="keyboard interrupt"),
        pytest.param("class E(Exception):\n    def __str__(self): raise ValueError\nraise E", id="unprintable"),
        pytest.param("raise ExceptionGroup('group', [ValueError()])", id="exception group"),
        pytest.param("def f(): f()\nf()", id="recursion"),
        pytest.param("import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()", id="out of stack"),
        pytest.param("import os\nos.abort()", id="abort"),
        pytest.param("import ctypes\nctypes.string_at(0)", id="segmentation fault"),
        pytest.param("import os\nos.kill(os.getpid(), 15)", id="terminated"),
        pytest.param("import os\nos.kill(os.getpid(), 9)", id="killed by itself"),
        pytest.param("import os\nos._exit(3)", id="hard exit"),
        pytest.param("import os, sys\nos.execv(sys.executable, ['python', '-c', 'exit(3)'])", id="exec"),
        pytest.param("import os\nprint(7)\nos.close(1)", id="closed stdout"),
        pytest.param("import atexit, os\nprint(7, flush=True)\natexit.register(os._exit, 1)", id="at exit"),
    ],
)
def test_a_program_that_fails_is_a_runtime_error(box: Sandbox, source: str) -> None:
    # A stack overflow may also exceed the memory limit, if the stack counts before it overflows.
    assert verdict(box, source) in {Verdict.RUNTIME_ERROR, *([Verdict.MEMORY_LIMIT] if "10**9" in source else [])}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("print(", id="syntax"),
        pytest.param("if True:\nprint(7)", id="indentation"),
        pytest.param("print 7", id="python 2"),
        pytest.param("return 7", id="return outside a function"),
        pytest.param("```python\nprint(7)\n```", id="markdown"),
        pytest.param("x = 1\nfrom __future__ import annotations", id="late future import"),
        pytest.param("print(7)\0", id="NUL"),
        pytest.param("# coding: nothing\nprint(7)", id="unknown encoding"),
        pytest.param("print(\u201c7\u201d)", id="typographic quotes"),
    ],
)
def test_a_program_that_does_not_compile_is_a_compile_error(box: Sandbox, source: str) -> None:
    assert verdict(box, source) is Verdict.COMPILE_ERROR


ENDLESS = {
    "loop": "while True: pass",
    "sleep": "import time\ntime.sleep(60)",
    "loop after the answer": "print(7, flush=True)\nwhile True: pass",
    "at exit": "import atexit, time\nprint(7, flush=True)\natexit.register(time.sleep, 60)",
    "nobody sets the event": "import threading\nthreading.Event().wait()",
    "inside C": "x = pow(3, 10**9)",
    "regular expression": "import re\nre.match('(a+)+$', 'a' * 40 + 'b')",
    "empty pipe": "import os\nreader, writer = os.pipe()\nos.read(reader, 1)",
    "child": "import os\nif os.fork() == 0:\n    while True: pass\nos.wait()",
    "thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()",
}


@judged(
    suites_of(ENDLESS, Limits(wall_seconds=0.3, memory_mb=256)),
    quick=["loop after the answer", "nobody sets the event"],
)
def test_a_program_that_does_not_end_is_a_time_limit(judgement: Judgement) -> None:
    assert judgement.verdict is Verdict.TIME_LIMIT


GREEDY = {
    "at once": "x = bytearray(b'x' * (1 << 30))",
    "bit by bit": "x = []\nwhile True: x.append(bytearray(b'x' * 10**6))",
    "small objects": "x = {}\nwhile True: x[len(x)] = [len(x)]",
    "numpy": "import numpy\nx = []\nwhile True: x.append(numpy.ones(10**6))",
    "a long list": "x = [0] * (100 << 20)",
    "doubled again and again": "x = [0] * 1000\nwhile True: x += x",
    "caught": "x = []\ntry:\n    while True: x.append(bytearray(10**6))\nexcept MemoryError: pass",
}


@judged(suites_of(GREEDY, Limits(wall_seconds=15, memory_mb=64)), quick=["bit by bit", "numpy"])
def test_a_program_that_takes_too_much_memory_is_a_memory_limit(judgement: Judgement) -> None:
    assert judgement.verdict is Verdict.MEMORY_LIMIT


def test_asking_for_impossible_amounts_of_memory_fails(box: Sandbox) -> None:
    # No memory was used, and nothing distinguishes this program from one that raises MemoryError itself.
    assert verdict(box, "x = bytearray(8 << 40)") in {Verdict.RUNTIME_ERROR, Verdict.MEMORY_LIMIT}


SAYS = {
    "MemoryError": "raise MemoryError",
    "MemoryError, printed": "import sys\nsys.stderr.write('MemoryError\\n')\nsys.exit(1)",
    "numpy's MemoryError": "import sys\nsys.stderr.write('numpy._core._exceptions._ArrayMemoryError: ')\nsys.exit(1)",
    "bad_alloc": "import os, sys\nsys.stderr.write('std::bad_alloc')\nsys.stderr.flush()\nos.abort()",
    "SIGXCPU": "import os, signal\nos.kill(os.getpid(), signal.SIGXCPU)\nsignal.pause()",
    "SIGXFSZ": "import os, signal\nsignal.signal(25, signal.SIG_DFL)\nos.kill(os.getpid(), 25)\nsignal.pause()",
    "SIGKILL": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "SIGKILL of a child": "import os, time\npid = os.getpid()\nif os.fork() == 0: os.kill(pid, 9)\ntime.sleep(1)",
    "a large file": "import signal\nsignal.signal(25, signal.SIG_DFL)\nopen('x', 'wb').truncate(99 << 20)",
}


@pytest.mark.parametrize("source", SAYS.values(), ids=SAYS)
def test_what_a_program_says_about_itself_decides_nothing(box: Sandbox, source: str) -> None:
    assert verdict(box, source) is Verdict.RUNTIME_ERROR


@pytest.mark.parametrize(
    "source",
    [
        "#include <new>\nint main() { throw std::bad_alloc(); }",
        "#include <csignal>\nint main() { return raise(SIGXCPU) != 0; }",  # which is refused
        "#include <csignal>\nint main() { return raise(SIGXFSZ) != 0; }",
        '#include <csignal>\n#include <iostream>\nint main() { std::cerr << "std::bad_alloc" << std::flush; abort(); }',
    ],
    ids=["bad_alloc", "SIGXCPU", "SIGXFSZ", "bad_alloc, printed"],
)
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_what_a_compiled_program_says_about_itself_decides_nothing(box: Sandbox, source: str) -> None:
    suite = Suite(SUM, checker="tokens", limits=LIMITS)
    assert box.judge(Program(source, "cpp"), suite).verdict is Verdict.RUNTIME_ERROR


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("while True: print('x' * 1000)", id="stdout"),
        pytest.param("import sys\nwhile True: sys.stderr.write('x' * 1000)", id="stderr"),
        pytest.param("print('x' * (17 << 20))", id="at once"),
        pytest.param(
            "import os\nwhile True:\n    try: os.write(1, b'x' * 65536)\n    except OSError: break", id="caught"
        ),
    ],
)
def test_a_program_that_prints_too_much_is_an_output_limit(box: Sandbox, source: str) -> None:
    assert verdict(box, source) is Verdict.OUTPUT_LIMIT


def test_a_system_call_that_only_attackers_make_is_a_sandbox_violation(box: Sandbox) -> None:
    assert verdict(box, "import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)") is Verdict.SANDBOX_VIOLATION


def test_judging_stops_at_the_first_failure_unless_told_otherwise(box: Sandbox) -> None:
    program = Program("print(input())")
    suite = Suite([Case("1", "1"), Case("2", "3"), Case("4", "4")])
    assert [case.verdict.value for case in box.judge(program, suite).cases] == ["accepted", "wrong_answer"]
    all_of_them = box.judge(program, suite, run_all=True)
    assert [case.verdict.value for case in all_of_them.cases] == ["accepted", "wrong_answer", "accepted"]
    assert (all_of_them.verdict, all_of_them.pass_rate) == (Verdict.WRONG_ANSWER, pytest.approx(2 / 3))


def test_the_verdict_is_that_of_the_first_failure(box: Sandbox) -> None:
    program = Program("x = int(input())\nif x == 2: 1 / 0\nprint(0)")
    suite = Suite([Case("0", "0"), Case("1", "1"), Case("2", "2")])
    assert box.judge(program, suite, run_all=True).verdict is Verdict.WRONG_ANSWER


def test_all_of_a_hundred_tests_are_judged(box: Sandbox) -> None:
    program = Program("x = int(input())\nprint(x if x != 99 else -1)")
    judgement = box.judge(program, Suite([Case(f"{x}\n", f"{x}\n") for x in range(100)]))
    assert (judgement.verdict, len(judgement.cases)) == (Verdict.WRONG_ANSWER, 100)


def test_a_run_says_how_it_ended_and_what_it_took(box: Sandbox) -> None:
    source = "import sys\nx = b'x' * (50 << 20)\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(5)"
    result = box.run(Program(source))
    assert (result.outcome, result.exit_code) == (Outcome.EXITED, 5)
    assert (result.stdout, result.stderr, result.text) == (b"out\n", b"err\n", "out\n")
    assert result.memory_mb >= 50
    assert result.cpu_seconds > 0
    assert result.wall_seconds > 0


def test_a_suite_without_tests_is_an_error_not_a_verdict(box: Sandbox) -> None:
    with pytest.raises(ValueError, match="at least one case"):
        box.judge(Program("print(7)"), Suite([]))


def test_an_unknown_checker_is_an_error_not_a_verdict(box: Sandbox) -> None:
    with pytest.raises(ValueError, match="nothing"):
        box.judge(Program("print(7)"), Suite(SUM, checker="nothing"))


def test_an_expected_value_that_is_not_json_is_an_error_not_a_verdict(box: Sandbox) -> None:
    suite = Suite([Case("[1]", "{no json")], entry_point="f")
    with pytest.raises(ValueError, match="JSON|Expecting"):
        box.judge(Program("def f(x): return x"), suite)
