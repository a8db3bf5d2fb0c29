"""A suite's own program judges an output or a conversation. Its failure is not a verdict on the submission."""

import json
from dataclasses import replace
from typing import Any

import pytest
from batch import Answer, judged

from sandbox import Case, Judgement, Limits, Program, Referee, RefereeConvention, RefereeError, Sandbox, Suite, Verdict
from sandbox.json_codec import decode, encode
from sandbox.judge_record import JudgeVerdict, Record

LIMITS = Limits(wall_seconds=5, memory_mb=128)  # long: tables are judged at the same time
SHORT = Limits(wall_seconds=0.3, memory_mb=128)  # where the limit decides; a conversation may take three times as long

# Any two numbers with the given sum. Half of the credit for numbers that are off by one.
SUMMANDS = """
import sys
given, answer, output = (open(name).read().split() for name in sys.argv[1:])
off = abs(int(given[0]) - sum(map(int, output)))
print([1, 0.5][off] if off < 2 else 0)
"""
BY_EXIT_STATUS = """
#include <cstdio>
#include <cstdlib>
int main(int count, char** names) {
    FILE *input = fopen(names[1], "r"), *output = fopen(names[2], "r"), *answer = fopen(names[3], "r");
    int sum, a, b, c, d;
    if (fscanf(input, "%d", &sum) != 1 || fscanf(answer, "%d %d", &c, &d) != 2 || c + d != sum) return 3;
    if (fscanf(output, "%d %d", &a, &b) != 2) { fputs("wrong output format", stderr); return 2; }
    if (a + b == sum) { fputs("ok", stderr); return 0; }
    if (abs(a + b - sum) == 1) return 50 + 75;
    if (abs(a + b - sum) == 2) { fputs("points 0.25 close", stderr); return 7; }
    fprintf(stderr, "wrong answer %d + %d is not %d", a, b, sum);
    return 1;
}
"""


def printed(source: str, limits: Limits = LIMITS) -> Suite:
    referee = Referee(Program(source), RefereeConvention.PRINTED)
    return Suite([Case("7\n", "3 4\n")], checker="program", limits=limits, referee=referee)


def exiting(source: str, language: str = "python") -> Suite:
    return Suite([Case("7\n", "3 4\n")], checker="program", limits=LIMITS, referee=Referee(Program(source, language)))


@pytest.mark.parametrize(
    ("output", "score"),
    [("5 2", 1), ("3 4", 1), ("5 3", 0.5), ("1 1", 0)],
    ids=["right", "as expected", "near", "wrong"],
)
def test_a_checker_that_prints_gives_a_score(box: Sandbox, output: str, score: float) -> None:
    judgement = box.judge(Program(f"print('{output}')"), printed(SUMMANDS))
    assert judgement.accepted == (score == 1)
    assert judgement.score == score
    assert judgement.verdict in (Verdict.ACCEPTED, Verdict.WRONG_ANSWER)


@pytest.mark.parametrize(
    ("output", "score", "said"),
    [
        ("5 2", 1, "ok"),
        ("5 3", 0.75, ""),
        ("5 4", 0.25, "points 0.25 close"),
        ("1 1", 0, "wrong answer 1 + 1 is not 7"),
        ("none", 0, "wrong output format"),
    ],
)
def test_a_checker_with_exit_statuses_of_testlib(box: Sandbox, output: str, score: float, said: str) -> None:
    judgement = box.judge(Program(f"print('{output}')"), exiting(BY_EXIT_STATUS, "cpp"))
    assert (judgement.score, judgement.cases[0].detail) == (score, said)
    assert judgement.accepted == (score == 1)


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        ("1 / 0", Verdict.RUNTIME_ERROR),
        ("print(5, 2)\nwhile True: pass", Verdict.TIME_LIMIT),
        ("(", Verdict.COMPILE_ERROR),
    ],
)
def test_a_program_that_fails_is_not_shown_to_the_checker(box: Sandbox, source: str, verdict: Verdict) -> None:
    assert box.judge(Program(source), printed("print(1)", SHORT)).verdict is verdict


BROKEN = {
    "crash": printed("1 / 0"),
    "crash with the status of a wrong answer": exiting("1 / 0"),
    "nothing said": printed("pass"),
    "words": printed("print('yes')"),
    "two numbers": printed("print(1)\nprint(0)"),
    "more than all": printed("print(2)"),
    "not a number": printed("print('nan')"),
    "does not compile": printed("("),
    "unknown status": exiting("raise SystemExit(200)"),
    "gave up": exiting("raise SystemExit(3)"),
    "killed": exiting("import os\nos.kill(os.getpid(), 9)"),
    "too greedy": printed("x = bytearray(10**10)"),
    "too loud": printed("while True: print('x' * 10**6)"),
}


@judged(
    {name: (Program("print(5, 2)"), suite) for name, suite in BROKEN.items()},
    quick=["crash", "does not compile", "nothing said", "unknown status"],
)
def test_a_checker_that_fails_is_an_error_of_the_suite(answer: Answer) -> None:
    assert isinstance(answer, RefereeError)
    assert "referee" in str(answer)


def test_one_broken_suite_among_many_does_not_stop_the_others(box: Sandbox) -> None:
    pairs = [(Program("print(5, 2)"), suite) for suite in (printed(SUMMANDS), BROKEN["crash"], printed(SUMMANDS))]
    answers = dict(box.judge_many_with_errors(pairs))
    assert isinstance(answers[1], RefereeError)
    assert [isinstance(answers[index], Judgement) for index in (0, 2)] == [True, True]


def test_a_checker_finds_nothing_of_the_program_and_no_network(box: Sandbox) -> None:
    leaving = "import os\nopen('left', 'w').write('x')\nprint(5, 2)"
    looking = """
import os, socket
found = sorted(os.listdir())
try:
    socket.socket(socket.AF_INET)
    found.append("network")
except OSError:
    pass
print(int(found == ["answer.txt", "input.txt", "output.txt", "solution.py"]))
"""
    assert box.judge(Program(leaving), printed(looking)).accepted


def test_a_program_does_not_see_checker_or_answer(box: Sandbox) -> None:
    assert box.judge(
        Program("import os\nprint(os.listdir())"),
        printed("import sys\nprint(int(open(sys.argv[3]).read() == \"['solution.py']\\n\"))"),
    ).accepted


WRONG = [
    ("program", None, None, "needs a referee"),
    ("tokens", Referee(Program("")), None, "needs the checker program or interactive"),
    ("program", Referee(Program("")), "f", "calls a function"),
    ("interactive", Referee(Program(""), RefereeConvention.PRINTED), None, "must be testlib"),
]


@pytest.mark.parametrize(("checker", "referee", "entry_point", "words"), WRONG)
def test_a_suite_that_makes_no_sense_is_refused(
    box: Sandbox, checker: str, referee: Referee | None, entry_point: str | None, words: str
) -> None:
    suite = Suite([Case("[7]", "7")], checker=checker, referee=referee, entry_point=entry_point)
    with pytest.raises(ValueError, match=words):
        box.judge(Program("print(5, 2)"), suite)


# Guess the number in at most ten questions.
GUESSING = """
import sys
secret = int(open(sys.argv[1]).read())
for turn in range(11):
    line = sys.stdin.readline().split()
    if not line:
        sys.exit("unexpected end of file")
    if line[0] == "!":
        sys.stderr.write(f"after {turn} questions")
        sys.exit(int(int(line[1]) != secret))
    print("less" if secret < int(line[1]) else "not less", flush=True)
sys.stderr.write("too many questions")
sys.exit(1)
"""
TALK = Suite(
    [Case("77\n", ""), Case("1\n", ""), Case("1000\n", "")],
    checker="interactive",
    limits=LIMITS,
    referee=Referee(Program(GUESSING)),
)
HALVING = """
low, high = 1, 1001
while high - low > 1:
    middle = (low + high) // 2
    print("?", middle, flush=True)
    low, high = (low, middle) if input() == "less" else (middle, high)
print("!", low)
"""
HALVING_IN_CPP = """
#include <iostream>
#include <string>
int main() {
    int low = 1, high = 1001;
    for (std::string word; high - low > 1;) {
        int middle = (low + high) / 2;
        std::cout << "? " << middle << std::endl;
        std::cin >> word;
        if (word == "less") high = middle;
        else std::cin >> word, low = middle;
    }
    std::cout << "! " << low << std::endl;
}
"""


@pytest.mark.parametrize("program", [Program(HALVING), Program(HALVING_IN_CPP, "cpp")], ids=["python", "cpp"])
def test_a_program_that_converses_correctly_is_accepted(box: Sandbox, program: Program) -> None:
    judgement = box.judge(program, TALK)
    assert judgement.accepted, judgement
    assert "after 10 questions" in {case.detail for case in judgement.cases}


FAILING_TALKS = {
    "a wrong guess": ("print('! 5')", Verdict.WRONG_ANSWER),
    "too many questions": ("while True:\n    print('? 5', flush=True)\n    input()", Verdict.WRONG_ANSWER),
    "a flood of questions": ("while True: print('? 5')", Verdict.WRONG_ANSWER),
    "a wrong guess, then a crash": (
        "print('! 5', flush=True)\nimport time\ntime.sleep(0.2)\n1 / 0",
        Verdict.WRONG_ANSWER,
    ),
    "a wrong guess, then no end": ("print('! 5', flush=True)\nwhile True: pass", Verdict.WRONG_ANSWER),
    "a right guess, then a crash": ("print('! 77', flush=True)\n1 / 0", Verdict.RUNTIME_ERROR),
    "a right guess, then no end": ("print('! 77', flush=True)\nwhile True: pass", Verdict.TIME_LIMIT),
    "a crash": ("1 / 0", Verdict.RUNTIME_ERROR),
    "no word": ("pass", Verdict.WRONG_ANSWER),
    "both wait": ("input()", Verdict.TIME_LIMIT),
    "an endless loop": ("while True: pass", Verdict.TIME_LIMIT),
    "too much memory": ("x = []\nwhile True: x.append(bytearray(10**6))", Verdict.MEMORY_LIMIT),
    "bad syntax": ("(", Verdict.COMPILE_ERROR),
}


@judged(
    {name: (Program(source), replace(TALK, limits=SHORT)) for name, (source, _) in FAILING_TALKS.items()},
    quick=["a wrong guess", "a right guess, then a crash", "a right guess, then no end", "both wait", "no word"],
    then=(Program(HALVING), TALK),
)
def test_the_side_that_ends_a_conversation_first_decides(name: str, judgement: Judgement) -> None:
    assert judgement.verdict is FAILING_TALKS[name][1], judgement


BROKEN_REFEREES = {
    "crash": "1 / 0",
    "crash after the first question": "input()\nint('x')",
    "gave up": "raise SystemExit(3)",
    "endless loop": "while True: pass",
}


@judged(
    {
        name: (Program(HALVING), replace(TALK, cases=TALK.cases[:1], limits=SHORT, referee=Referee(Program(source))))
        for name, source in BROKEN_REFEREES.items()
    },
    quick=["crash after the first question", "gave up"],
    then=(Program(HALVING), TALK),
)
def test_a_referee_that_fails_is_an_error_of_the_suite(answer: Answer) -> None:
    assert isinstance(answer, RefereeError)


def test_the_outputs_that_a_checker_accepts_come_back_on_request(box: Sandbox) -> None:
    prints = (
        "import sys\nn = int(input())\nsys.stdout.write({1: 'b\\n', 3: 'c' * 20_000}.get(n, f'{n}' + 'a' * 16_000))"
    )
    accepts_long = "import sys\nprint(int(open(sys.argv[3]).read()[0] != 'b'))"
    cases = [Case(f"{number}\n", "") for number in range(20)]
    suite = replace(printed(accepts_long), cases=tuple(cases))
    judgement = box.judge(Program(prints), suite, run_all=True, keep_outputs=True)
    assert [case.verdict for case in judgement.cases].count(Verdict.ACCEPTED) == 19
    n_characters = [len(output) for output in judgement.outputs]
    # One was wrong, one is too long, and the last ones do not fit in 256 KiB.
    assert n_characters == [16_001, 0, 16_001, 0, *[16_001] * 6, *[16_002] * 8, 0, 0]
    assert judgement.outputs[2].startswith("2a")
    assert box.judge(Program(prints), suite, run_all=True).outputs == ()


def test_an_output_that_is_not_text_does_not_come_back(box: Sandbox) -> None:
    accepts_all = printed("print(1)")
    assert box.judge(Program("import os\nos.write(1, b'\\xff')"), accepts_all, keep_outputs=True).outputs == ("",)


def test_what_a_program_said_in_a_conversation_is_a_trial_of_its_referee(box: Sandbox) -> None:
    judgement = box.judge(Program(HALVING), TALK, keep_outputs=True)
    said = judgement.outputs
    assert said[1].splitlines()[:2] == ["? 501", "? 251"]
    assert [text.splitlines()[-1] for text in said] == ["! 77", "! 1", "! 1000"]
    assert box.judge(Program("print('!')"), TALK.with_trials(said)).verdict is Verdict.WRONG_ANSWER


def test_a_trial_reaches_neither_the_program_nor_the_files_of_its_referee(box: Sandbox) -> None:
    trial = "the trial"
    looking = "import os, sys\nprint(sys.stdin.read(), sys.argv, os.environ, [open(n).read() for n in os.listdir()])"
    finds_it = "import os\nprint(int(any('the' + ' trial' in open(name).read() for name in os.listdir())))"
    suite = replace(printed(finds_it), cases=(Case("7\n", "", trial),))
    assert box.judge(Program(looking), suite).verdict is Verdict.WRONG_ANSWER


@pytest.mark.parametrize(
    "suite", [TALK, printed(SUMMANDS), Suite([Case("1", "2")]), TALK.with_trials(["! 7", "", "!"])]
)
def test_a_suite_keeps_its_referee_when_written_as_text(suite: Suite) -> None:
    assert Suite.from_json(suite.to_json()) == suite


def test_a_record_may_have_a_referee(box: Sandbox) -> None:
    record: dict[str, Any] = {
        "id": 1,
        "code": "print(5, 3)",
        "kind": "stdin",
        "tests": [{"input": "7\n", "output": "3 4\n", "trial": "5 2\n"}],
        "checker": "program",
        "referee": {"code": SUMMANDS, "convention": "printed"},
    }
    submission = decode(Record, record)
    assert submission.to_suite().trials == ("5 2\n",)
    judgement = box.judge(submission.program, submission.to_suite())
    line = json.loads(json.dumps(encode(JudgeVerdict.from_judgement(submission.id, judgement))))
    assert (line["verdict"], line["passed"], line["score"]) == ("wrong_answer", False, 0.5)
    assert decode(JudgeVerdict, line) == JudgeVerdict.from_judgement(submission.id, judgement)


@pytest.mark.parametrize("wrong", ["text", {"convention": "testlib"}, {"code": "", "convention": "loud"}])
def test_a_record_with_an_unreadable_referee_is_refused(wrong: Any) -> None:
    record = {"id": 1, "code": "", "kind": "stdin", "tests": [{"input": "", "output": ""}], "referee": wrong}
    with pytest.raises(ValueError, match="referee"):
        decode(Record, record)
