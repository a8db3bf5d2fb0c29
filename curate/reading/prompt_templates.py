"""Extraction of a problem's text from a prompt in one of these forms:

a text, such as a statement
[{"role": "user", "content": "..."}]              TRL, verl and chat datasets; content may be a list of parts
[{"from": "human", "value": "..."}]               ShareGPT
{"messages": [...]}                               a conversation inside an object
'[{"role": "user", "content": "..."}]'            any of these as JSON text

Templates make different statements look similar, so comparisons strip them. This module strips only the templates of
known sources, and only at the beginning and the end of a text, so statements that quote them stay whole.
"""

import json
import re
from typing import Any

from curate.prompt import FINGERPRINT_TEXTS, TASK_SENTENCES

_ROLES, _CONTENTS = ("role", "from"), ("content", "value", "text")
_USERS, _SYSTEMS = ("user", "human"), ("system", "developer")
_NESTED_KEYS = ("messages", "conversations", "conversation", "prompt")
_MAX_NESTING = 4

_HEADS = (
    r"Solve the following coding problem using the programming language \w+:",  # SYNTHETIC-1, PrimeIntellect
    r"(?:You are an expert Python programmer\. )?You will be given a question \(problem specification\) and will "
    r"generate a correct Python program that matches the specification and passes all tests\."
    r"(?: You will NOT return anything except for the program\.?)?",  # LiveCodeBench, LeetCodeDataset, DeepCoder
    r"### ?Question:?",  # LiveCodeBench, LeetCodeDataset, DeepCoder
    r"QUESTION:",  # APPS, TACO
)
_TAILS = (
    "Now solve the problem and return the code.",  # SYNTHETIC-1, PrimeIntellect
    "Use Standard Input format",  # APPS, TACO
    "Use Call-Based format",
    "ANSWER:",
    "### Answer: (use the provided format with backticks)",  # LiveCodeBench, LeetCodeDataset
)
# Texts at which the rest of a prompt begins; in LiveCodeBench, the rest includes the starter code.
_FORMATS = (
    "### Format: You will use the following starter code",
    "### Format: Read the inputs from stdin",
)
_HEAD = re.compile(rf"\s*(?:{'|'.join(_HEADS)})\s*")
_LAST_LINE = re.compile(r"The input will be (?:given via )?stdin and [^\n]{0,80} to stdout[^\n]{0,80}")
# The beginnings of the text after a statement in curate's prompts, and the end of these prompts.
_TASKS, _FORM = tuple(words.partition("{")[0].strip() for words in TASK_SENTENCES), FINGERPRINT_TEXTS[-1].strip()
_PRIMEINTELLECT_HEAD = re.compile(r"\A\s*Solve the following coding problem using the programming language \w+:\s*")
_PRIMEINTELLECT_TAIL = re.compile(
    r"\s*(?:The input will be (?:given via )?stdin and [^\n]* to stdout[^\n]*\s*)?"
    r"Now solve the problem and return the code\.\s*\Z"
)
_SIGNATURE = re.compile(r"\s*The function to implement:\s*\n(.*)\Z", re.DOTALL)


def strip_prompt_template(text: str) -> str:
    """Return the text without the parts of known prompt templates at its beginning and end."""
    text = _strip_curate_prompt(text)
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


def _strip_curate_prompt(text: str) -> str:
    """Return the text without the instructions at the end of a prompt that curate made."""
    if not text.rstrip().endswith(_FORM):
        return text
    task = max(map(text.rfind, _TASKS))
    return text if task < 0 else text[:task]


def split_primeintellect_prompt(prompt: str) -> tuple[str, str]:
    """Return the statement and the starter code in a prompt with PrimeIntellect's template."""
    statement = _PRIMEINTELLECT_TAIL.sub("", _PRIMEINTELLECT_HEAD.sub("", prompt))
    signature = _SIGNATURE.search(statement)
    if signature is None:
        return statement, ""
    return statement[: signature.start()], signature[1].rstrip()


def extract_prompt_texts(value: Any, *, depth: int = 0) -> list[str] | None:
    """Return the texts of a prompt that may state the problem: a plain text, or the user messages of a conversation.

    value  a prompt in one of the forms above
    depth  nesting depth of the value in a prompt

    A conversation without user messages has the texts of its system messages. Returns None if the value is neither a
    text nor a conversation.
    """
    if isinstance(value, str):
        parsed = _parse_conversation(value) if depth < _MAX_NESTING else None
        texts = None if parsed is None else extract_prompt_texts(parsed, depth=depth + 1)
        return [value] if texts is None else texts
    if isinstance(value, dict) and depth < _MAX_NESTING:
        inner = next((value[name] for name in _NESTED_KEYS if value.get(name)), None)
        return None if inner is None else extract_prompt_texts(inner, depth=depth + 1)
    if isinstance(value, list) and value and all(_is_message(message) for message in value):
        user_texts = [text for message in value if (text := _get_text(message, _USERS))]
        return user_texts or [text for message in value if (text := _get_text(message, _SYSTEMS))]
    return None


def _parse_conversation(text: str) -> Any:
    """Return the value of JSON text that may be a conversation; None for any other text."""
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and any(isinstance(value.get(name), str) for name in _ROLES)


def _get_text(message: dict[str, Any], roles: tuple[str, ...]) -> str:
    """Return the text of a message with one of these roles; empty for another role."""
    role = next(message[name] for name in _ROLES if isinstance(message.get(name), str))
    content = next((message[name] for name in _CONTENTS if message.get(name)), "")
    if role.lower() not in roles:
        return ""
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""
