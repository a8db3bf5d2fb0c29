"""Get a program's own answers to inputs, whatever the tests expect: its output or, for calls, its return values."""

from collections.abc import Callable, Iterable, Iterator

from sandbox import Case, Outcome, Program, RunResult, Suite

Run = Callable[[Program, str], RunResult]


def answers(program: Program, inputs: Iterable[str], suite: Suite, run: Run) -> Iterator[Case]:
    """Yield a case for each input on which the program exits with 0, in order, with its answer as the expected output.

    run  a function that executes a program with a given standard input
    """
    executed = program if suite.entry_point is None else Program(_CALLER % (program.source, suite.entry_point))
    for text in inputs:
        result = run(executed, text)
        if result.outcome is Outcome.EXITED and result.exit_code == 0:
            yield Case(text, result.text)


# Prints what the function returns, as JSON. It may use the same names as a call in the sandbox: LiveCodeBench's.
_CALLER = """
import builtins, io, json, sys
source, entry_point = %r, %r
names = {}
for module in (
    "string re datetime collections heapq bisect copy math random statistics itertools functools operator io sys"
    " json builtins typing"
).split():
    exec(f"from {module} import *\\nimport {module}\\n", names)
arguments = json.load(sys.stdin)
stdout, sys.stdout = sys.stdout, io.StringIO()
sys.setrecursionlimit(50_000)
program = {"__name__": "solution", "__builtins__": {**names, **vars(builtins)}}
exec(source, program)
Solution = program.get("Solution")
function = getattr(Solution(), entry_point) if hasattr(Solution, entry_point) else program[entry_point]
print(json.dumps(function(*arguments)), file=stdout)
"""
