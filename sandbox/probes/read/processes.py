"""Submissions that search arguments, environments and open files of other processes for the expected output."""

from sandbox.probes.probe import Group, ProbeClass, make_search_probe

_SEARCH_PROC = """
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
    why="/proc exposes the expected output, in other processes of the judge, to the submission.",
    remedy="Run submissions in a pid namespace with its own /proc.",
    source="ours",
    probes=(
        make_search_probe("command-lines", _SEARCH_PROC.format(file="cmdline")),
        make_search_probe("environments", _SEARCH_PROC.format(file="environ")),
        make_search_probe(
            "files-of-the-parent",
            "import os\ndef search():\n    folder = '/proc/%d/fd/' % os.getppid()\n    try:\n"
            "        names = os.listdir(folder)\n    except OSError:\n        return\n    for name in names:\n"
            "        try:\n            if not os.path.isfile(folder + name):\n                continue\n"
            "            with open(folder + name, 'rb') as file:\n                yield file.read(1 << 20)\n"
            "        except OSError:\n            pass\n",
        ),
    ),
)
