"""A program has the same output and exit status as with `python solution.py`.

correct_programs.txt holds programs, each after a line with #### and its name. All read two numbers and print their sum,
by different uses of input, output, processes, threads and the standard library.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from batch import judged, spread

from sandbox import Case, Judgement, Limits, Program, Sandbox, Suite

CORPUS = Path(__file__).with_name("correct_programs.txt").read_text().split("#### ")[1:]
CORRECT = dict(text.split("\n", 1) for text in CORPUS)
SUM = [Case("3 4\n", "7\n"), Case("10 -2\n", "8\n")]
LIMITS = Limits(wall_seconds=20, memory_mb=512)


@judged(
    {name: (Program(source), Suite(SUM, limits=LIMITS)) for name, source in CORRECT.items()}, quick=spread(CORRECT, 25)
)
def test_a_correct_program_is_accepted(name: str, judgement: Judgement) -> None:
    if "numpy" in CORRECT[name]:
        pytest.importorskip("numpy")
    assert judgement.accepted, judgement


# The expected output and exit status are those of the interpreter.
ENDINGS = {
    "nothing": "",
    "exit": "print(1)\nexit()",
    "exit 3": "print(1)\nexit(3)",
    "exit with words": "print(1)\nexit('words')",
    "exit true": "raise SystemExit(True)",
    "exit with a float": "raise SystemExit(0.0)",
    "exit 256": "raise SystemExit(256)",
    "exit -1": "raise SystemExit(-1)",
    "exit with a huge number": "raise SystemExit(10**30)",
    "exit in finally": "try:\n    1 / 0\nfinally:\n    exit(0)",
    "exit in atexit": "import atexit\n@atexit.register\ndef _():\n    print(2)\n    raise SystemExit(5)",
    "exception": "print(1)\n1 / 0",
    "exception in atexit": "import atexit\natexit.register(lambda: 1 / 0)\nprint(1)",
    "exception in a thread": "import threading\nthreading.Thread(target=lambda: 1 / 0).start()\nprint(1)",
    "exception in a destructor": "class D:\n    def __del__(self): 1 / 0\nd = D()\nprint(1)",
    "own excepthook": "import sys\nsys.excepthook = lambda *args: print('hook')\n1 / 0",
    "broken excepthook": "import sys\nsys.excepthook = None\nprint(1)\n1 / 0",
    "hard exit": "import os\nprint(1)\nos._exit(0)",
    "hard exit of a thread": "import os, threading\nthreading.Thread(target=os._exit, args=[4]).start()\nwhile 1: pass",
    "abort": "import os\nprint(1, flush=True)\nos.abort()",
    "killed": "import os\nos.kill(os.getpid(), 9)",
    "terminated": "import os\nos.kill(os.getpid(), 15)",
    "broken pipe": "import os\nr, w = os.pipe()\nos.close(r)\nos.write(w, b'x')",
    "alarm": "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\ntime.sleep(5)",
    "stdout closed by number": "import os\nprint(1)\nos.close(1)",
    "stdout deleted": "import sys\nprint(1)\ndel sys.stdout\n",
    "stdout replaced": "import io, sys\nprint(1)\nsys.stdout = io.StringIO()\nprint(2)",
    "stdout that fails": "import sys\nclass S:\n    closed = False\n    def write(self, t): pass\n"
    "    def flush(self): 1 / 0\nprint(1)\nsys.stdout = S()",
    "printing destructor": "class D:\n    def __del__(self): print(word)\nd = D()\nword = 'bye'",
    "printing destructor in a cycle": "class D:\n    def __del__(self): print(self.w)\nd = D()\nd.d = d\nd.w = 'bye'",
    "suspended generator": "def g():\n    try: yield\n    finally: print(word)\nit = g()\nnext(it)\nword = 'bye'",
    "file in an instance": "class Out:\n    def __init__(self): self.f = open(1, 'w', closefd=False)\n"
    "    def put(self, t): self.f.write(t)\nout = Out()\nout.put('late')",
    "file in a closure": "def maker():\n    f = open(1, 'w', closefd=False)\n    return lambda t: f.write(t)\n"
    "put = maker()\nput('late')",
    "file in a default": "def put(t, f=open(1, 'w', closefd=False)): f.write(t)\nput('late')",
    "unjoined thread": "import threading, time\ndef late():\n    time.sleep(0.1)\n    print('late')\n"
    "threading.Thread(target=late).start()\nprint('soon')",
    "daemon thread": "import threading, time\ndef late():\n    time.sleep(9)\n    print('late')\n"
    "threading.Thread(target=late, daemon=True).start()\nprint('soon')",
    "unfinished pool": "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(2).submit(print, 'late')",
    "fork without flush": "import os\nprint('twice')\nif os.fork(): os.wait()",
    "recursion": "def f(n): return f(n + 1)\ntry: f(0)\nexcept RecursionError as e: print(e)",
    "names of the module": "print({*globals()} - {'__annotations__'} == {*'''__builtins__ __cached__ __doc__ __file__ "
    "__loader__ __name__ __package__ __spec__'''.split()})\nprint(__name__, __spec__, __doc__, __package__)",
    "docstring": '"""doc"""\nfrom __future__ import annotations\nprint(__doc__)\ndef f(x: Nowhere): pass',
    "main module": "import __main__, sys\nx = 5\nprint(__main__.x, sys.modules['__main__'] is __main__)",
    "pickled class": "import pickle\nclass P: pass\nprint(type(pickle.loads(pickle.dumps(P()))) is P, P.__module__)",
    "flags": "import sys\nprint(sys.flags.optimize, __debug__, len(sys.argv))",
    "streams": "import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr):\n"
    "    print(s.encoding, s.line_buffering, s.isatty(), s.mode, s.name)",
    "warning": "import re\nprint(len(re.findall('\\d', 'a1b2')))",
    "isolated random": "import random\nrandom.seed(3)\nprint(random.random())",
}


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(name, marks=[] if name in spread(ENDINGS, 10) else pytest.mark.thorough, id=name)
        for name in ENDINGS
    ],
)
def test_output_and_exit_status_match_the_interpreter(box: Sandbox, ending: str, tmp_path: Path) -> None:
    script = tmp_path / "solution.py"
    script.write_text(ENDINGS[ending])
    # Output goes to files, as in the sandbox, since Python buffers pipes and terminals differently.
    with (tmp_path / "stdout").open("wb") as stdout, (tmp_path / "stdin").open("wb+") as stdin:
        command = [sys.executable, "-X", "utf8", script]
        files = {"stdin": stdin, "stdout": stdout, "stderr": subprocess.DEVNULL}
        status = subprocess.run(command, **files, env={"LANG": "C.UTF-8"}, check=False).returncode
    result = box.run(Program(ENDINGS[ending]))
    assert (result.text, result.exit_code) == ((tmp_path / "stdout").read_text(), status), result.stderr


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("\ufeff{}", id="byte order mark"),
        pytest.param("# -*- coding: utf-8 -*-\n{}", id="cookie"),
        pytest.param("#!/usr/bin/env python3\n{}", id="shebang"),
        pytest.param("\f\n{}", id="form feed"),
        pytest.param("if True:\n\t{}", id="tab"),
        pytest.param("from __future__ import annotations\n{}", id="future"),
        pytest.param("if __name__ == '__main__':\n    {}", id="guard"),
        pytest.param("α = 'é😀'  # über\n{}", id="unicode"),
        pytest.param("{}\r\n# end\r\n", id="carriage return and line feed"),
        pytest.param("# end\r{}\r", id="carriage return"),
        pytest.param("x = '" + "a" * 10**6 + "'\n{}", id="long line"),
        pytest.param("x = [" + "1," * 10**5 + "]\n{}", id="long list"),
    ],
)
def test_source_text_of_every_kind(box: Sandbox, source: str) -> None:
    program = Program(source.replace("{}", "print(sum(map(int, input().split())))"))
    assert box.judge(program, Suite(SUM, limits=LIMITS)).accepted


@pytest.mark.parametrize(
    ("source", "stdin", "stdout"),
    [
        pytest.param("print(len(input()))", "x" * 10**7, f"{10**7}\n", id="10 MB in one line"),
        pytest.param("import sys\nprint(sum(1 for _ in sys.stdin))", "1\n" * 10**6, f"{10**6}\n", id="million lines"),
        pytest.param(
            "import sys\nprint(len(sys.stdin.buffer.read()))", "x" * (25 << 20), f"{25 << 20}\n", id="25 MB"
        ),
        pytest.param("print('x' * 15_000_000)", "", "x" * 15_000_000 + "\n", id="15 MB out"),
        pytest.param("for i in range(20_000): print(i, flush=True)", "", "".join(f"{i}\n" for i in range(20_000)),
                     id="20,000 flushes"),
        pytest.param("import sys\nprint(repr(sys.stdin.read()))", "a\0b\x1c\u2028\x85c\x0b\n",
                     "'a\\x00b\\x1c\\u2028\\x85c\\x0b\\n'\n", id="control characters"),
        pytest.param("print(len(input().split()))", "a\u00a0b\u3000c d", "4\n", id="blanks of all scripts"),
        pytest.param("import sys\nprint(ascii(sys.stdin.read()))", "é世🎉\ufeff", "'\\xe9\\u4e16\\U0001f389\\ufeff'\n",
                     id="beyond ASCII"),
        pytest.param("import os\nos.write(1, bytes(range(256)))", "", None, id="all bytes"),
        pytest.param("print(7**20_000 % 10**9, len(str(7**20_000)))", "", None, id="long integers"),
        pytest.param("print(int('9' * 10_000) + 1 == 10**10_000)", "", "True\n", id="long integers from text"),
    ],
)  # fmt: skip
def test_input_and_output_arrive_unchanged(box: Sandbox, source: str, stdin: str, stdout: str | None) -> None:
    result = box.run(Program(source), stdin, LIMITS)
    assert result.exit_code == 0
    if stdout is not None:
        assert result.text == stdout
    elif "bytes" in source:
        assert result.stdout == bytes(range(256))


unbounded_recursion_in_c = pytest.mark.skipif(
    (3, 12) <= sys.version_info < (3, 14), reason="this Python has a fixed limit of recursion through C"
)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def f(n): return n and 1 + f(n - 1)\nprint(f(100_000))", id="plain"),
        pytest.param("from functools import lru_cache\n@lru_cache(None)\ndef f(n): return n and 1 + f(n - 1)\n"
                     "print(f(100_000))", id="lru_cache", marks=unbounded_recursion_in_c),
        pytest.param("def f(n): return n and 1 + max([n], key=lambda _: f(n - 1)) * 0 + f.d\nf.d = 0\n"
                     "f(30_000)\nprint(100_000)", id="through C", marks=unbounded_recursion_in_c),
        pytest.param("import threading\nthreading.stack_size(512 << 20)\ndef f(n): return n and 1 + f(n - 1)\n"
                     "t = threading.Thread(target=lambda: print(f(100_000)))\nt.start()\nt.join()", id="thread"),
    ],
)  # fmt: skip
def test_deep_recursion_succeeds(box: Sandbox, source: str) -> None:
    result = box.run(Program("import sys\nsys.setrecursionlimit(10**6)\n" + source), limits=LIMITS)
    assert result.text == "100000\n", result


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param("open('mine', 'x').close()", id="file"),
        pytest.param("import os\nassert 'A' not in os.environ\nos.environ['A'] = 'B'", id="environment"),
        pytest.param("import math\nassert not hasattr(math, 'a')\nmath.a = 1", id="module"),
        pytest.param("import builtins\nassert not hasattr(builtins, 'a')\nbuiltins.a = 1", id="builtins"),
        pytest.param("import sys\nassert sys.getrecursionlimit() < 2000\nsys.setrecursionlimit(9**5)", id="recursion"),
        pytest.param("import os\nassert os.umask(0o77) != 0o77", id="umask"),
        pytest.param("import signal\nassert signal.signal(10, signal.SIG_IGN) == signal.SIG_DFL", id="signal"),
    ],
)
def test_the_next_test_starts_in_a_fresh_process(box: Sandbox, trace: str) -> None:
    suite = Suite([Case("", "fresh")] * 4)
    judgement = box.judge(Program(f"{trace}\nprint('fresh')"), suite)
    assert judgement.accepted, judgement
