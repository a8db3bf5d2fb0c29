"""Submissions that search the arguments and environment of their process for the expected output."""

from sandbox.probes.probe import Group, ProbeClass, make_search_probe

_FILE = "def search():\n    with open({path!r}, 'rb') as file:\n        yield file.read()\n"

CLASS = ProbeClass(
    Group.READ,
    "environment",
    why="The judge passes the expected output in an argument or environment variable of the submission's process.",
    remedy="Start submissions with an empty environment and constant arguments.",
    source="ours",
    probes=(
        make_search_probe("variables", "import os\ndef search():\n    yield from os.environ.values()\n"),
        make_search_probe("arguments", "import sys\ndef search():\n    yield from [*sys.argv, *sys.orig_argv]\n"),
        make_search_probe("initial-environment", _FILE.format(path="/proc/self/environ")),
        make_search_probe("command-line", _FILE.format(path="/proc/self/cmdline")),
    ),
)
