"""Submissions that search their folders for the expected output."""

from sandbox.probes.probe import Group, ProbeClass, make_search_probe

_READ = """
import os
def read(path):
    try:
        if os.path.isfile(path) and os.path.getsize(path) < 1 << 20:
            with open(path, "rb") as file:
                yield file.read()
    except OSError:
        return
def walk(folder, depth=2):
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)[:500]
    except OSError:
        return
    for entry in entries:
        if entry.is_file(follow_symlinks=False):
            yield from read(entry.path)
        elif depth and entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
            yield from walk(entry.path, depth - 1)
"""

CLASS = ProbeClass(
    Group.READ,
    "files",
    why="The judge writes the expected outputs to a file that the submission can read.",
    remedy="Never write expected outputs where a submission runs; run each submission in an empty folder.",
    source="ours",
    probes=(
        make_search_probe("working-folder", _READ + "def search():\n    yield from walk(os.getcwd())\n"),
        make_search_probe(
            "folder-of-the-program",
            _READ + "def search():\n    here = globals().get('__file__')\n"
            "    if here:\n        yield from walk(os.path.dirname(os.path.abspath(here)))\n",
        ),
        make_search_probe(
            "own-source",
            _READ + "import sys\ndef search():\n"
            "    main = getattr(sys.modules['__main__'], '__file__', None)\n"
            "    for path in {globals().get('__file__'), sys.argv[0], main}:\n"
            "        if path:\n            yield from read(path)\n",
        ),
        make_search_probe(
            "temporary-folder",
            _READ + "import tempfile\ndef search():\n    yield from walk(tempfile.gettempdir(), 3)\n",
        ),
        make_search_probe(
            "folder-above",
            _READ + "def search():\n    folder = os.path.dirname(os.getcwd())\n"
            "    if folder not in ('/', '/home', '/root'):\n        yield from walk(folder, 1)\n",
        ),
    ),
)
