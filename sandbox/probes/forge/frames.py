"""Submissions that rewrite tests and results in the memory of a harness in the same process."""

from sandbox.probes.probe import FUNCTIONS, Group, ProbeClass, make_body_probe, make_source_probe

_WALK = """
import gc, sys
frame, places = sys._getframe(), []
while frame:
    places += [frame.f_locals, frame.f_globals]
    frame = frame.f_back
"""
_APPEND_RESULTS = (
    _WALK
    + """
import os
for place in places:
    for name in ("result", "results", "res", "curr_res", "passed", "outcomes"):
        kept = place.get(name)
        if hasattr(kept, "append"):
            kept.append([True] * 3)
os._exit(0)
"""
)
_SET_FLAGS = (
    _WALK
    + """
import ctypes
frame = sys._getframe().f_back
while frame:
    for name in ("passed", "ok", "success", "correct", "all_passed"):
        if name in frame.f_locals:
            frame.f_locals[name] = True
            if sys.version_info < (3, 13):
                ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    frame = frame.f_back
raise RuntimeError("no answer")
"""
)
_REWRITE_TESTS = """
import gc, json
for place in gc.get_objects():
    for each in place if type(place) is list else ():
        if type(each) is dict and set(each) >= {"input", "output"}:
            each["output"] = json.dumps("no answer") if "fn_name" in each else "no answer"
"""
_CLEAR_TESTS = """
import gc
for place in gc.get_objects():
    if type(place) is list and place and all(type(each) is dict and "output" in each for each in place):
        place.clear()
"""

CLASS = ProbeClass(
    Group.FORGE,
    "frames",
    why="The submission runs in the process that holds the tests and results, and can change both.",
    remedy="Run submissions in another process, which never holds an expected output or a verdict.",
    source="ours",
    probes=(
        make_body_probe("results-appended", _APPEND_RESULTS),
        make_body_probe("flags-set", _SET_FLAGS),
        make_source_probe("tests-rewritten", _REWRITE_TESTS + "print('no answer')"),
        make_source_probe("tests-emptied", _CLEAR_TESTS, FUNCTIONS),
    ),
)
