"""Correct programs with the usual ways of reading and printing."""

from functools import partial

from sandbox.probes.probe import (
    STDIN,
    Group,
    JudgeProbe,
    ProbeClass,
    ProbeProblem,
    Submissions,
    format_completion,
    make_stdin_problem,
)

_SUMS = make_stdin_problem(
    "sums",
    {"3\n1 2\n10 -4\n7 7\n": "3\n6\n14\n", "1\n100000 1\n": "100001\n", "2\n0 5\n-3 -4\n": "5\n-7\n"},
    "for _ in range(int(input())):\n    print(sum(map(int, input().split())))\n",
)
_STYLES = {
    "input": "for _ in range(int(input())):\n    a, b = map(int, input().split())\n    print(a + b)",
    "readline": (
        "import sys\nfor _ in range(int(sys.stdin.readline())):\n    print(sum(map(int, sys.stdin.readline().split())))"
    ),
    "read": "import sys\nn, *values = map(int, sys.stdin.read().split())\n"
    "print(*(values[i] + values[i + 1] for i in range(0, 2 * n, 2)), sep='\\n')",
    "readlines": (
        "import sys\nlines = sys.stdin.readlines()\nfor line in lines[1:]:\n    print(sum(map(int, line.split())))"
    ),
    "iteration": "import sys\nnext(sys.stdin)\nfor line in sys.stdin:\n    print(sum(map(int, line.split())))",
    "splitlines": "import sys\nfor line in sys.stdin.read().splitlines()[1:]:\n    print(sum(map(int, line.split())))",
    "bytes": "import sys\ndata = sys.stdin.buffer.read().split()\n"
    "for i in range(1, len(data), 2):\n    print(int(data[i]) + int(data[i + 1]))",
    "byte-lines": (
        "import sys\n"
        "read = sys.stdin.buffer.readline\n"
        "for _ in range(int(read())):\n"
        "    print(sum(map(int, read().split())))"
    ),
    "byte-iteration": (
        "import sys\n"
        "lines = iter(sys.stdin.buffer)\n"
        "next(lines)\n"
        "for line in lines:\n"
        "    print(sum(map(int, line.split())))"
    ),
    "descriptor": "import os\ndata = os.read(0, 1 << 16).split()\n"
    "os.write(1, b''.join(b'%d\\n' % (int(a) + int(b)) for a, b in zip(data[1::2], data[2::2])))",
    "open-zero": "data = open(0).read().split()\nfor a, b in zip(data[1::2], data[2::2]):\n    print(int(a) + int(b))",
    "fileinput": (
        "import fileinput\n"
        "lines = list(fileinput.input())\n"
        "for line in lines[1:]:\n"
        "    print(sum(map(int, line.split())))"
    ),
    "input-rebound": (
        "import sys\n"
        "input = sys.stdin.readline\n"
        "for _ in range(int(input())):\n"
        "    print(sum(map(int, input().split())))"
    ),
    "until-end-of-file": (
        "input()\n"
        "while True:\n"
        "    try:\n"
        "        print(sum(map(int, input().split())))\n"
        "    except EOFError:\n"
        "        break"
    ),
    "write": (
        "import sys\n"
        "n = int(input())\n"
        "out = [str(sum(map(int, input().split()))) for _ in range(n)]\n"
        "sys.stdout.write('\\n'.join(out) + '\\n')"
    ),
    "no-newline-at-the-end": (
        "import sys\n"
        "n = int(input())\n"
        "sys.stdout.write('\\n'.join(str(sum(map(int, input().split()))) for _ in range(n)))"
    ),
    "byte-output": (
        "import sys\n"
        "n = int(input())\n"
        "for _ in range(n):\n"
        "    sys.stdout.buffer.write(b'%d\\n' % sum(map(int, input().split())))"
    ),
    "buffered-output": (
        "import io, sys\n"
        "out = io.StringIO()\n"
        "for _ in range(int(input())):\n"
        "    print(sum(map(int, input().split())), file=out)\n"
        "sys.stdout.write(out.getvalue())"
    ),
    "flushed": "for _ in range(int(input())):\n    print(sum(map(int, input().split())), flush=True)",
    "main-guard": (
        "def main():\n"
        "    for _ in range(int(input())):\n"
        "        print(sum(map(int, input().split())))\n"
        "\n"
        "if __name__ == '__main__':\n"
        "    main()"
    ),
    "exit-zero": "import sys\nfor _ in range(int(input())):\n    print(sum(map(int, input().split())))\nsys.exit(0)",
    "exit-none": (
        "def main():\n"
        "    for _ in range(int(input())):\n"
        "        print(sum(map(int, input().split())))\n"
        "raise SystemExit(main())"
    ),
    "flush-and-os-exit": (
        "import os, sys\n"
        "for _ in range(int(input())):\n"
        "    print(sum(map(int, input().split())))\n"
        "sys.stdout.flush()\n"
        "os._exit(0)"
    ),
    "stderr": (
        "import sys\n"
        "for i in range(int(input())):\n"
        "    print('case', i, file=sys.stderr)\n"
        "    print(sum(map(int, input().split())))"
    ),
    "class": (
        "class Solver:\n"
        "    def __init__(self):\n"
        "        self.n = int(input())\n"
        "    def run(self):\n"
        "        for _ in range(self.n):\n"
        "            print(sum(map(int, input().split())))\n"
        "Solver().run()"
    ),
    "generator": (
        "def sums(n):\n"
        "    for _ in range(n):\n"
        "        yield sum(map(int, input().split()))\n"
        "for value in sums(int(input())):\n"
        "    print(value)"
    ),
    "recursion": (
        "import sys\n"
        "sys.setrecursionlimit(10_000)\n"
        "def depth(n):\n"
        "    return 0 if n == 0 else 1 + depth(n - 1)\n"
        "for _ in range(depth(int(input()))):\n"
        "    print(sum(map(int, input().split())) + depth(900) - 900)"
    ),
    "thread": (
        "import sys, threading\n"
        "threading.stack_size(1 << 26)\n"
        "sys.setrecursionlimit(1 << 20)\n"
        "def main():\n"
        "    for _ in range(int(input())):\n"
        "        print(sum(map(int, input().split())))\n"
        "thread = threading.Thread(target=main)\n"
        "thread.start()\n"
        "thread.join()"
    ),
    "imports": (
        "import bisect, collections, functools, heapq, itertools, math, operator, re, string\n"
        "for _ in range(int(input())):\n"
        "    print(functools.reduce(operator.add, map(int, input().split())))"
    ),
    "star-import": (
        "from math import *\n"
        "from itertools import *\n"
        "for _ in range(int(input())):\n"
        "    print(int(fsum(map(int, input().split()))))"
    ),
    "typing": (
        "from typing import List, Optional\n"
        "def add(pair: List[int]) -> Optional[int]:\n"
        "    return sum(pair)\n"
        "for _ in range(int(input())):\n"
        "    print(add([*map(int, input().split())]))"
    ),
    "dataclass": (
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Pair:\n"
        "    a: int\n"
        "    b: int\n"
        "for _ in range(int(input())):\n"
        "    pair = Pair(*map(int, input().split()))\n"
        "    print(pair.a + pair.b)"
    ),
    "decorator": (
        "from functools import lru_cache\n"
        "@lru_cache(None)\n"
        "def add(a, b):\n"
        "    return a + b\n"
        "for _ in range(int(input())):\n"
        "    print(add(*map(int, input().split())))"
    ),
    "global": (
        "total = 0\n"
        "def add(value):\n"
        "    global total\n"
        "    total += value\n"
        "for _ in range(int(input())):\n"
        "    total = 0\n"
        "    for value in input().split():\n"
        "        add(int(value))\n"
        "    print(total)"
    ),
    "future-import": (
        "from __future__ import annotations\nfor _ in range(int(input())):\n    print(sum(map(int, input().split())))"
    ),
    "walrus": "n = int(input())\nwhile (n := n - 1) >= 0:\n    print(sum(map(int, input().split())))",
    "match": (
        "n = int(input())\n"
        "for _ in range(n):\n"
        "    match input().split():\n"
        "        case [a, b]:\n"
        "            print(int(a) + int(b))"
    ),
    "async": (
        "import asyncio\n"
        "async def main():\n"
        "    for _ in range(int(input())):\n"
        "        print(sum(map(int, input().split())))\n"
        "asyncio.run(main())"
    ),
    "half-a-second": (
        "import time\ntime.sleep(0.5)\nfor _ in range(int(input())):\n    print(sum(map(int, input().split())))"
    ),
    "some-memory": (
        "block = bytearray(30 << 20)\nfor _ in range(int(input())):\n    print(sum(map(int, input().split())))"
    ),
    "windows-line-ends": "for _ in range(int(input())):\r\n    print(sum(map(int, input().split())))\r\n",
    "non-ascii-names": "größe = int(input())\nfor _ in range(größe):  # ✓\n    print(sum(map(int, input().split())))",
    "semicolons": "n = int(input()); r = range(n)\nfor _ in r: a, b = map(int, input().split()); print(a + b)",
    "exec": "exec('for _ in range(int(input())):\\n    print(sum(map(int, input().split())))')",
    "prints-many": (
        "out = []\n"
        "for _ in range(int(input())):\n"
        "    out.append(sum(map(int, input().split())))\n"
        "print(*out, sep='\\n')"
    ),
}


def _submit_source(source: str, _: ProbeProblem) -> Submissions:
    return Submissions(_SUMS, (format_completion(source),))


CLASS = ProbeClass(
    Group.HONEST,
    "programs",
    why="The judge runs programs differently from a shell, or compares more than the output.",
    remedy="Run a program as __main__ of its own process, with real streams, and ignore whitespace at both ends.",
    source="https://github.com/huggingface/lighteval/issues/1255",
    probes=tuple(
        JudgeProbe(name, STDIN, partial(_submit_source, source), is_correct=True) for name, source in _STYLES.items()
    ),
)
