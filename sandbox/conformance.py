"""Self-checks of a backend: some forty small programs with expected verdicts, for the tests and `curate doctor`.

They take a few seconds and detect broken installations, but do not prove isolation; see tests/sandbox for that. Checks
that apply to any judge use programs of sandbox.probes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sandbox import languages
from sandbox.box import Sandbox
from sandbox.errors import BackendUnavailable, SandboxError
from sandbox.judge import Verdict
from sandbox.probes import find_submissions
from sandbox.program import Limits, Program
from sandbox.suite import INTERACTIVE, PROGRAM, PYTHON, Assertions, Case, Referee, RefereeConvention, Suite

_LIMITS = Limits(wall_seconds=5, memory_mb=256)
_SHORT_LIMITS = Limits(wall_seconds=0.4, memory_mb=256)

# Checks that a backend cannot pass: backend -> name of the check -> reason.
KNOWN_FAILURES: dict[str, dict[str, str]] = {}


@dataclass(frozen=True, slots=True)
class ConformanceCheck:
    """A program, and the verdicts that confirm the property `name`."""

    name: str
    program: Program
    suite: Suite
    expected: frozenset[Verdict]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check.

    passed  whether the property holds; None if the backend has no compiler for the program
    actual  the actual verdict, with details
    """

    check: ConformanceCheck
    passed: bool | None
    actual: str = ""


def run(box: Sandbox) -> Iterator[CheckResult]:
    """Run all checks; yield their results."""
    for check in CHECKS:
        try:
            judgement = box.judge(check.program, check.suite)
        except BackendUnavailable as error:
            yield CheckResult(check, None if check.program.language != "python" else False, str(error))
        except SandboxError as error:
            yield CheckResult(check, False, f"{type(error).__name__}: {error}")
        else:
            seen = f"{judgement.verdict.value} {judgement.cases[-1].detail}".strip()
            yield CheckResult(check, judgement.verdict in check.expected, seen)


def _expect_output(
    name: str,
    source: str,
    *cases: tuple[str, str],
    expected: Verdict = Verdict.ACCEPTED,
    language: str = "python",
) -> ConformanceCheck:
    suite = Suite([Case(*case) for case in cases or [("3 4\n", "7\n")]], checker="tokens", limits=_LIMITS)
    return ConformanceCheck(name, Program(source, language), suite, frozenset([expected]))


def _expect_probe(
    name: str, probe: str, expected: Verdict = Verdict.ACCEPTED, limits: Limits = _LIMITS
) -> ConformanceCheck:
    submissions = find_submissions(probe)
    return ConformanceCheck(
        name, Program(submissions.program), replace(submissions.problem.suite, limits=limits), frozenset([expected])
    )


def _expect_ruling(name: str, source: str, checker: str, referee: Referee, expected: Verdict) -> ConformanceCheck:
    suite = Suite([Case("7\n", "3 4\n")], checker=checker, limits=_LIMITS, referee=referee)
    return ConformanceCheck(name, Program(source), suite, frozenset([expected]))


def _expect_assertion(
    name: str, source: str, expected: Verdict, *, statements: bool, limits: Limits = _LIMITS
) -> ConformanceCheck:
    """Return a check by an assertion suite, whose only test consists of statements or is a call."""
    case = Case("assert double(3) == 6", "") if statements else Case("double(3)", "6")
    assertions = Assertions(("double",), given="TWO = 2", setup="import unittest" if statements else "")
    suite = Suite([case], checker=PYTHON, limits=limits, assertions=assertions)
    return ConformanceCheck(
        f"{name} {'statements' if statements else 'a call'}", Program(source), suite, frozenset([expected])
    )


def _expect_assertions(name: str, source: str, expected: Verdict, limits: Limits = _LIMITS) -> list[ConformanceCheck]:
    return [
        _expect_assertion(name, source, expected, statements=statements, limits=limits) for statements in (False, True)
    ]


def _expect_denial(name: str, attempt: str) -> ConformanceCheck:
    """Return a check that an attack fails.

    attempt   an expression that is true if the attack succeeds; otherwise it is false or raises
    """
    source = (
        "import ctypes, os, socket\n"
        "libc = ctypes.CDLL(None)\n"
        f"try:\n    worked = bool({attempt})\n"
        "except Exception:\n    worked = False\n"
        "print('escaped' if worked else 'contained')\n"
    )
    # `accepted` means an escape; any other verdict passes.
    suite = Suite([Case("", "escaped\n")], checker="tokens", limits=_LIMITS)
    return ConformanceCheck(name, Program(source), suite, frozenset(Verdict) - {Verdict.ACCEPTED})


# Accepts two numbers whose sum is the input.
_SUM = Referee(
    Program(
        "import sys\ngiven, answer, output = (open(name).read().split() for name in sys.argv[1:])\n"
        "print(int(sum(map(int, output)) == int(given[0]) == sum(map(int, answer))))"
    ),
    RefereeConvention.PRINTED,
)
# Replies to each guess: "more" if the secret number, its input, is greater, and "less" otherwise.
_GUESSING_GAME = Referee(
    Program(
        "import sys\nsecret = int(open(sys.argv[1]).read())\nfor line in sys.stdin:\n"
        "    if int(line) == secret: sys.exit(0)\n    print('more' if int(line) < secret else 'less', flush=True)\n"
        "sys.exit(1)"
    )
)

CHECKS: tuple[ConformanceCheck, ...] = (
    # Correct programs, with the verdict accepted.
    *(
        _expect_output(
            f"a {name} program", languages.load(name).SELF_TEST, ("3 4\n", "7\n"), ("-1 1\n", "0\n"), language=name
        )
        for name in languages.list_names()
    ),
    _expect_probe("lines are read", "honest/programs/input/stdin"),
    _expect_probe("bytes are read", "honest/programs/bytes/stdin"),
    _expect_probe("descriptors are files", "honest/programs/descriptor/stdin"),
    _expect_output("text is UTF-8", "print(input()[::-1])", ("héllo 世界\n", "界世 olléh\n")),
    _expect_output("long integers print", "print(len(str(7 ** 9000)))", ("", "7606\n")),
    _expect_output(
        "recursion in a thread with a big stack",
        "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(1 << 27)\n"
        "def depth(n):\n    return n and 1 + depth(n - 1)\n"
        "thread = threading.Thread(target=lambda: print(depth(50_000)))\nthread.start()\nthread.join()",
        ("", "50000\n"),
    ),
    _expect_output(
        "a scratch directory that is empty in each test",
        "import os\nprint(os.path.exists('mine'))\nopen('mine', 'w').close()",
        ("", "False\n"),
        ("", "False\n"),
    ),
    _expect_probe("a function is called", "honest/functions/plain/call"),
    _expect_probe("a method is called", "honest/functions/plain/method"),
    _expect_ruling("a checker program accepts", "print(5, 2)", PROGRAM, _SUM, Verdict.ACCEPTED),
    _expect_ruling(
        "an interactive referee accepts",
        "low, high = 0, 100\nwhile True:\n    middle = (low + high) // 2\n    print(middle, flush=True)\n    try:\n"
        "        answer = input()\n    except EOFError:\n        break\n"
        "    low, high = (middle + 1, high) if answer == 'more' else (low, middle)",
        INTERACTIVE,
        _GUESSING_GAME,
        Verdict.ACCEPTED,
    ),
    *_expect_assertions("a correct function in", "def double(x): return TWO * x", Verdict.ACCEPTED),
    # Incorrect programs, each with its own verdict.
    *_expect_assertions("a wrong function in", "def double(x): return x", Verdict.WRONG_ANSWER),
    _expect_assertion("no function for", "def single(x): return x", Verdict.RUNTIME_ERROR, statements=False),
    *_expect_assertions("an exit from", "def double(x): raise SystemExit(0)", Verdict.RUNTIME_ERROR),
    *_expect_assertions("a crash in", "import os\ndef double(x): os.kill(os.getpid(), 11)", Verdict.RUNTIME_ERROR),
    *_expect_assertions(
        "an endless loop in", "def double(x):\n    while True: pass", Verdict.TIME_LIMIT, _SHORT_LIMITS
    ),
    _expect_ruling("a checker program rejects", "print(5, 3)", PROGRAM, _SUM, Verdict.WRONG_ANSWER),
    _expect_ruling("no output for an interactive referee", "pass", INTERACTIVE, _GUESSING_GAME, Verdict.WRONG_ANSWER),
    _expect_output(
        "C++ that does not compile", "int main() { return x; }", expected=Verdict.COMPILE_ERROR, language="cpp"
    ),
    _expect_probe("a wrong answer", "wrong/programs/constant-zero/stdin", Verdict.WRONG_ANSWER),
    _expect_probe("an exception", "wrong/programs/fails-before-output/stdin", Verdict.RUNTIME_ERROR),
    _expect_probe("an exit status", "dodge/errors/exit-status-where-nothing-is-printed/stdin", Verdict.RUNTIME_ERROR),
    _expect_probe("a signal", "forge/signals/segmentation-fault/stdin", Verdict.RUNTIME_ERROR),
    _expect_probe("bad syntax", "wrong/programs/bad-syntax/stdin", Verdict.COMPILE_ERROR),
    _expect_probe("an endless loop", "dodge/timeouts/cancels-the-alarm/stdin", Verdict.TIME_LIMIT, _SHORT_LIMITS),
    _expect_probe("an endless sleep", "dodge/timeouts/sleeps/stdin", Verdict.TIME_LIMIT, _SHORT_LIMITS),
    _expect_output(
        "too much memory", "x = []\nwhile True: x.append(bytearray(b'x' * 10**6))", expected=Verdict.MEMORY_LIMIT
    ),
    _expect_output(
        "too much memory in many processes",
        "import os, time\nfor _ in range(6):\n    if os.fork() == 0:\n"
        "        x = bytearray(b'x' * (60 << 20)); time.sleep(1); os._exit(0)\n"
        "for _ in range(6): os.wait()",
        expected=Verdict.MEMORY_LIMIT,
    ),
    _expect_probe("too much output", "dodge/outputs/flood-of-256-mb/stdin", Verdict.OUTPUT_LIMIT),
    _expect_output(
        "a forbidden system call",
        "import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)",
        expected=Verdict.SANDBOX_VIOLATION,
    ),
    # Attacks, each named after its target.
    _expect_denial("host files", "open('/etc/passwd')"),
    _expect_denial("host folders", "os.listdir('/etc')"),
    # Without namespaces, this check passes, since /proc cannot be listed: Landlock does not hide whether a file exists.
    _expect_denial("names of host files", "os.listdir('/proc') and any(map(os.path.exists, ('/etc/passwd', '/home')))"),
    _expect_denial(
        "other processes", "any(p not in ('1', str(os.getpid())) for p in os.listdir('/proc') if p.isdigit())"
    ),
    _expect_denial("network", "socket.socket(socket.AF_INET)"),
    _expect_denial("namespaces", "libc.unshare(0x10000000) == 0"),
    _expect_denial("capabilities", "'CapEff:\\t0000000000000000' not in open('/proc/self/status').read()"),
    _expect_denial("the interpreter's library", "os.access(os.__file__, os.W_OK) or not os.utime(os.__file__)"),
    _expect_denial(
        "secrets of the environment",
        "set(os.environ) - {'PATH', 'HOME', 'TMPDIR', 'LD_LIBRARY_PATH', 'LANG', 'LC_CTYPE', 'PYTHONIOENCODING',"
        " 'PYTHONHASHSEED', 'OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS', 'MKL_NUM_THREADS'}",
    ),
    _expect_denial("descriptors of the sandbox", "len(os.listdir('/proc/self/fd')) != 4"),
)
