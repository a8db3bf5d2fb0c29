"""Looks for the expected output in the memory of its process."""

from sandbox.probes.probe import Group, ProbeClass, finds

SEARCH = """
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
    why="The expected output lies in memory of the process that runs the answer.",
    remedy="Compare in another process, which the answer's does not share memory with.",
    source="ours",
    probes=(finds("own", SEARCH.format(base="'/proc/self'")),),
)
