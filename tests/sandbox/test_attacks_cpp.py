"""Hostile C++ programs get nothing, whoever runs the sandbox, nor do programs that try to fool a referee."""

import os
import shutil
import subprocess
from pathlib import Path

import confined
import pytest
from batch import HARMLESS, judged
from hostile import LIMITS, attacks, verdicts_of_failure

from sandbox import Case, Judgement, Limits, Program, RefereeError, Sandbox, Suite
from sandbox.suite import Referee, RefereeConvention

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
ATTACKS = attacks("cpp")
SHORT = Limits(wall_seconds=0.3, memory_mb=256)
ADDS = Program("#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; }", "cpp")
X86_ONLY = {"calls_of_32_bit", "calls_of_x32", "code_of_32_bit"}
# What only a compiled program can try, or what only a compiler can be made to do.
QUICK = {
    *X86_ONLY,
    "host_seen_by_the_compiler",
    "init_is_looked_at",
    "late_by_executing_itself",
    "message_by_text_of_the_executable",
    "privileges_after_an_exec",
    "right_answer_then_a_crash",
}


@judged(ATTACKS, quick=QUICK, run_all=True, then=(ADDS, HARMLESS))
def test_an_attack_fails_and_the_sandbox_lives_on(name: str, judgement: Judgement) -> None:
    if name in X86_ONLY and os.uname().machine != "x86_64":
        pytest.skip("written in the machine language of x86-64")
    program, suite = ATTACKS[name]
    assert {case.verdict.value for case in judgement.cases} <= verdicts_of_failure(program), judgement
    assert len(judgement.cases) == len(suite.cases)


STRINGS = "#define S(x) #x x\n#define A(x) S(x) S(x)\n#define B(x) A(A(x))\n#define C(x) B(B(x))\n"
BOMBS = {
    "it includes itself": "#include __FILE__\nint main() {}",
    "it includes an endless device": '#include "/dev/zero"\nint main() {}',
    "files of the host": '#include "/etc/passwd"\nint main() {}',
    "an endless device in assembly": 'asm(".incbin \\"/dev/zero\\""); int main() {}',
    "repetition in assembly": 'asm(".rept 1000000000\\n.rept 1000\\nnop\\n.endr\\n.endr"); int main() {}',
    "recursion in assembly": 'asm(".macro a\\na\\na\\n.endm\\na"); int main() {}',
    "sixteen gigabytes in assembly": 'asm(".fill 2000000000, 8, 1"); int main() {}',
    "deep templates": "template <int N> int f() { return f<N - 1>(); }\nint main() { return f<9999>(); }",
    "endless constants": "constexpr long f() { for (long i = 0;; i++) {} }\nconstexpr long x = f();\nint main() {}",
    "doubled text": STRINGS + "const char *s = C(C(C(C(1)))); int main() {}",
    "a huge array": "int a[1000000000] = {1}; int main() { return a[5]; }",
    "more than the address space": "char a[1ul << 62]; int main() { return a[5]; }",
    "thousands of errors": "".join(f"x{number} y;\n" for number in range(3000)),
    "nothing": "",
    "no main": "int f() { return 1; }",
}


@judged(
    {name: (Program(source, "cpp"), Suite([Case("", "ESCAPED")], limits=LIMITS)) for name, source in BOMBS.items()},
    quick=["it includes itself", "an endless device in assembly", "deep templates", "no main"],
    then=(ADDS, HARMLESS),
)
def test_a_program_that_overwhelms_the_compiler_is_only_a_bad_program(judgement: Judgement) -> None:
    assert judgement.verdict.value == "compile_error"


def test_compiler_messages_are_bounded(box: Sandbox) -> None:
    line = '_Pragma("message(\\"' + "x" * 1000 + '\\")") '
    source = f"#define X {line}\n#define Y {'X ' * 99}\n{'Y ' * 99}\nint main( {{}}"
    words = box.run(Program(source, "cpp"))
    assert len(words.stderr) < 1 << 20


# Referees.

WORDS = Program(
    """
#include <fstream>
#include <iostream>
int main(int, char** names) {
    std::ifstream output(names[2]), answer(names[3]);
    std::string found, expected;
    getline(output, found), getline(answer, expected);
    if (found == expected) return 0;
    std::cerr << "wrong answer expected " << expected << " found " << found << std::endl;
    return 1;
}""",
    "cpp",
)
GUESSED = Program(
    """
import sys
for line in sys.stdin:
    print("no", flush=True)
    if line.strip() == "7":
        sys.exit(0)
sys.exit(1)
"""
)


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        "MemoryError",
        "std::bad_alloc",
        "points 1",
        "ok",
        "\x1b[2Jok",
        "-1 /dev/null",
    ],
)
def test_a_referee_that_repeats_what_was_printed_stays_a_referee(box: Sandbox, line: str) -> None:
    suite = Suite([Case("", "7\n")], checker="program", limits=LIMITS, referee=Referee(WORDS))
    judgement = box.judge(Program(f"print({line!r})"), suite)
    assert judgement.verdict.value == "wrong_answer"
    assert judgement.score == 0


def test_a_referee_does_not_find_what_a_program_has_left_for_it(box: Sandbox) -> None:
    source = "\n".join(
        f"open({name!r}, 'w').write('1')" for name in ("answer.txt", "input.txt", "output.txt", "sys.py", "solution.py")
    )
    looks = Program(
        "import os, sys\nprint(int(sys.argv[1:] != ['input.txt', 'answer.txt', 'output.txt']"
        " or len(os.listdir()) != 4 or open('answer.txt').read() != '7'))"
    )
    suite = Suite([Case("", "7")], checker="program", limits=LIMITS, referee=Referee(looks, RefereeConvention.PRINTED))
    assert box.judge(Program(source), suite).verdict.value == "wrong_answer"


@pytest.mark.parametrize(
    "source",
    ["import os\nwhile True: os.write(1, b'1' * 65536)", "while True: print(1)", "", "print(8)\nprint(9)"],
    ids=["endless line", "endless lines", "nothing", "wrong"],
)
def test_a_program_cannot_make_a_sound_referee_fail(box: Sandbox, source: str) -> None:
    suite = Suite([Case("", "")], checker="interactive", limits=SHORT, referee=Referee(GUESSED))
    assert box.judge(Program(source), suite).verdict.value in {"wrong_answer", "time_limit", "output_limit"}
    assert box.judge(Program("print(7)"), suite).accepted


def test_a_program_sees_nothing_of_the_referee_it_talks_to(box: Sandbox) -> None:
    source = (
        "import os\nfound = [p for p in os.listdir('/proc') if p.isdigit() and p not in ('1', str(os.getpid()))]\n"
        "found += [name for name in os.listdir() if name != 'solution.py']\n"
        "found += os.listdir('/proc/self/fd')[4:]\nprint(8 if found else 7)"
    )
    suite = Suite([Case("", "")], checker="interactive", limits=LIMITS, referee=Referee(GUESSED))
    assert box.judge(Program(source), suite).accepted


def crashes_when_accepted(statement: str) -> Program:
    source = f'#include <cstdlib>\n#include <unistd.h>\nint main() {{ write(1, "7\\n", 2); {statement} }}'
    return Program(source, "cpp")


@judged(
    {
        statement: (
            crashes_when_accepted(statement),
            Suite([Case("", "")], checker="interactive", limits=SHORT, referee=Referee(GUESSED)),
        )
        for statement in ("abort();", "return 1;", "for (;;) {}", "sleep(9);")
    },
    quick=["abort();", "sleep(9);"],
)
def test_an_accepted_conversation_does_not_excuse_a_crash(judgement: Judgement) -> None:
    assert judgement.verdict.value in {"runtime_error", "time_limit"}


def test_a_referee_that_crashes_is_the_fault_of_the_suite(box: Sandbox) -> None:
    crashes = Referee(Program("#include <cstdlib>\nint main() { abort(); }", "cpp"))
    with pytest.raises(RefereeError):
        box.judge(Program("print(7)"), Suite([Case("", "7")], checker="program", referee=crashes))


# Fetched files.


@pytest.mark.parametrize(
    "source",
    [
        "for name in names: os.truncate(os.open(name, os.O_CREAT | os.O_RDWR), 16 << 20)",
        "os.truncate(os.open('first', os.O_CREAT | os.O_RDWR), 16 << 20)\nfor name in names: os.link('first', name)",
        "for name in names[:9]: open(name, 'wb').write(b'x' * (14 << 20))",
        "for name in names: os.mkfifo(name)",
        "for name in names: os.symlink('/proc/self/mem', name)",
    ],
    ids=["holes", "one file, many names", "a full disk", "pipes", "links"],
)
def test_too_large_fetched_files_are_the_programs_fault(box: Sandbox, source: str) -> None:
    names = [f"file{number}" for number in range(100)]
    program = Program(f"import os\nnames = [f'file{{number}}' for number in range(100)]\n{source}")
    result = box.run(program, limits=Limits(memory_mb=256, disk_mb=128), fetch=names)
    assert sum(map(len, result.files.values())) <= 256 << 20
    assert box.judge(ADDS, HARMLESS).accepted


# An ordinary user, whose programs have the uid of the processes that watch them.

JUDGE = """
import sys
sys.path.insert(0, sys.argv[1])
from sandbox import BackendUnavailable, Case, Limits, Program, Sandbox, Suite
try:
    box = Sandbox(workers=1)
except BackendUnavailable as error:
    print("refused:", error)
    raise SystemExit
for source in sys.stdin.read().split("\\0"):
    twice = Suite([Case("1", "ESCAPED"), Case("2", "ESCAPED")], checker="tokens", limits=Limits(wall_seconds=5))
    print(*(case.verdict.value for case in box.judge(Program(source, "cpp"), twice, run_all=True).cases))
box.close()
"""
THREADS = """
#include <cstdio>
#include <thread>
#include <vector>
int main() {
    std::vector<std::thread> threads;
    for (int number = 0; number < 20; number++) threads.emplace_back([] {});
    for (auto& thread : threads) thread.join();
    puts("ESCAPED");
}"""


@pytest.fixture
def ordinary(tmp_path: Path) -> list[str]:
    """Return a command that judges what it reads, as an ordinary user."""
    return [confined.interpreter(), "-c", JUDGE, str(confined.install(tmp_path))]


@pytest.mark.parametrize(
    "prefixes",
    [
        ("init_is_looked_at", "message_by_text"),
        pytest.param(("init_", "message_", "privileges_"), marks=pytest.mark.thorough),
    ],
    ids=["some", "all"],
)
def test_attacks_fail_and_threads_run_for_an_ordinary_user_too(ordinary: list[str], prefixes: tuple[str, ...]) -> None:
    names = [name for name in ATTACKS if name.startswith(prefixes)]
    names = [name for name in names if name != "message_by_a_full_disk"]  # needs a cgroup to be noticed
    sources = [THREADS, *(ATTACKS[name][0].source for name in names)]
    how = {"input": "\0".join(sources), "capture_output": True, "text": True, "cwd": "/", "check": False}
    done = subprocess.run(ordinary, user=confined.ordinary_user(), **how)
    if done.stdout.startswith("refused:"):
        pytest.skip("this machine forbids user namespaces to ordinary users")
    assert done.returncode == 0, done.stderr
    threads, *others = done.stdout.splitlines()
    assert threads == "accepted accepted"
    seen = {name: set(line.split()) for name, line in zip(names, others, strict=True)}
    assert {name: verdicts for name, verdicts in seen.items() if "accepted" in verdicts} == {}
