"""Looks for the expected output in the memory of its process, and of the process that started it."""

from sandbox.probes.probe import Group, ProbeClass, finds

_SEARCH = """
import os
WINDOW, OVERLAP = 1 << 24, 64
def search():
    base = {base}
    left = 1 << 29
    with open(base + "/maps") as maps, open(base + "/mem", "rb", 0) as memory:
        for line in maps.read().split("\\n"):
            words = line.split()
            if len(words) < 2 or "rw" not in words[1]:
                continue
            low, high = (int(end, 16) for end in words[0].split("-"))
            for start in range(low, min(high, low + left), WINDOW):
                left -= WINDOW if high - start > WINDOW else high - start
                try:
                    memory.seek(start)
                    yield memory.read(min(WINDOW + OVERLAP, high - start))
                except (OSError, ValueError, OverflowError):
                    break
"""

CLASS = ProbeClass(
    Group.READ,
    "memory",
    why="The expected output lies in memory that the answer can read through /proc.",
    remedy="Compare in a process of another user, or in another pid namespace, and give answers a /proc of their own.",
    source="ours",
    probes=(
        finds("own", _SEARCH.format(base="'/proc/self'")),
        finds(
            "parent",
            _SEARCH.format(base="'/proc/%d' % os.getppid()")
            + (
                "inner = search\n"
                "def search():\n"
                "    try:\n"
                "        yield from inner()\n"
                "    except OSError:\n"
                "        return\n"
            ),
        ),
    ),
)
