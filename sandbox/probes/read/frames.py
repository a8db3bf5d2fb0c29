"""Submissions that search the frames and objects of their interpreter for the expected output."""

from sandbox.probes.probe import Group, ProbeClass, make_search_probe

_TEXTS = """
def texts(value, depth=4):
    if isinstance(value, (str, bytes)):
        yield value
    elif depth and isinstance(value, dict):
        for each in list(value.values()):
            yield from texts(each, depth - 1)
    elif depth and isinstance(value, (list, tuple, set, frozenset)):
        for each in list(value):
            yield from texts(each, depth - 1)
    elif depth and hasattr(value, "__dict__"):
        yield from texts(vars(value), depth - 1)
"""

CLASS = ProbeClass(
    Group.READ,
    "frames",
    why="The expected output is an object in the interpreter that runs the submission.",
    remedy="Send submissions only their inputs, and compare in another process.",
    source="ours",
    probes=(
        make_search_probe(
            "frames",
            _TEXTS + "import sys\n"
            "def search():\n"
            "    frame = sys._getframe()\n"
            "    while frame:\n"
            "        yield from texts({k: v for k, v in frame.f_locals.items() if k not in ('PATTERN', 'place')})\n"
            "        frame = frame.f_back\n",
        ),
        make_search_probe(
            "collector",
            _TEXTS + "import gc\n"
            "def search():\n"
            "    for value in gc.get_objects():\n"
            "        if isinstance(value, (dict, list, tuple)):\n"
            "            yield from texts(value, 2)\n",
        ),
        make_search_probe(
            "main-module",
            _TEXTS + "import sys\ndef search():\n    yield from texts(dict(vars(sys.modules['__main__'])))\n",
        ),
        make_search_probe(
            "referrers",
            "import gc\n"
            "def search():\n"
            "    for value in gc.get_objects():\n"
            "        if type(value).__name__ in ('function', 'cell', 'frame', 'generator', 'coroutine'):\n"
            "            for each in gc.get_referents(value):\n"
            "                if isinstance(each, (str, bytes)):\n"
            "                    yield each\n"
            "                elif isinstance(each, (tuple, list)):\n"
            "                    yield from (text for text in each if isinstance(text, (str, bytes)))\n",
        ),
        make_search_probe(
            "code-constants",
            "import gc, types\n"
            "def constants(code):\n"
            "    for each in code.co_consts:\n"
            "        if isinstance(each, types.CodeType):\n"
            "            yield from constants(each)\n"
            "        elif isinstance(each, (str, bytes)):\n"
            "            yield each\n"
            "def search():\n"
            "    import sys\n"
            "    frame = sys._getframe()\n"
            "    while frame:\n"
            "        yield from constants(frame.f_code)\n"
            "        frame = frame.f_back\n",
        ),
    ),
)
