"""Submissions that exit with status 0 before any test has failed."""

from sandbox.probes.probe import FUNCTIONS, Group, ProbeClass, make_body_probe, make_source_probe

CLASS = ProbeClass(
    Group.FORGE,
    "exits",
    why="The judge treats exit status 0 as success, and the tests run in the process of the submission.",
    remedy="Count a test only if its result was reported, and decide the verdict in a process that runs no submission.",
    source="https://arxiv.org/abs/2511.18397",
    probes=(
        make_body_probe("system-exit", "raise SystemExit(0)"),
        make_body_probe("sys-exit-none", "import sys\nsys.exit()"),
        make_body_probe("exit-false", "raise SystemExit(False)"),
        make_body_probe("os-exit", "import os\nos._exit(0)"),
        make_body_probe("builtin-exit", "import _sitebuiltins\n_sitebuiltins.Quitter('exit', '')(0)"),
        make_source_probe("exit-on-import", "import sys\nsys.exit(0)", FUNCTIONS),
        make_source_probe("os-exit-on-import", "import os\nos._exit(0)", FUNCTIONS),
        make_source_probe("exec-true", "import os\nos.execv('/bin/true', ['true'])", FUNCTIONS),
        make_source_probe("atexit", "import atexit, os\natexit.register(os._exit, 0)"),
        make_source_probe("excepthook", "import os, sys\nsys.excepthook = lambda *error: os._exit(0)"),
        make_source_probe(
            "finalizer",
            "import os\nclass Last:\n    def __del__(self, leave=os._exit):\n        leave(0)\n_last = Last()",
        ),
        make_source_probe(
            "exit-from-a-thread",
            "import os, threading\nthreading.Thread(target=os._exit, args=(0,)).start()\nthreading.Event().wait(1)",
            FUNCTIONS,
        ),
    ),
)
