"""The prompts that collectors put around every statement, which make different statements look similar.

Only the beginning and the end of a text are examined, and only wordings known from the sources are removed, so a
statement that merely mentions them stays whole. This is for comparisons; the statement that a dataset shows is up to
the reader of its source.
"""

import re

from curate.prompt import FINGERPRINT_TEXTS, TASK_SENTENCES

_HEADS = (
    r"Solve the following coding problem using the programming language \w+:",  # SYNTHETIC-1 and its like
    r"(?:You are an expert Python programmer\. )?You will be given a question \(problem specification\) and will "
    r"generate a correct Python program that matches the specification and passes all tests\."
    r"(?: You will NOT return anything except for the program\.?)?",  # LiveCodeBench, LeetCodeDataset, DeepCoder
    r"### ?Question:?",  # the same
    r"QUESTION:",  # APPS, TACO
)
_TAILS = (
    "Now solve the problem and return the code.",  # SYNTHETIC-1 and its like
    "Use Standard Input format",  # APPS, TACO
    "Use Call-Based format",
    "ANSWER:",
    "### Answer: (use the provided format with backticks)",  # LiveCodeBench, LeetCodeDataset
)
# Everything from here on is template: LiveCodeBench puts the starter code behind it.
_FORMATS = (
    "### Format: You will use the following starter code",
    "### Format: Read the inputs from stdin",
)
_HEAD = re.compile(rf"\s*(?:{'|'.join(_HEADS)})\s*")
_LAST_LINE = re.compile(r"The input will be (?:given via )?stdin and [^\n]{0,80} to stdout[^\n]{0,80}")
# What curate's own prompts say after a statement, up to the first name in it, and at their end.
_TASKS, _FORM = tuple(words.partition("{")[0].strip() for words in TASK_SENTENCES), FINGERPRINT_TEXTS[-1].strip()
_PRIMEINTELLECT_HEAD = re.compile(r"\A\s*Solve the following coding problem using the programming language \w+:\s*")
_PRIMEINTELLECT_TAIL = re.compile(
    r"\s*(?:The input will be (?:given via )?stdin and [^\n]* to stdout[^\n]*\s*)?"
    r"Now solve the problem and return the code\.\s*\Z"
)
_SIGNATURE = re.compile(r"\s*The function to implement:\s*\n(.*)\Z", re.DOTALL)


def strip_prompt_template(text: str) -> str:
    """Return the text without the known wordings at its beginning and end, even if several follow each other."""
    text = _without_our_words(text)
    begin = 0
    while head := _HEAD.match(text, begin):
        begin = head.end()
    text = text[begin:].rstrip()
    for wording in _FORMATS:
        text = text.partition(wording)[0].rstrip()
    while text.endswith(_TAILS):
        text = next(text.removesuffix(tail) for tail in _TAILS if text.endswith(tail)).rstrip()
    last_line = text.rfind("\n") + 1
    if _LAST_LINE.fullmatch(text, last_line):
        text = text[:last_line].rstrip()
    return text


def _without_our_words(text: str) -> str:
    """Return the text of a prompt that curate has made, such as one in an export, without what follows the problem."""
    if not text.rstrip().endswith(_FORM):
        return text
    task = max(map(text.rfind, _TASKS))
    return text if task < 0 else text[:task]


def split_primeintellect_prompt(prompt: str) -> tuple[str, str]:
    """Return the statement and the starter code inside the prompt that all problems of PrimeIntellect share."""
    statement = _PRIMEINTELLECT_TAIL.sub("", _PRIMEINTELLECT_HEAD.sub("", prompt))
    signature = _SIGNATURE.search(statement)
    if signature is None:
        return statement, ""
    return statement[: signature.start()], signature[1].rstrip()
