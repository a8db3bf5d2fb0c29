"""Get a program's own answers to inputs, whatever the tests expect: its output or, for calls, its return values."""

from collections.abc import Callable, Iterable, Iterator

from sandbox import Case, Outcome, Program, RunResult, Suite

Run = Callable[[Program, str], RunResult]


def collect_outputs(program: Program, inputs: Iterable[str], suite: Suite, run: Run) -> Iterator[Case]:
    """Yield a case for each input on which the program exits with 0, in order, with its answer as the expected output.

    inputs  of an assertion suite, only calls have answers
    run     a function that executes a program with a given standard input
    """
    executed = program if suite.entry_point is None else Program(_CALLER % (program.source, suite.entry_point))
    if suite.assertions is not None:
        executed = Program(_EVALUATOR % (suite.assertions.given, program.source))
    for text in inputs:
        result = run(executed, text)
        if result.outcome is Outcome.EXITED and result.exit_code == 0:
            yield Case(text, result.text if suite.assertions is None else result.text.rstrip("\n"))


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


# Prints the value of a call as a literal. What is not a literal value, or is not written the same each time, has none.
_EVALUATOR = """
import ast, io, sys
given, source = %r, %r
sys.setrecursionlimit(50_000)
stdout, sys.stdout = sys.stdout, io.StringIO()
program = {"__name__": "solution"}
exec(given, program)
exec(source, program)
def text(value):
    if type(value) in (set, frozenset):
        inner = "{" + ", ".join(sorted(map(text, value))) + "}" if value else ""
        return "frozenset(" + inner + ")" if type(value) is frozenset else inner or "set()"
    if type(value) in (list, tuple):
        inner = ", ".join(map(text, value))
        return "[" + inner + "]" if type(value) is list else "(" + inner + "," * (len(value) == 1) + ")"
    if type(value) is dict:
        return "{" + ", ".join(text(key) + ": " + text(item) for key, item in value.items()) + "}"
    if type(value) is float and value in (float("inf"), float("-inf")):
        return "1e999" if value > 0 else "-1e999"
    if type(value) not in (int, float, complex, bool, str, bytes, type(None)):
        sys.exit(1)
    ast.literal_eval(repr(value))
    return repr(value)
print(text(eval(sys.stdin.read(), program)), file=stdout)
"""
