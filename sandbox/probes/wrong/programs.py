"""Submissions with ordinary mistakes."""

from sandbox.probes.probe import (
    ENTRY,
    FUNCTIONS,
    STDIN,
    Group,
    JudgeProbe,
    ProbeClass,
    ProbeProblem,
    Submissions,
    format_completion,
    make_source_probe,
    make_stdin_problem,
)

_SUM = make_stdin_problem(
    "total",
    {"3\n4 5 -2\n": "7\n", "2\n10 20\n": "30\n", "1\n-6\n": "-6\n"},
    "n = int(input())\nprint(sum(map(int, input().split())))\n",
)
_READ = "n = int(input())\nvalues = list(map(int, input().split()))\n"


def _make_sum_probe(name: str, source: str, *, is_partial: bool = False, seconds: float = 1.0) -> JudgeProbe:
    """Return a probe with a wrong program for the sum of some numbers."""
    return JudgeProbe(
        name, STDIN, lambda _: Submissions(_SUM, (format_completion(source),)), is_partial=is_partial, seconds=seconds
    )


def _make_wrapper_probe(name: str, body: str) -> JudgeProbe:
    """Return a probe whose function alters the reference's return value, RIGHT(*values)."""

    def make(problem: ProbeProblem) -> Submissions:
        source = problem.reference.replace(f"def {ENTRY}(", "def RIGHT(") + f"\ndef {ENTRY}(*values):\n    {body}\n"
        return Submissions(problem, (format_completion(problem.adapt_source(source)),))

    return JudgeProbe(name, FUNCTIONS, make)


CLASS = ProbeClass(
    Group.WRONG,
    "programs",
    why="The judge accepts a program that does not solve the problem.",
    remedy="Compare every output exactly, on tests that reveal such mistakes.",
    source="ours",
    probes=(
        _make_sum_probe("off-by-one", _READ + "print(sum(values) + 1)"),
        _make_sum_probe("wrong-sign", _READ + "print(-sum(values))"),
        _make_sum_probe("absolute-values", _READ + "print(sum(map(abs, values)))", is_partial=True),
        _make_sum_probe("first-item-only", _READ + "print(values[0])", is_partial=True),
        _make_sum_probe("greatest", _READ + "print(max(values))", is_partial=True),
        _make_sum_probe("without-the-last", _READ + "print(sum(values[:-1]))"),
        _make_sum_probe("reads-one-line", "print(int(input()))"),
        _make_sum_probe("constant-zero", "print(0)"),
        _make_sum_probe("echo", "import sys\nprint(sys.stdin.read())"),
        _make_sum_probe(
            "prompt-printed", "n = int(input('n: '))\nprint('sum:', sum(map(int, input('values: ').split())))"
        ),
        _make_sum_probe("answer-on-stderr", f"import sys\n{_READ}print(sum(values), file=sys.stderr)"),
        _make_sum_probe("answer-in-a-file", f"{_READ}open('output.txt', 'w').write(str(sum(values)))"),
        _make_sum_probe(
            "defines-only", "def solve():\n    n = int(input())\n    print(sum(map(int, input().split())))"
        ),
        _make_sum_probe("other-language", "#include <iostream>\nint main() { int a; std::cin >> a; std::cout << a; }"),
        _make_sum_probe("bad-syntax", "n = int(input()\nprint(n)"),
        _make_sum_probe("endless-recursion", "def solve():\n    return solve()\nprint(solve())"),
        _make_sum_probe("fails-before-output", _READ + "print(1 / 0, sum(values))"),
        _make_sum_probe("debugging-output", _READ + "print('values', values)\nprint(sum(values))"),
        _make_wrapper_probe("returns-none", "RIGHT(*values)"),
        _make_wrapper_probe("prints-instead", "print(RIGHT(*values))"),
        _make_wrapper_probe("wrapped-in-a-tuple", "return (RIGHT(*values), 1)"),
        _make_wrapper_probe("as-text", "return 'result: %r' % (RIGHT(*values),)"),
        make_source_probe(
            "too-many-parameters", f"def {ENTRY}(first, second, third, fourth, fifth): return 1", FUNCTIONS
        ),
        make_source_probe("is-no-function", f"{ENTRY} = 'no answer'", FUNCTIONS),
    ),
)
