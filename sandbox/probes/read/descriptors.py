"""Submissions that search open descriptors for the expected output."""

from sandbox.probes.probe import Group, ProbeClass, make_search_probe

CLASS = ProbeClass(
    Group.READ,
    "descriptors",
    why="The submission's process inherits a descriptor of a file or pipe with the expected outputs.",
    remedy="Close every descriptor above 2 before the submission starts, and write only inputs to standard input.",
    source="ours",
    probes=(
        make_search_probe(
            "positioned-reads",
            "import os\ndef search():\n    for number in range(64):\n        try:\n"
            "            yield os.pread(number, 1 << 20, 0)\n        except OSError:\n            pass\n",
        ),
        make_search_probe(
            "opened-again",
            "import os\ndef search():\n    for number in range(64):\n        try:\n"
            "            again = os.open('/proc/self/fd/%d' % number, os.O_RDONLY | os.O_NONBLOCK)\n"
            "        except OSError:\n            continue\n        try:\n            yield os.read(again, 1 << 20)\n"
            "        except OSError:\n            pass\n        finally:\n            os.close(again)\n",
        ),
        make_search_probe(
            "pipes",
            "import os, select\ndef search():\n    for number in range(3, 64):\n        try:\n"
            "            if select.select([number], [], [], 0)[0]:\n                yield os.read(number, 1 << 16)\n"
            "        except (OSError, ValueError):\n            pass\n",
        ),
        make_search_probe(
            "rest-of-standard-input",
            "import os, select\ndef search():\n    while select.select([0], [], [], 0.1)[0]:\n"
            "        part = os.read(0, 1 << 16)\n        if not part:\n            return\n        yield part\n",
        ),
    ),
)
