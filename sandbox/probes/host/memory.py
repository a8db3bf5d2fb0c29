"""Submissions that search the memory of the parent process for the expected output."""

from sandbox.probes.probe import Group, ProbeClass, make_search_probe
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
    probes=(make_search_probe("parent", _SEARCH_PARENT),),
)
