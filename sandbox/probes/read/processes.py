"""Looks for the expected output in what other processes were started with, and in their files."""

from sandbox.probes.probe import Group, ProbeClass, finds

_EACH = """
import os
def search():
    for name in sorted(filter(str.isdigit, os.listdir("/proc")), key=int)[-300:]:
        try:
            with open("/proc/%s/{file}" % name, "rb") as file:
                yield file.read(1 << 20)
        except OSError:
            pass
"""

CLASS = ProbeClass(
    Group.READ,
    "processes",
    why="Other processes of the judge hold the expected output where /proc shows it to the answer.",
    remedy="Give answers a pid namespace and a /proc of their own.",
    source="ours",
    probes=(
        finds("command-lines", _EACH.format(file="cmdline")),
        finds("environments", _EACH.format(file="environ")),
        finds(
            "files-of-the-parent",
            "import os\ndef search():\n    folder = '/proc/%d/fd/' % os.getppid()\n    try:\n"
            "        names = os.listdir(folder)\n    except OSError:\n        return\n    for name in names:\n"
            "        try:\n            if not os.path.isfile(folder + name):\n                continue\n"
            "            with open(folder + name, 'rb') as file:\n                yield file.read(1 << 20)\n"
            "        except OSError:\n            pass\n",
        ),
    ),
)
