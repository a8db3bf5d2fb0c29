"""The chat that asks a model for a program. As in LiveCodeBench and DeepCoder, the format follows the statement."""

_STDIN = """\
Write a Python 3 program that solves this problem. It reads from standard input and prints to standard output.
"""
_CALL = """\
Write a Python 3 function `{name}` that solves this problem. It is called with the arguments in their order, and what \
it returns counts; what it prints does not.
"""
_STARTER = """\
Solve this problem in Python 3 by completing the code below. Keep its names and signatures: `{name}` is called, and \
what it returns counts; what it prints does not.

```python
{starter}
```
"""
_FORM = """
Put the whole program into one ```python block at the end of your answer.
"""
WORDS = (_STDIN, _CALL, _STARTER, _FORM)  # samples depend on these texts, so they are part of a sample's name


def chat(statement: str, starter_code: str, entry_point: str | None) -> list[dict[str, str]]:
    """Return the messages for a chat model.

    entry_point: the function that the tests call; None: the program reads stdin
    """
    if entry_point is None:
        task = _STDIN
    elif starter_code.strip():
        task = _STARTER.format(name=entry_point, starter=starter_code.strip("\n"))
    else:
        task = _CALL.format(name=entry_point)
    return [{"role": "user", "content": f"{statement.strip()}\n\n{task}{_FORM}"}]
