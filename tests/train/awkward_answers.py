"""Awkward answers to a task whose function is `up`: 47 programs, each wrapped in 24 ways.

`python tests/train/awkward_answers.py`, with evalplus 0.3.1 and its tree-sitter-python installed, writes what EvalPlus
makes of them to evalplus_sanitized.txt: for each answer, the beginning of a digest. No function ends with a comment,
which EvalPlus would keep.
"""

import hashlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

ENTRY_POINT = "up"
SANITIZED = Path(__file__).with_name("evalplus_sanitized.txt")
PROGRAMS = r'''def up(n):
    return n + 1
----
def up(n): return n + 1
----
import math, os
from typing import *

def up(n: List[int]) -> int:
    return math.floor(n) + 1
----
ONE = 1
TWO = 2

def one():
    return ONE

def two():
    return TWO

def up(n):
    return n + one()
----
def up(n):
    return add(n, 1)

def add(a, b):
    return a + b

assert up(1) == 2
print(up(3))
----
def up(n):
    return n + 1

if __name__ == '__main__':
    import doctest
    doctest.testmod()
----
class Solution:
    step = 1

    def up(self, n):
        return n + self.step
----
class Counter(dict):
    pass

def up(n):
    return Counter(n)
----
import asyncio

async def up(n):
    await asyncio.sleep(0)
    return n + 1
----
from functools import lru_cache

@lru_cache(None)
def one():
    return 1

def up(n):
    return one() + n
----
import functools

@functools.cache
def up(n):
    return n + 1
----
def up(n):
    def inner():
        return n
    yield inner()
----
def up(n):
    n.append(1)
    print(n)
----
import sys

def up(n):
    yield n + 1
----
up = lambda n: n + one
one = 1
one = 2
----
def helper(n):
    return n + 1

up = helper
----
def up(n):
    return n

def up(n):
    return n + 1
----
def up(n):
    pass

def up(n):
    return n + 1
----
up = None

def up(n):
    return n + 1
----
def down(n):
    return n - 1

print(down(2))
----
import math

def down(n):
    return n - 1
----
from __future__ import annotations
from . import here

def up(n: int) -> int:
    return n + 1
----
a, b = 1, 2
c = a, b

def up(n):
    return n + a + c[0]
----
data = {}
extra = 1
data['k'] = extra
up.step = data

def up(n):
    return n + data['k'] + extra
----
one: int = 1
two: int

def up(n, *, by: 'int' = one) -> two:
    return n + by
----
one = uno = 1
up.__doc__ = one

def up(n):
    return n + uno
----
count = 0
count += 1

def up(n):
    global count
    return n + count
----
try:
    import numpy as np
except ImportError:
    np = None

def up(n):
    return n + 1
----
import sys

if sys.version_info > (3,):
    def one():
        return 1

def up(n):
    return n + one()
----
def up(n):
    """Add one.

It adds
    one, so:
>>> up(1)
2
    """
    return n + 1
----
one = 1

def up(n):
    return f'{n + one:>{one}} {n!r}'
----
import math
tau = 7

def up(n):
    return math.tau * n
----
key = 3

def up(n):
    return sorted(n, key=len)
----
def up(n):
    match n:
        case [x, *rest]:
            return x
        case _:
            return 1
----
été = 1  # dès l'été
ß = 'ß'

def up(n):
    return n + été

ü = ß
----
def one():
	return 1

def up(n):
	if n:
		return n + one()
	return 0
----
import os; import re
one = 1; two = 2
def up(n): one; return n + two
----
TABLE = {
    'a': [1,
2,
    ],
}

def up(
    n,
):
    return (TABLE['a'][0]
        + n)
----
# Adds one
def up(n):  # here
    # now
    return n + 1

# end
one = 1
----
def up(n)
    return n + 1
----
def up(n):
    return n + 1

print(up(1)
----
def one(:
    return 1

def up(n):
    return n + 1
----
import re

def up(n):
    return re.sub('\d', n, '\w')
----
def up(n):
    return 1 if not n else up(n - 1) + 1

def down(n):
    return up(n)
----
one = 1
del one

def up(n):
    return n + one
----
def up(n):
    if (m := n + 1) > 0:
        return m
    while True: pass
----
n = int(input())
for i in range(n):
    print(i)
with open('x') as f:
    up = f.read()
'''[:-1].split("\n----\n")


def _fenced(code: str, label: str = "python") -> str:
    return f"```{label}\n{code}\n```"


def _indented(code: str, by: str) -> str:
    return "\n".join(by + line for line in code.split("\n"))


def _session(code: str) -> str:
    first, *rest = code.split("\n")
    return "\n".join([f">>> {first}", *(f"... {line}" for line in rest), ">>> up(1)", "2"])


WRONG = "def up(n):\n    return 0"
WRAPPERS: dict[str, Callable[[str], str]] = {
    "bare": lambda code: code,
    "bare, ended": lambda code: f"\n\n{code}\n\n",
    "block": _fenced,
    "no label": lambda code: _fenced(code, ""),
    "prose": lambda code: f"Here's the function:\n\n{_fenced(code)}\n\nIt works because:\n- it adds (one)\n\nEnjoy!",
    "prose that parses": lambda code: f"Sure\n\n{_fenced(code, 'py')}\n\n# Notes\n\nx = 1\ny = 2\nz = 3",
    "not closed": lambda code: f"Below:\n```python\n{code}",
    "tildes": lambda code: f"~~~python\n{code}\n~~~",
    "nested": lambda code: f"````markdown\n{_fenced(code)}\n````",
    "wrong first": lambda code: f"{_fenced(WRONG)}\nBetter:\n{_fenced(code)}",
    "wrong last": lambda code: f"{_fenced(code)}\nOr:\n{_fenced(WRONG)}",
    "session": _session,
    "thoughts": lambda code: f"<think>\nI need `up`.\n{WRONG}\n</think>\n{_fenced(code)}",
    "thought not closed": lambda code: f"<think>\nLet me try:\n{code}",
    "CRLF": lambda code: _fenced(code).replace("\n", "\r\n"),
    "indented": lambda code: _indented(code, "    "),
    "in a list": lambda code: "1. Write it:\n" + _indented(_fenced(code), "   "),
    "quoted": lambda code: _indented(_fenced(code), "> "),
    "cut off": lambda code: f"Here:\n```python\n{code[: len(code) * 2 // 3]}",
    "one line": lambda code: "```python " + code.replace("\n", " ") + " ```",
    "bold": lambda code: f"**Solution**\n{_fenced(code)}\n**Complexity:** O(1)",
    "completion": lambda code: f'def up(n):\n    """Add one."""\n{_indented(code, "    ")}',
    "twice": lambda code: f"{code}\n\n{code}",
    "tests": lambda code: f"{_fenced(code)}\n\n{_fenced('import unittest' + chr(10) + 'assert up(1) == 2')}",
}
ODD = [
    *("", "\n", " ", "\n\n\n", "I do not know.", "x", "x\ny", "42\n\n", "```", "```python\n```", "pass\npass"),
    *("\ufeffdef up(n):\n    return 1", "def up(n):\n    return 1\\\n    + n\n   ", "# Title\n# Text"),
    *("def up(n):\r    return 1", "return 1\n\n", "'''\ntext\n'''", "a = 1\x0c\nb = 2"),
]


def answers() -> list[str]:
    """Return all answers."""
    wrapped = [wrap(code) for code in PROGRAMS for wrap in WRAPPERS.values()]
    return list(dict.fromkeys([*wrapped, *ODD]))


def digest(program: str) -> str:
    """Return the beginning of a digest of a program."""
    return hashlib.sha256(program.encode()).hexdigest()[:8]


if __name__ == "__main__":
    sanitize = import_module("evalplus.sanitize").sanitize
    SANITIZED.write_text("".join(digest(sanitize(answer, ENTRY_POINT)) + "\n" for answer in answers()))
