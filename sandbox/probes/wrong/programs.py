"""Programs with ordinary mistakes."""

from sandbox.probes.probe import (
    ENTRY,
    FUNCTIONS,
    STDIN,
    Group,
    JudgeProbe,
    ProbeClass,
    ProbeProblem,
    Submissions,
    fenced,
    stdin_problem,
    submits,
)

_SUM = stdin_problem(
    "total",
    {"3\n4 5 -2\n": "7\n", "2\n10 20\n": "30\n", "1\n-6\n": "-6\n"},
    "n = int(input())\nprint(sum(map(int, input().split())))\n",
)
_READ = "n = int(input())\nvalues = list(map(int, input().split()))\n"


def _sums(name: str, source: str, *, is_partial: bool = False, seconds: float = 1.0) -> JudgeProbe:
    """Return a probe with a wrong program for the sum of some numbers."""
    return JudgeProbe(
        name, STDIN, lambda _: Submissions(_SUM, (fenced(source),)), is_partial=is_partial, seconds=seconds
    )


def _wraps(name: str, body: str) -> JudgeProbe:
    """Return a probe whose function alters the reference's return value, RIGHT(*values)."""

    def make(problem: ProbeProblem) -> Submissions:
        source = problem.reference.replace(f"def {ENTRY}(", "def RIGHT(") + f"\ndef {ENTRY}(*values):\n    {body}\n"
        return Submissions(problem, (fenced(problem.program(source)),))

    return JudgeProbe(name, FUNCTIONS, make)


CLASS = ProbeClass(
    Group.WRONG,
    "programs",
    why="The judge accepts a program that does not solve the problem.",
    remedy="Compare every output exactly, on tests that reveal such mistakes.",
    source="ours",
    probes=(
        _sums("off-by-one", _READ + "print(sum(values) + 1)"),
        _sums("wrong-sign", _READ + "print(-sum(values))"),
        _sums("absolute-values", _READ + "print(sum(map(abs, values)))", is_partial=True),
        _sums("first-item-only", _READ + "print(values[0])", is_partial=True),
        _sums("greatest", _READ + "print(max(values))", is_partial=True),
        _sums("without-the-last", _READ + "print(sum(values[:-1]))"),
        _sums("reads-one-line", "print(int(input()))"),
        _sums("constant-zero", "print(0)"),
        _sums("echo", "import sys\nprint(sys.stdin.read())"),
        _sums("prompt-printed", "n = int(input('n: '))\nprint('sum:', sum(map(int, input('values: ').split())))"),
        _sums("answer-on-stderr", f"import sys\n{_READ}print(sum(values), file=sys.stderr)"),
        _sums("answer-in-a-file", f"{_READ}open('output.txt', 'w').write(str(sum(values)))"),
        _sums("defines-only", "def solve():\n    n = int(input())\n    print(sum(map(int, input().split())))"),
        _sums("other-language", "#include <iostream>\nint main() { int a; std::cin >> a; std::cout << a; }"),
        _sums("bad-syntax", "n = int(input()\nprint(n)"),
        _sums("endless-recursion", "def solve():\n    return solve()\nprint(solve())"),
        _sums("fails-before-output", _READ + "print(1 / 0, sum(values))"),
        _sums("debugging-output", _READ + "print('values', values)\nprint(sum(values))"),
        _wraps("returns-none", "RIGHT(*values)"),
        _wraps("prints-instead", "print(RIGHT(*values))"),
        _wraps("wrapped-in-a-tuple", "return (RIGHT(*values), 1)"),
        _wraps("as-text", "return 'result: %r' % (RIGHT(*values),)"),
        submits("too-many-parameters", f"def {ENTRY}(first, second, third, fourth, fifth): return 1", FUNCTIONS),
        submits("is-no-function", f"{ENTRY} = 'no answer'", FUNCTIONS),
    ),
)  # fmt: skip
