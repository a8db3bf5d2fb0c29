"""An endless mixture of right, wrong and hostile submissions, reproducible by seed.

Hostile ones are the attacks of the tests, and programs that exhaust a resource.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

from benchmarks.soak.submission import SoakSubmission, Verdicts
from benchmarks.soak.tasks import all_tasks
from sandbox import Case, Limits, Program, Suite, Verdict

_ATTACKS = Path(__file__).parents[2] / "tests" / "sandbox" / "attacks"  # tests/sandbox/test_attacks.py explains them
# They take about a second, or fill memory or a table of the checker.
_SLOW = frozenset(
    "a_sibling_of_itself a_sibling_without_a_signal call_pretends_to_be_numpy call_returns_a_shared_bomb fork_bomb"
    " forged_result_colliding_dict forged_result_colliding_keys forged_result_of_many_long_integers"
    " memory_errors_are_caught memory_in_children memory_in_memfds memory_in_page_tables memory_in_shared_mappings"
    " memory_of_its_parts_again_and_again thread_bomb".split()
)
# The programs of all workers see the same library files, so they could communicate through locks on them.
_LOCK_MESSAGE = "message_by_lock_on_a_library"
_HOSTILE, _FLAWED = 0.25, 0.3  # shares of all submissions
_SLOW_SHARE = 0.03  # of slow attacks, and of bombs, in hostile ones
_BOMBS = {
    "forks": "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
    "threads": "import _thread, time\nwhile True:\n    try:\n        _thread.start_new_thread(time.sleep, (60,))\n"
    "    except RuntimeError:\n        pass",
    "daemons": "import os, time\nfor _ in range(60):\n    if os.fork() == 0:\n        os.setsid(), time.sleep(60)",
    "memory": "kept = []\nwhile True:\n    kept.append(bytearray(b'x' * (1 << 20)))",
    "output": "import os\nwhile True:\n    os.write(1, b'x' * 65536)\n    os.write(2, b'x' * 65536)",
    "inodes": "import os\nn = 0\nwhile True:\n    n += 1\n    os.mkdir(str(n))",
    "disk": "import os\nfile = open('file', 'wb', 0)\nwhile True:\n    file.write(b'x' * 65536)",
    "descriptors": "import os\nkept = [os.pipe() for _ in range(10_000)]",
    "links": "import os\nwhile True:\n    os.symlink('/', 'link'), os.link('link', 'other'), os.unlink('link')",
    "sockets": "import socket\nkept = [socket.socketpair() for _ in range(10_000)]",
    "parentheses": "x = " + "(" * 5_000 + ")" * 5_000,
    "nothing": "import time\ntime.sleep(60)",
}
_REFUSED = frozenset(Verdict) - {Verdict.ACCEPTED, Verdict.SANDBOX_VIOLATION}


def generate_mixture(seed: int) -> Iterator[SoakSubmission]:
    random = Random(seed)
    hostile, tasks = HostileSubmissions(), all_tasks()
    weights = [task.weight for task in tasks]
    while True:
        share = random.random()
        if share < _HOSTILE:
            yield hostile.sample(random)
        else:
            [task] = random.choices(tasks, weights)
            yield task.sample(random, flawed=share < _HOSTILE + _FLAWED)


class HostileSubmissions:
    """A generator of hostile submissions. The first line of an attack names its right verdicts."""

    def __init__(self) -> None:
        everything = {path.stem: path.read_text() for path in sorted(_ATTACKS.glob("*.py"))}
        del everything[_LOCK_MESSAGE]
        slow = {name for name in everything if name in _SLOW or name.startswith("late_")}
        self._slow = [(name, source) for name, source in everything.items() if name in slow]
        self._quick = [(name, source) for name, source in everything.items() if name not in slow]

    def sample(self, random: Random) -> SoakSubmission:
        kind = random.random()
        if kind < _SLOW_SHARE:
            return _make_attack(*random.choice(self._slow), random)
        if kind < 2 * _SLOW_SHARE:
            return _make_bomb(*random.choice(list(_BOMBS.items())), random)
        return _make_attack(*random.choice(self._quick), random)


def _make_bomb(name: str, source: str, random: Random) -> SoakSubmission:
    limits = Limits(wall_seconds=0.2, memory_mb=64, output_kb=1024, disk_mb=16)
    suite = Suite([Case("", "defused")], limits=limits)
    return SoakSubmission(f"bomb of {name}", _make_unique(source, random), suite, (_REFUSED,))


def _make_attack(name: str, source: str, random: Random) -> SoakSubmission:
    first_line = source.partition("\n")[0].removeprefix("# expect: ")
    due: Verdicts = frozenset(Verdict(word) for word in first_line.split(" or "))
    answer = f"SECRET{random.getrandbits(128):032x}" if name.startswith("expected_") else "ESCAPED"
    limits = Limits(
        wall_seconds=0.2 if name.startswith("late_") else 5,
        memory_mb=64 if name.startswith("memory_") or "bomb" in name else 256,
    )
    if "def attack(" in source:
        suite = Suite([Case("[1]", json.dumps(answer))], entry_point="attack", checker="tokens", limits=limits)
    else:
        inputs = "12" if name.startswith("message_") else "1"
        suite = Suite([Case(f"{number}\n", f"{answer}\n") for number in inputs], checker="tokens", limits=limits)
    return SoakSubmission(f"attack {name}", _make_unique(source, random), suite, (due,) * len(suite.cases))


def _make_unique(source: str, random: Random) -> Program:
    return Program(f"{source}\n# {random.getrandbits(64):x}")
