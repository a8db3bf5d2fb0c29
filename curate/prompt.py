"""The user message that puts a problem to a model, in the manner of LiveCodeBench: the task, the form of the program,
and a fenced block to answer in."""

from curate.problem import Problem

_TASK = "Solve the following programming problem in Python."
_STDIN = (
    "Read the input from stdin and print the answer to stdout, as the problem says. Do not test on the examples.\n"
    "Answer with the whole program in one block:"
)
_STARTER = "Complete the code below; keep its names and parameters. Answer with the whole program in one block:"
_FUNCTION = "Write a function named `{name}` that returns the answer. Answer with the whole program in one block:"
_BLOCK = "```python\n{code}\n```"


def prompt(problem: Problem) -> str:
    """The message for a problem whose program reads stdin, completes starter code, or is a function to be called."""
    if problem.starter_code.strip():
        form, code = _STARTER, problem.starter_code.strip("\n")
    elif problem.tests.entry_point is not None:
        form, code = _FUNCTION.format(name=problem.tests.entry_point), "# your code"
    else:
        form, code = _STDIN, "# your code"
    return "\n\n".join([_TASK, problem.statement.strip(), f"{form}\n\n{_BLOCK.format(code=code)}"])
