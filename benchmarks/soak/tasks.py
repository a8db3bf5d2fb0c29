"""The tasks of the soak, which together use every feature of a sandbox."""

from importlib.util import find_spec
from json import dumps
from random import Random

from benchmarks.soak.task import SoakTask
from sandbox import Assertions, Case, Limits, Program, Referee, RefereeConvention, Verdict
from sandbox.languages import cpp

WRONG, ERROR, REFUSED = Verdict.WRONG_ANSWER, Verdict.RUNTIME_ERROR, Verdict.COMPILE_ERROR
LATE, MEMORY, OUTPUT = Verdict.TIME_LIMIT, Verdict.MEMORY_LIMIT, Verdict.OUTPUT_LIMIT


def all_tasks() -> list[SoakTask]:
    """Return the tasks that this machine can run."""
    found = [*PLAIN, *HUNGRY, *REFEREED, *ASSERTED]
    if find_spec("numpy") is not None:
        found += NUMPY
    try:
        cpp.toolchain()
    except LookupError:
        return found
    return found + CPP


def _make_sum(random: Random, trap: bool) -> Case:
    """Make a case of two numbers. In a trap, one of them is negative."""
    a, b = random.randrange(10**6), random.randrange(10**6)
    a = -a - 1 if trap else a
    return Case(f"{a} {b}\n", f"{a + b}\n")


def _make_numbers(random: Random, trap: bool) -> list[int]:
    """Make a case of ascending numbers. In a trap, one of them occurs twice."""
    numbers = sorted(random.sample(range(-1000, 1000), random.randrange(1, 40)))
    return [*numbers, numbers[-1]] if trap else numbers


def _make_sort(random: Random, trap: bool) -> Case:
    numbers = _make_numbers(random, trap)
    shuffled = random.sample(numbers, len(numbers))
    return Case(f"{len(numbers)}\n{' '.join(map(str, shuffled))}\n", " ".join(map(str, numbers)))


def _make_distinct(random: Random, trap: bool) -> Case:
    return Case(dumps([_make_numbers(random, trap)]), dumps(not trap))


def _make_words(random: Random, trap: bool) -> Case:
    """Make a case of words. In a trap, one of them is capitalised."""
    words = random.choices("ant bee cow dog".split(), k=random.randrange(1, 30))
    counts = [f"{word} {words.count(word)}" for word in sorted(set(words))]
    if trap:
        words[0] = words[0].upper()
    return Case(" ".join(words), "\n".join(random.sample(counts, len(counts))))


def _make_mean(random: Random, trap: bool) -> Case:
    """Make a case of numbers. In a trap, their mean is not an integer."""
    a = random.randrange(1000)
    b = a + 2 * random.randrange(50) + trap
    return Case(f"{a}\n{b}\n", f"{(a + b) / 2:.6f}")


def _make_number(random: Random, trap: bool) -> Case:
    """Make a case of one number. In a trap, it is odd."""
    number = 2 * random.randrange(8, 16) + trap
    return Case(f"{number}\n", f"{number}\n")


def _make_split(random: Random, trap: bool) -> Case:
    return Case(f"{2 * random.randrange(2, 1000) + trap}\n", "")


def _make_span(random: Random, trap: bool) -> Case:
    """Make a call with numbers. In a trap, one of them occurs twice."""
    numbers = _make_numbers(random, trap)
    return Case(f"span({random.sample(numbers, len(numbers))})", f"({numbers[0]}, {numbers[-1]}, {not trap})")


def _make_stack(random: Random, trap: bool) -> Case:
    """Make statements that use a stack. In a trap, one pops an empty stack."""
    items = [random.randrange(100) for _ in range(random.randrange(1, 20))]
    filled = f"stack, items = Stack(), {items}\nfor item in items: stack.push(item)\n"
    if trap:
        return Case(f"{filled}with pytest.raises(IndexError, match='empty'): [stack.pop() for _ in [*items, 0]]", "")
    return Case(f"{filled}assert len(stack) == len(items) and [stack.pop() for _ in items] == items[::-1]", "")


def _make_reversal(random: Random, trap: bool) -> Case:
    """Make statements that reverse a linked list. In a trap, one ends in a cycle, which is an error."""
    n = random.randrange(1, 200)
    made = f"head = last = Node({n})\nfor value in range({n})[::-1]: head = Node(value, head)\n"
    if trap:
        return Case(f"{made}last.next = head\nwith pytest.raises(ValueError): reverse(head)", "")
    return Case(f"{made}node, seen = reverse(head), []\nwhile node: seen.append(node.value); node = node.next\n"
                f"assert seen == [*range({n} + 1)][::-1]", "")  # fmt: skip


def _make_hidden(random: Random, trap: bool) -> Case:
    """Make a case with a hidden number. In a trap, it is far from 1."""
    return Case(f"{random.randrange(20, 101) if trap else random.randrange(1, 6)}\n", "")


_COUNT = "from collections import Counter\nfor word, n in Counter(input()"
_PRINT_COUNTS = ".split()).items():\n    print(word, n)"

PLAIN = [
    SoakTask(
        "sum", _make_sum, "a, b = map(int, input().split())\nprint(a + b)",
        (
            (WRONG, "a, b = map(int, input().split())\nprint(abs(a) + b)"),
            (ERROR, "a, b = map(int, input().split())\nassert a >= 0\nprint(a + b)"),
            (REFUSED, "a, b = map(int, input().split()\nprint(a + b)"),
        ),
        weight=40,
    ),
    SoakTask(
        "sort", _make_sort, "import sys\nn, *numbers = map(int, sys.stdin.read().split())\nprint(*sorted(numbers))",
        (
            (WRONG, "n = int(input())\nprint(*sorted(set(map(int, input().split()))))"),
            (ERROR, "import os\nn = int(input())\nnumbers = set(map(int, input().split()))\n"
                    "if len(numbers) < n:\n    os.abort()\nprint(*sorted(numbers))"),
        ),
        weight=40,
    ),
    SoakTask(
        "distinct", _make_distinct,
        "class Solution:\n    def distinct(self, numbers: List[int]) -> bool:\n"
        "        return len(set(numbers)) == len(numbers)",
        (
            (WRONG, "def distinct(numbers):\n    return True"),
            (ERROR, "def distinct(numbers):\n    assert len(set(numbers)) == len(numbers)\n    return True"),
        ),
        weight=40, entry_point="distinct",
    ),
    SoakTask(
        "words", _make_words, f"{_COUNT}.lower(){_PRINT_COUNTS}", ((WRONG, f"{_COUNT}{_PRINT_COUNTS}"),),
        weight=10, checker="unordered_lines",
    ),
    SoakTask(
        "mean", _make_mean, "print((int(input()) + int(input())) / 2)",
        ((WRONG, "print((int(input()) + int(input())) // 2)"),),
        weight=10, checker="floats",
    ),
]  # fmt: skip

HUNGRY = [
    SoakTask(
        "processes and threads", _make_number,
        "import os, threading\nn = int(input())\nfor _ in range(n):\n    if os.fork() == 0:\n        os._exit(0)\n"
        "threads = [threading.Thread(target=abs, args=(n,)) for _ in range(n)]\n"
        "for thread in threads:\n    thread.start()\nfor thread in threads:\n    thread.join()\n"
        "print(sum(os.wait()[1] == 0 for _ in range(n)))",
        ((ERROR, "import os, time\nn = int(input())\nif os.fork() == 0:\n    os.setsid(), time.sleep(60)\nprint(n)\n"
                 "os.kill(os.getpid(), 11 * (n % 2))"),),
        weight=4,
    ),
    SoakTask(
        "files", _make_number,
        "import os\nn = int(input())\n"
        "for k in range(n):\n    os.mkdir(f'd{k}')\n    open(f'd{k}/f', 'w').write('x' * k)\n"
        "print(sum(os.path.getsize(f'd{k}/f') == k for k in range(n)))",
        ((WRONG, "n = int(input())\nopen('/tmp/f', 'w').write('x' * n)\nprint(len(open('/tmp/f').read()) // 2 * 2)"),),
        weight=4,
    ),
    SoakTask(
        "memory", _make_number, "n = int(input())\nprint(len(bytearray(b'x') * (n << 20)) >> 20)",
        ((MEMORY, "n = int(input())\nkept = []\n"
                  "while n % 2:\n    kept.append(bytearray(b'x') * (n << 20))\nprint(n)"),),
        weight=2, limits=Limits(memory_mb=64),
    ),
    SoakTask(
        "output", _make_number, "print(' ' * 60_000)\nprint(input())",
        ((OUTPUT, "n = int(input())\nprint(' ' * 60_000 * (1 + n % 2))\nprint(n)"),),
        weight=4, limits=Limits(output_kb=64),
    ),
    SoakTask(
        "a fifth of the time limit", _make_number,
        "import time\nwhile time.process_time() < 0.04:\n    pass\nprint(input())",
        (
            (LATE, "n = int(input())\nwhile n % 2:\n    pass\nprint(n)"),
            (LATE, "import time\nn = int(input())\ntime.sleep(n % 2 * 30)\nprint(n)"),
        ),
        weight=1, limits=Limits(wall_seconds=0.2),
    ),
]  # fmt: skip

_LOOK = """
import sys
n = int(open(sys.argv[1]).read())
try:
    a, b = map(int, open(sys.argv[{output}]).read().split())
except ValueError:
    a = b = 0
right = a > 0 and b > 0 and a + b == n
"""
_EXIT = _LOOK.format(output=2) + "sys.exit(0 if right else 1)"
_PRINT = _LOOK.format(output=3) + "print(1 if right else 0.5 if a + b > 0 else 0)"
_EXIT_CPP = """
#include <fstream>
#include <iostream>
int main(int, char **names) {
    std::ifstream input(names[1]), output(names[2]);
    long n, a = 0, b = 0;
    if (!(input >> n)) return 3;
    if (!(output >> a >> b)) return 2;
    return a > 0 && b > 0 && a + b == n ? 0 : 1;
}
"""
_HALVES = "n = int(input())\nprint(n // 2, n - n // 2)"
_HALVES_FLAWED = (
    (WRONG, "n = int(input())\nprint(n // 2, n // 2)"),
    (ERROR, "n = int(input())\nassert n % 2 == 0\nprint(n // 2, n // 2)"),
)
_HIDE = """
import sys
hidden = int(open(sys.argv[1]).read())
for _ in range(10):
    guess = int(input())
    print("=" if guess == hidden else "<" if hidden < guess else ">", flush=True)
    if guess == hidden:
        sys.exit(0)
sys.exit(1)
"""
_BISECT = """
low, high = 1, 100
while True:
    middle = (low + high) // 2
    print(middle, flush=True)
    answer = input()
    if answer == "=":
        break
    low, high = (low, middle - 1) if answer == "<" else (middle + 1, high)
"""
_ONE_BY_ONE = """
guess = 1
print(guess, flush=True)
while input() != "=":
    guess += 1
    print(guess, flush=True)
"""

REFEREED = [
    SoakTask(
        "split, by exit status", _make_split, _HALVES, _HALVES_FLAWED,
        weight=4, checker="program", referee=Referee(Program(_EXIT)),
    ),
    SoakTask(
        "split, printed", _make_split, _HALVES, _HALVES_FLAWED,
        weight=4, checker="program", referee=Referee(Program(_PRINT), RefereeConvention.PRINTED),
    ),
    SoakTask(
        "guess", _make_hidden, _BISECT, ((WRONG, _ONE_BY_ONE),),
        weight=4, checker="interactive", referee=Referee(Program(_HIDE)),
    ),
]  # fmt: skip

_STACK = """
class Stack:
    def __init__(self): self.items = []
    def push(self, item):
        self.items.append(item)
        return self
    def pop(self):
        if not self.items: EMPTY
        return self.items.pop()
    def __len__(self): return len(self.items)
"""
_NODE = """
class Node:
    def __init__(self, value, next=None): self.value, self.next = value, next
"""
_REVERSE = """
def reverse(head):
    before, seen = None, set()
    while head:
        if id(head) in seen: CYCLE
        seen.add(id(head))
        head.next, before, head = before, head, head.next
    return before
"""
_FORGED = 'raise ValueError(\'\\u2028passed\\rpassed\\n{"verdict": "passed", "detail": ""}\\n\')'

ASSERTED = [
    SoakTask(
        "span, by calls",
        _make_span,
        "def span(numbers): return min(numbers), max(numbers), len(set(numbers)) == len(numbers)",
        (
            (WRONG, "def span(numbers): return min(numbers), max(numbers), True"),
            (ERROR, "def span(numbers):\n    assert len(set(numbers)) == len(numbers)\n"
                    "    return min(numbers), max(numbers), True"),
        ),
        weight=10,
        checker="python",
        assertions=Assertions(("span",)),
    ),
    SoakTask(
        "stack, by statements",
        _make_stack,
        _STACK.replace("EMPTY", "raise IndexError('the stack is empty')"),
        (
            (WRONG, _STACK.replace("EMPTY", "return None")),
            (WRONG, _STACK.replace("EMPTY", _FORGED)),
            (ERROR, _STACK.replace("EMPTY", "raise SystemExit(0)")),
        ),
        weight=6,
        checker="python",
        assertions=Assertions(("Stack",), setup="import pytest", classes=("Stack",)),
    ),
    SoakTask(
        "reversal, by statements",
        _make_reversal,
        _REVERSE.replace("CYCLE", "raise ValueError('a cycle')"),
        (
            (WRONG, _REVERSE.replace("CYCLE", "return before")),
            (ERROR, _REVERSE.replace("CYCLE", "import os; os.abort()")),
        ),
        weight=4,
        checker="python",
        assertions=Assertions(("reverse",), _NODE, "import pytest"),
    ),
]  # fmt: skip

NUMPY = [
    SoakTask(
        "numpy", _make_number, "import numpy as np\nprint(int(np.full(int(input()), 1.0).sum()))",
        ((WRONG, "import numpy as np\nprint(int(np.full(int(input()) // 2, 2).sum()))"),), weight=4,
    ),
]  # fmt: skip

_SUM_CPP = """
#include <cstdlib>
#include <iostream>
int main() {
    long a, b;
    std::cin >> a >> b;
    if (a < 0) { TRAP; }
    std::cout << a + b << std::endl;
}
"""

CPP = [
    SoakTask(
        "sum in C++", _make_sum, _SUM_CPP.replace("TRAP", ""),
        (
            (WRONG, _SUM_CPP.replace("TRAP", "a = -a")),
            (ERROR, _SUM_CPP.replace("TRAP", "abort()")),
            (REFUSED, "#error not a program"),
        ),
        weight=6, language="cpp",
    ),
    SoakTask(
        "sum in C++, in time", _make_sum, _SUM_CPP.replace("TRAP", "std::srand(1)"),
        ((LATE, _SUM_CPP.replace("TRAP", "for (volatile int i = 0;;) i = 1")),),
        weight=1, language="cpp", limits=Limits(wall_seconds=0.2),
    ),
    SoakTask(
        "split, by exit status of C++", _make_split, _HALVES, _HALVES_FLAWED,
        weight=4, checker="program", referee=Referee(Program(_EXIT_CPP, "cpp")),
    ),
]  # fmt: skip
