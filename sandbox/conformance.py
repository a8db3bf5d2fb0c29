"""Self-checks of a backend: some forty small programs, each with its expected verdict.

The tests and `curate doctor` judge them on a backend in a few seconds. They tell a broken installation from a sound
one. They do not prove isolation: the tests in tests/sandbox do. What any judge must be able to do comes from the
catalogue of sandbox.probes; what follows here is about this sandbox's own verdicts, tests and layers.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sandbox import languages
from sandbox.box import Sandbox
from sandbox.errors import BackendUnavailable, SandboxError
from sandbox.judge import Verdict
from sandbox.probes import find_trial
from sandbox.program import Limits, Program
from sandbox.suite import INTERACTIVE, PROGRAM, PYTHON, Assertions, Case, Referee, RefereeConvention, Suite

_LIMITS = Limits(wall_seconds=5, memory_mb=256)
_SHORT = Limits(wall_seconds=0.4, memory_mb=256)

# Checks that a backend cannot pass: backend -> name of the check -> reason.
KNOWN_FAILURES: dict[str, dict[str, str]] = {}


@dataclass(frozen=True, slots=True)
class ConformanceCheck:
    """One program and the verdicts that show that the property `name` holds."""

    name: str
    program: Program
    suite: Suite
    expected: frozenset[Verdict]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check.

    passed  whether the property holds; None if the check could not be made, because there is no compiler
    actual  the actual verdict, if unexpected
    """

    check: ConformanceCheck
    passed: bool | None
    actual: str = ""


def run(box: Sandbox) -> Iterator[CheckResult]:
    """Run every check and yield its result."""
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


def _prints(
    name: str,
    source: str,
    *cases: tuple[str, str],
    expected: Verdict = Verdict.ACCEPTED,
    language: str = "python",
) -> ConformanceCheck:
    suite = Suite([Case(*case) for case in cases or [("3 4\n", "7\n")]], checker="tokens", limits=_LIMITS)
    return ConformanceCheck(name, Program(source, language), suite, frozenset([expected]))


def _probes(name: str, probe: str, expected: Verdict = Verdict.ACCEPTED, limits: Limits = _LIMITS) -> ConformanceCheck:
    """Return a check with a program of the catalogue."""
    trial = find_trial(probe)
    return ConformanceCheck(
        name, Program(trial.program), replace(trial.problem.suite, limits=limits), frozenset([expected])
    )


def _refereed(name: str, source: str, checker: str, referee: Referee, expected: Verdict) -> ConformanceCheck:
    suite = Suite([Case("7\n", "3 4\n")], checker=checker, limits=_LIMITS, referee=referee)
    return ConformanceCheck(name, Program(source), suite, frozenset([expected]))


def _asserted(
    name: str, source: str, expected: Verdict, *, statements: bool, limits: Limits = _LIMITS
) -> ConformanceCheck:
    """Return a check with a test that is Python: a call whose value is compared, or statements."""
    case = Case("assert double(3) == 6", "") if statements else Case("double(3)", "6")
    shared = Assertions(("double",), given="TWO = 2", setup="import unittest" if statements else "")
    suite = Suite([case], checker=PYTHON, limits=limits, assertions=shared)
    return ConformanceCheck(
        f"{name} {'statements' if statements else 'a call'}", Program(source), suite, frozenset([expected])
    )


def _asserted_both(name: str, source: str, expected: Verdict, limits: Limits = _LIMITS) -> list[ConformanceCheck]:
    return [_asserted(name, source, expected, statements=statements, limits=limits) for statements in (False, True)]


def _denied(name: str, attempt: str) -> ConformanceCheck:
    """Return a check that an attack fails.

    attempt   an expression that is true if the attack works, and may raise if it does not
    """
    source = (
        "import ctypes, os, socket\n"
        "libc = ctypes.CDLL(None)\n"
        f"try:\n    worked = bool({attempt})\n"
        "except Exception:\n    worked = False\n"
        "print('escaped' if worked else 'contained')\n"
    )
    # The suite expects the attack to work, so accepted means an escape. Any other verdict passes.
    suite = Suite([Case("", "escaped\n")], checker="tokens", limits=_LIMITS)
    return ConformanceCheck(name, Program(source), suite, frozenset(Verdict) - {Verdict.ACCEPTED})


_SUM = Referee(  # accepts two numbers whose sum is the input
    Program(
        "import sys\ngiven, answer, output = (open(name).read().split() for name in sys.argv[1:])\n"
        "print(int(sum(map(int, output)) == int(given[0]) == sum(map(int, answer))))"
    ),
    RefereeConvention.PRINTED,
)
_GUESSING = Referee(  # lets a program guess the input, and replies whether the input is greater or less
    Program(
        "import sys\nsecret = int(open(sys.argv[1]).read())\nfor line in sys.stdin:\n"
        "    if int(line) == secret: sys.exit(0)\n    print('more' if int(line) < secret else 'less', flush=True)\n"
        "sys.exit(1)"
    )
)

CHECKS: tuple[ConformanceCheck, ...] = (
    # Correct programs are accepted.
    *(
        _prints(f"a {name} program", languages.load(name).SELF_TEST, ("3 4\n", "7\n"), ("-1 1\n", "0\n"), language=name)
        for name in languages.names()
    ),
    _probes("lines are read", "honest/programs/input/stdin"),
    _probes("bytes are read", "honest/programs/bytes/stdin"),
    _probes("descriptors are files", "honest/programs/descriptor/stdin"),
    _prints("text is UTF-8", "print(input()[::-1])", ("héllo 世界\n", "界世 olléh\n")),
    _prints("long integers print", "print(len(str(7 ** 9000)))", ("", "7606\n")),
    _prints(
        "recursion in a thread with a big stack",
        "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(1 << 27)\n"
        "def depth(n):\n    return n and 1 + depth(n - 1)\n"
        "thread = threading.Thread(target=lambda: print(depth(50_000)))\nthread.start()\nthread.join()",
        ("", "50000\n"),
    ),
    _prints(
        "a scratch directory that is empty in each test",
        "import os\nprint(os.path.exists('mine'))\nopen('mine', 'w').close()",
        ("", "False\n"),
        ("", "False\n"),
    ),
    _probes("a function is called", "honest/functions/plain/call"),
    _probes("a method is called", "honest/functions/plain/method"),
    _refereed("a checker program accepts", "print(5, 2)", PROGRAM, _SUM, Verdict.ACCEPTED),
    _refereed(
        "a referee talks",
        "low, high = 0, 100\nwhile True:\n    middle = (low + high) // 2\n    print(middle, flush=True)\n    try:\n"
        "        answer = input()\n    except EOFError:\n        break\n"
        "    low, high = (middle + 1, high) if answer == 'more' else (low, middle)",
        INTERACTIVE,
        _GUESSING,
        Verdict.ACCEPTED,
    ),
    *_asserted_both("a right answer to", "def double(x): return TWO * x", Verdict.ACCEPTED),
    # Failing programs get the right verdict.
    *_asserted_both("a wrong answer to", "def double(x): return x", Verdict.WRONG_ANSWER),
    _asserted("no definition for", "def single(x): return x", Verdict.RUNTIME_ERROR, statements=False),
    *_asserted_both("an exit from", "def double(x): raise SystemExit(0)", Verdict.RUNTIME_ERROR),
    *_asserted_both("a crash in", "import os\ndef double(x): os.kill(os.getpid(), 11)", Verdict.RUNTIME_ERROR),
    *_asserted_both("an endless", "def double(x):\n    while True: pass", Verdict.TIME_LIMIT, _SHORT),
    _refereed("a checker program refuses", "print(5, 3)", PROGRAM, _SUM, Verdict.WRONG_ANSWER),
    _refereed("a referee hears nothing", "pass", INTERACTIVE, _GUESSING, Verdict.WRONG_ANSWER),
    _prints("C++ that does not compile", "int main() { return x; }", expected=Verdict.COMPILE_ERROR, language="cpp"),
    _probes("a wrong answer", "wrong/programs/constant-zero/stdin", Verdict.WRONG_ANSWER),
    _probes("an exception", "wrong/programs/fails-before-output/stdin", Verdict.RUNTIME_ERROR),
    _probes("an exit status", "dodge/errors/exit-status-where-nothing-is-printed/stdin", Verdict.RUNTIME_ERROR),
    _probes("a signal", "forge/signals/segmentation-fault/stdin", Verdict.RUNTIME_ERROR),
    _probes("bad syntax", "wrong/programs/bad-syntax/stdin", Verdict.COMPILE_ERROR),
    _probes("an endless loop", "dodge/timeouts/cancels-the-alarm/stdin", Verdict.TIME_LIMIT, _SHORT),
    _probes("an endless sleep", "dodge/timeouts/sleeps/stdin", Verdict.TIME_LIMIT, _SHORT),
    _prints("too much memory", "x = []\nwhile True: x.append(bytearray(b'x' * 10**6))", expected=Verdict.MEMORY_LIMIT),
    _prints(
        "too much memory in many processes",
        "import os, time\nfor _ in range(6):\n    if os.fork() == 0:\n"
        "        x = bytearray(b'x' * (60 << 20)); time.sleep(1); os._exit(0)\n"
        "for _ in range(6): os.wait()",
        expected=Verdict.MEMORY_LIMIT,
    ),
    _probes("too much output", "dodge/outputs/flood-of-256-mb/stdin", Verdict.OUTPUT_LIMIT),
    _prints(
        "a system call for attackers",
        "import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)",
        expected=Verdict.SANDBOX_VIOLATION,
    ),
    # Programs cannot reach these.
    _denied("host files", "open('/etc/passwd')"),
    _denied("host folders", "os.listdir('/etc')"),
    # Landlock does not hide whether a file exists; there, /proc cannot be listed.
    _denied("names of host files", "os.listdir('/proc') and any(map(os.path.exists, ('/etc/passwd', '/home')))"),
    _denied("other processes", "any(p not in ('1', str(os.getpid())) for p in os.listdir('/proc') if p.isdigit())"),
    _denied("network", "socket.socket(socket.AF_INET)"),
    _denied("namespaces", "libc.unshare(0x10000000) == 0"),
    _denied("capabilities", "'CapEff:\\t0000000000000000' not in open('/proc/self/status').read()"),
    _denied("the interpreter's library", "os.access(os.__file__, os.W_OK) or not os.utime(os.__file__)"),
    _denied(
        "secrets of the environment",
        "set(os.environ) - {'PATH', 'HOME', 'TMPDIR', 'LD_LIBRARY_PATH', 'LANG', 'LC_CTYPE', 'PYTHONIOENCODING',"
        " 'PYTHONHASHSEED', 'OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS', 'MKL_NUM_THREADS'}",
    ),
    _denied("descriptors of the sandbox", "len(os.listdir('/proc/self/fd')) != 4"),
)
