"""Submissions that search the memory of their process for the expected output."""

from sandbox.probes.probe import Group, ProbeClass, make_search_probe

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
    why="The expected output is in the memory of the submission's process.",
    remedy="Compare in another process that shares no memory with the submission.",
    source="ours",
    probes=(make_search_probe("own", SEARCH.format(base="'/proc/self'")),),
)
