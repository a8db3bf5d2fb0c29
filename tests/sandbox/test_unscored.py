"""No submission can choose to be unscored: it is wrong if it makes a sound referee fail, and it pays for its time.

A referee that also fails on the suite's own answer is an error of the suite, as in test_referees.
"""

from dataclasses import replace

import pytest
from batch import Answer, judged

from sandbox import Case, Judgement, Limits, Program, Referee, RefereeConvention, RefereeError, Sandbox, Suite, Verdict
from sandbox.judging.referee_validation import RefereeValidator
from sandbox.program import Outcome, RunResult

LIMITS = Limits(wall_seconds=5, memory_mb=128)  # long: tables are judged at the same time
TRACEBACK = 'Traceback (most recent call last):\\n  File "/tmp/solution.py", line 1, in <module>\\n'


def checked(
    source: str,
    expected: str = "7\n",
    convention: RefereeConvention = RefereeConvention.TESTLIB,
    language: str = "python",
    limits: Limits = LIMITS,
    trial: str = "",
) -> Suite:
    referee = Referee(Program(source, language), convention)
    return Suite([Case("3 4\n", expected, trial)], checker="program", limits=limits, referee=referee)


# Where the testlib convention is Python's `input, output, answer = sys.argv[1:]`.
READS_INT = "import sys\nvalue = int(open(sys.argv[2]).read())\nsys.exit(value != 7)"
PRINTS_INT = "import sys\nvalue = int(open(sys.argv[3]).read())\nprint(int(value == 7))"
REPEATS = """
import sys
text = open(sys.argv[2]).read()
if text.strip() != "7":
    sys.stderr.write("wrong answer: " + text)
    sys.exit(1)
"""
GIVES_UP = "import sys\nsys.exit(0 if open(sys.argv[2]).read().strip() == '7' else 3)"
PRINTS_WORDS = "import sys\ntext = open(sys.argv[3]).read().strip()\nprint(1 if text == '7' else text)"
PRINTS_ALL = "import sys\nprint(1)\nwhile open(sys.argv[3]).read().strip() != '7': print('x' * 10**6)"
IS_GREEDY = "import sys\nx = bytearray(10**10) if open(sys.argv[2]).read().strip() != '7' else 0"
IS_KILLED = "import os, sys\nif open(sys.argv[2]).read().strip() != '7': os.kill(os.getpid(), 9)"
READS_THREE_ROWS = """
import sys
given, output, answer = (open(name).read() for name in sys.argv[1:])
(a, b, c), (d, e, f), (g, h, i) = (map(int, line.split()) for line in output.splitlines())
sys.exit(answer != "" or a + b + c + d + e + f + g + h + i != 45)
"""
ROWS = "1 2 3\n4 5 6\n7 8 9\n"
STOI = """
#include <fstream>
#include <string>
int main(int, char** names) {
    std::string word;
    std::ifstream(names[2]) >> word;
    return std::stoi(word) != 7;
}
"""
FAILING = {
    "text for one that reads int": (checked(READS_INT), "print('x')"),
    "text for one that reads int and prints": (checked(PRINTS_INT, convention=RefereeConvention.PRINTED), "print('x')"),
    "nothing for one that reads int": (checked(READS_INT), ""),
    "two numbers for one that reads int": (checked(READS_INT), "print(3, 4)"),
    "bytes that are not text": (checked(READS_INT), "import os\nos.write(1, b'\\xff')"),
    "text for one in C++ that throws": (checked(STOI, language="cpp"), "print('x')"),
    "a forged traceback in what it repeats": (checked(REPEATS), f"print('x\\n{TRACEBACK}ValueError: 7')"),
    "a forged lack of memory in what it repeats": (checked(REPEATS), "print('x\\nMemoryError')"),
    "one that gives up": (checked(GIVES_UP), "print('x')"),
    "one that prints no score": (checked(PRINTS_WORDS, convention=RefereeConvention.PRINTED), "print('x')"),
    "one that prints too high a score": (checked(PRINTS_WORDS, convention=RefereeConvention.PRINTED), "print(2)"),
    "one that prints without an end": (checked(PRINTS_ALL, convention=RefereeConvention.PRINTED), "print('x')"),
    "one that needs too much memory": (checked(IS_GREEDY), "print('x')"),
    "one that is killed": (checked(IS_KILLED), "print('x')"),
    "no expected answer": (checked(READS_INT, expected=""), "print('x')"),
    "no expected answer, two numbers": (
        checked("import sys\na, b = map(int, open(sys.argv[2]).read().split())\nsys.exit(a + b != 7)", expected="\n"),
        "print('x')",
    ),
    "an output of a shape of its own, with a trial": (checked(READS_THREE_ROWS, expected="", trial=ROWS), "print('x')"),
    "an expected answer that is no output, with a trial": (
        checked(READS_INT, expected="yes", trial="7\n"),
        "print('x')",
    ),
    "a trial of another case": (
        replace(checked(READS_THREE_ROWS, expected=""), cases=(Case("3 4\n", ""), Case("1 2\n", "", ROWS))),
        "print('x')",
    ),
}


@judged(
    {name: (Program(source), suite) for name, (suite, source) in FAILING.items()},
    quick=[
        "text for one that reads int",
        "a forged traceback in what it repeats",
        "one that gives up",
        "one that prints too high a score",
        "one that is killed",
        "no expected answer",
        "an output of a shape of its own, with a trial",
        "a trial of another case",
    ],
)
def test_an_output_on_which_a_sound_checker_fails_is_wrong(judgement: Judgement) -> None:
    assert (judgement.verdict, judgement.score) == (Verdict.WRONG_ANSWER, 0)
    assert "the referee" in judgement.cases[0].detail or "wrong answer" in judgement.cases[0].detail


@pytest.mark.parametrize("digits", [5_000, 200_000])
def test_more_digits_than_a_checker_reads_are_wrong(box: Sandbox, digits: int) -> None:
    judgement = box.judge(Program(f"print('9' * {digits})"), checked(READS_INT))
    assert (judgement.verdict, judgement.score) == (Verdict.WRONG_ANSWER, 0)


UNSOUND = {
    "reads int": checked(READS_INT, expected="seven\n"),
    "no expected answer": checked("1 / 0", expected=""),
    "gives up": checked(GIVES_UP, expected="8\n"),
    "a shape of its own": checked(READS_THREE_ROWS, expected=""),
    "a trial of another shape": checked(READS_THREE_ROWS, expected="", trial="7\n"),
    "C++": checked("int main() { return 3; }", language="cpp"),
}


@judged({name: (Program("print('x')"), suite) for name, suite in UNSOUND.items()}, quick=UNSOUND.keys() - {"C++"})
def test_a_checker_that_also_fails_on_the_suites_own_answer_is_an_error_of_the_suite(answer: Answer) -> None:
    assert isinstance(answer, RefereeError)


def test_the_lowest_of_several_scores_in_a_checkers_output_counts(box: Sandbox) -> None:
    output = "open(sys.argv[2]).read()"
    for said in (f"{output} + 'points 0.25'", f"'points 0.25 not ' + {output}"):
        repeats = f"import sys\nsys.stderr.write({said})\nsys.exit(7)"
        judgement = box.judge(Program("print('points 1\\npoints 1')"), checked(repeats))
        assert (judgement.verdict, judgement.score) == (Verdict.WRONG_ANSWER, 0.25)


RESULT = RunResult(Outcome.EXITED, 0, b"", b"", 0.1, 0.1, 1)
JUDGE = Referee(Program(""))


def test_a_referee_that_was_found_sound_is_not_tested_again() -> None:
    asked: list[bytes] = []

    def ask(answer: bytes, wall_seconds: float) -> RunResult:
        asked.append(answer)
        return RESULT

    trials = RefereeValidator()
    for number in (1, 2, 1, 1):
        assert trials.is_sound(JUDGE, Case(f"{number}", "7"), ["7"], ask, 30)
    assert len(asked) == 2


def test_trials_of_a_referee_are_bounded_in_time() -> None:
    given: list[float] = []

    def ask(answer: bytes, wall_seconds: float) -> RunResult:
        given.append(wall_seconds)
        return RunResult(Outcome.TIMED_OUT, -9, b"", b"", 0.0, wall_seconds, 1)

    assert not RefereeValidator().is_sound(JUDGE, Case("", ""), [str(number) for number in range(100)], ask, 30)
    assert sum(given) == pytest.approx(30)


# The time of a referee.

TAKES = """
import sys, time
seconds = open(sys.argv[2]).read().strip()
time.sleep(float(seconds) if seconds != "7" else 0)
"""


def slow_checker(n_cases: int, budget_seconds: float, source: str = TAKES, wall_seconds: float = 5) -> Suite:
    limits = Limits(wall_seconds=wall_seconds, memory_mb=128, budget_seconds=budget_seconds)
    return Suite([Case("", "7")] * n_cases, checker="program", limits=limits, referee=Referee(Program(source)))


def test_a_checker_that_is_kept_busy_until_the_budget_is_used_up_is_a_time_limit(box: Sandbox) -> None:
    judgement = box.judge(Program("print(60)"), slow_checker(1, budget_seconds=1.5))
    assert judgement.verdict is Verdict.TIME_LIMIT
    assert "referee" in judgement.cases[0].detail
    assert judgement.cases[0].wall_seconds < 1.5
    assert box.judge(Program("print(7)"), slow_checker(9, budget_seconds=30)).accepted


def test_the_time_of_checkers_adds_up(box: Sandbox) -> None:
    judgement = box.judge(Program("print(0.7)"), slow_checker(10, budget_seconds=2))
    assert judgement.verdict is Verdict.TIME_LIMIT
    assert 2 <= len(judgement.cases) <= 3
    assert all(case.verdict is Verdict.ACCEPTED for case in judgement.cases[:-1])
    assert sum(case.wall_seconds for case in judgement.cases) < 1  # the program's own


def test_a_checker_that_is_too_slow_for_the_suites_own_answer_is_an_error_of_the_suite(box: Sandbox) -> None:
    suite = slow_checker(1, budget_seconds=1, source="while True: pass", wall_seconds=0.3)
    with pytest.raises(RefereeError):
        box.judge(Program("print(7)"), suite)


# Conversations.

GUESSING = """
import sys
secret = int(open(sys.argv[1]).read())
for _ in range(20):
    guess = int(input())
    if guess == secret:
        sys.exit(0)
    print("less" if secret < guess else "more", flush=True)
sys.exit(1)
"""
GUESSING_IN_CPP = """
#include <fstream>
#include <iostream>
#include <string>
int main(int, char** names) {
    int secret;
    std::ifstream(names[1]) >> secret;
    for (std::string word; std::cin >> word;) {
        int guess = std::stoi(word);
        if (guess == secret) return 0;
        std::cout << (secret < guess ? "less" : "more") << std::endl;
    }
    return 1;
}
"""
REPEATING = """
import sys
text = sys.stdin.read()
if text.strip() != "77":
    sys.stderr.write(text)
    sys.exit(1)
"""
MARKED = "\n".join(
    (
        "import sys",
        "while True:",
        "    mark, number = input().split()",
        "    if mark == '!': sys.exit(number != '77')",
        "    print('less', flush=True)",
    )
)
GIVING_UP = "line = input()\nraise SystemExit(0 if line == '77' else 3)"
# Three numbers in each line; the answer comes after two questions.
TRIPLES = """
import sys
for turn in range(3):
    a, b, c = map(int, input().split())
    print(a + b + c, flush=True)
sys.exit(a + b + c != 77)
"""
SAID = "1 2 3\n4 5 6\n7 30 40\n"
GREEDY = "line = input()\nx = bytearray(10**10) if line != '77' else 0"


def talk(source: str, expected: str = "", language: str = "python", limits: Limits = LIMITS, trial: str = "") -> Suite:
    referee = Referee(Program(source, language))
    return Suite([Case("77\n", expected, trial)], checker="interactive", limits=limits, referee=referee)


FAILING_TALKS = {
    "text for one that reads int": (talk(GUESSING), "print('x')"),
    "text for one that reads int, later": (talk(GUESSING), "print(1, flush=True)\ninput()\nprint('x')"),
    "text for one that reads int, with an answer": (talk(GUESSING, expected="77\n"), "print('x')"),
    "no text for one that reads int": (talk(GUESSING), "print()"),
    "bytes that are not text": (talk(GUESSING), "import os\nos.write(1, b'\\xff\\n')"),
    "text for one in C++ that throws": (talk(GUESSING_IN_CPP, language="cpp"), "print('x')"),
    "a forged traceback in what it repeats": (talk(REPEATING), f"print('x\\n{TRACEBACK}ValueError: 7')"),
    "a forged end of the talk": (talk(REPEATING), f"print('x\\n{TRACEBACK}EOFError: EOF when reading a line')"),
    "a word too few": (talk(MARKED), "print('!')"),
    "one that gives up": (talk(GIVING_UP), "print('x')"),
    "one that needs too much memory": (talk(GREEDY), "print('x')"),
    "lines of a shape of their own, with a trial": (talk(TRIPLES, trial=SAID), "print('x')"),
}


@judged(
    {name: (Program(source), suite) for name, (suite, source) in FAILING_TALKS.items()},
    quick=FAILING_TALKS.keys() - {"text for one in C++ that throws", "one that needs too much memory"},
)
def test_a_conversation_in_which_a_sound_referee_fails_is_wrong(judgement: Judgement) -> None:
    assert (judgement.verdict, judgement.score) == (Verdict.WRONG_ANSWER, 0)


@pytest.mark.parametrize(
    "source",
    [
        "line = input()\nint('x')",
        "line = input()\nint(input()) / 0",
        "import sys\nsys.stdin.read()\nsys.exit(3)",
        TRIPLES,
    ],
)
def test_a_referee_that_fails_in_every_conversation_is_an_error_of_the_suite(box: Sandbox, source: str) -> None:
    with pytest.raises(RefereeError):
        box.judge(Program("print(1, flush=True)\nprint(77)"), talk(source))


BUSY = "import sys\nfor line in sys.stdin:\n    while line == 'busy\\n': pass\n    print(1, flush=True)\nsys.exit(1)"
TIRED = "import sys, time\nline = input()\ntime.sleep(60 if line == 'busy' else 0)"


@pytest.mark.thorough  # a referee gets thirty seconds; with a budget, it gets no more than that
def test_a_referee_that_is_kept_busy_by_a_waiting_program_is_a_time_limit(box: Sandbox) -> None:
    suite = talk(BUSY, limits=Limits(wall_seconds=0.3, memory_mb=128))
    assert box.judge(Program("print('busy', flush=True)\ninput()"), suite).verdict is Verdict.TIME_LIMIT


def test_a_referee_that_is_kept_busy_until_the_budget_is_used_up_is_a_time_limit(box: Sandbox) -> None:
    limits = Limits(wall_seconds=1, memory_mb=128, budget_seconds=1.5)
    judgement = box.judge(Program("print('busy')"), talk(TIRED, limits=limits))
    assert judgement.verdict is Verdict.TIME_LIMIT
    assert judgement.cases[0].wall_seconds < 1
    assert box.judge(Program("print('idle')"), talk(TIRED, limits=limits)).accepted


def test_a_waiting_program_gets_no_more_than_the_budget(box: Sandbox) -> None:
    limits = Limits(wall_seconds=20, memory_mb=128, budget_seconds=1)
    judgement = box.judge(Program("input()"), talk(GUESSING, limits=limits))
    assert judgement.verdict is Verdict.TIME_LIMIT
    assert judgement.cases[0].wall_seconds < 20


# Pipes that both sides hold.

LINGERS = GUESSING.replace("sys.exit(0)", "(print('yes', flush=True), __import__('time').sleep(0.3), sys.exit(0))")
ASYNCHRONOUS = """
import asyncio, sys

async def main():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    low, high, word = 1, 1001, b""
    while word != b"yes":
        middle = (low + high) // 2
        writer.write(b"%d\\n" % middle)
        await writer.drain()
        word = (await reader.readline()).strip()
        low, high = (low, middle) if word == b"less" else (middle, high)

asyncio.run(main())
"""
ON_PIPES = {
    "stdin does not block": "fcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK)",
    "stdout does not block": "fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)",
    "packets": "for d in (0, 1): fcntl.fcntl(d, fcntl.F_SETFL, os.O_DIRECT)",
    "signals": "for d in (0, 1): fcntl.fcntl(d, fcntl.F_SETFL, os.O_ASYNC)",
    "small pipes": "for d in (0, 1): fcntl.fcntl(d, 1031, 4096)",
    "locks": "for d in (0, 1): fcntl.flock(d, fcntl.LOCK_EX)",
    "the other end of stdin": "d = os.open('/proc/self/fd/0', os.O_WRONLY | os.O_NONBLOCK)\n"
    "while True: os.write(d, b'x' * 4096)",
}


def test_an_asynchronous_program_converses_like_any_other(box: Sandbox) -> None:
    judgement = box.judge(Program(ASYNCHRONOUS), talk(LINGERS))
    assert judgement.accepted, judgement


def attempting(source: str) -> Program:
    return Program(f"import fcntl, os\ntry:\n    exec({source!r})\nexcept OSError: pass\nos.write(1, b'77\\n')")


@judged({name: (attempting(source), talk(LINGERS)) for name, source in ON_PIPES.items()})
def test_what_a_program_does_to_its_pipes_does_not_affect_us(judgement: Judgement) -> None:
    assert judgement.accepted, judgement


def test_output_written_in_packets_arrives_complete(box: Sandbox) -> None:
    byte_by_byte = "import os, sys\ntext = b''.join(iter(lambda: os.read(0, 1), b''))\nsys.exit(text != b'7' * 99)"
    source = "import fcntl, os\nfcntl.fcntl(1, fcntl.F_SETFL, os.O_DIRECT)\nfor _ in range(33): os.write(1, b'777')"
    assert box.judge(Program(source), talk(byte_by_byte)).accepted


@pytest.mark.parametrize("memory_mb", [32, pytest.param(64, marks=pytest.mark.thorough)])
def test_a_program_whose_source_does_not_fit_exceeds_its_memory_limit(box: Sandbox, memory_mb: int) -> None:
    suite = Suite([Case("", "7\n")], limits=Limits(wall_seconds=5, memory_mb=memory_mb))
    program = Program("print(7)\n#" + "\U0001f600" * (15 << 20))
    assert box.judge(program, suite).verdict is Verdict.MEMORY_LIMIT


@pytest.mark.thorough
def test_a_program_whose_source_does_not_fit_also_fails_in_a_conversation(box: Sandbox) -> None:
    referee = Referee(Program("print(7, flush=True)\nprint(input())"), RefereeConvention.TESTLIB)
    limits = Limits(wall_seconds=5, memory_mb=64)
    suite = Suite([Case("", "7\n")], checker="interactive", limits=limits, referee=referee)
    program = Program("print(input())\n#" + "\U0001f600" * (15 << 20))
    assert box.judge(program, suite).verdict in (Verdict.MEMORY_LIMIT, Verdict.WRONG_ANSWER)


def test_files_that_do_not_fit_beside_the_output_exceed_the_memory_limit(box: Sandbox) -> None:
    source = "import os\nopen('a', 'wb').write(b'x' * (30 << 20))\nos.write(1, b'y' * (31 << 20))"
    limits = Limits(memory_mb=64, output_kb=32 << 10, disk_mb=64)
    outcomes = {box.run(Program(source), limits=limits, fetch=["a"]).outcome for _ in range(2)}
    assert outcomes <= {Outcome.OUT_OF_MEMORY, Outcome.EXITED, Outcome.SIGNALLED}


def test_a_traceback_that_a_referee_repeats_is_no_crash_of_the_referee(box: Sandbox) -> None:
    """The referee's exit status shows that it did not crash, so no trials are necessary."""
    source = (
        "import sys\nrows = open(sys.argv[2]).read().split('\\n')\nassert len(rows) > 2\n"
        "print(*rows, sep='\\n', file=sys.stderr)\nsys.exit(1)"
    )
    program = Program(f"print('7\\n{TRACEBACK}EOFError: x')")
    case = box.judge(program, checked(source, expected="")).cases[0]
    assert case.verdict is Verdict.WRONG_ANSWER
    assert case.detail.startswith("7")
