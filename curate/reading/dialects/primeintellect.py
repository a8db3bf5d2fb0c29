"""Find the problem inside the prompt that PrimeIntellect puts around its problems."""

import re

_HEAD = re.compile(r"\A\s*Solve the following coding problem using the programming language \w+:\s*")
_TAIL = re.compile(
    r"\s*(?:The input will be (?:given via )?stdin and [^\n]* to stdout[^\n]*\s*)?"
    r"Now solve the problem and return the code\.\s*\Z"
)
_SIGNATURE = re.compile(r"\s*The function to implement:\s*\n(.*)\Z", re.DOTALL)


def strip_template(prompt: str) -> tuple[str, str]:
    """Return the statement and the starter code inside the prompt that all problems share."""
    statement = _TAIL.sub("", _HEAD.sub("", prompt))
    signature = _SIGNATURE.search(statement)
    if signature is None:
        return statement, ""
    return statement[: signature.start()], signature[1].rstrip()
