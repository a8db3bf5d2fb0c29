"""Searches for the expected output in the memory of the parent process."""

from sandbox.probes.probe import Group, ProbeClass, finds
from sandbox.probes.read.memory import SEARCH

_SEARCH_PARENT = (
    SEARCH.format(base="'/proc/%d' % os.getppid()")
    + """
inner = search
def search():
    try:
        yield from inner()
    except OSError:
        return
"""
)

CLASS = ProbeClass(
    Group.HOST,
    "memory",
    why="The expected output is in memory that the submission can read through /proc.",
    remedy="Compare in a process of another user, or run submissions in a pid namespace with its own /proc.",
    source="ours",
    probes=(finds("parent", _SEARCH_PARENT),),
)
