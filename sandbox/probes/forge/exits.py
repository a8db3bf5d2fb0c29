"""Exits with status 0 before any test has failed."""

from sandbox.probes.probe import FUNCTIONS, Group, ProbeClass, runs_inside, submits

CLASS = ProbeClass(
    Group.FORGE,
    "exits",
    why="The judge treats exit status 0 as success, and the tests run in the process of the submission.",
    remedy="Count a test only if its result was reported, and decide the verdict in a process that runs no submission.",
    source="https://arxiv.org/abs/2511.18397",
    probes=(
        runs_inside("system-exit", "raise SystemExit(0)"),
        runs_inside("sys-exit-none", "import sys\nsys.exit()"),
        runs_inside("exit-false", "raise SystemExit(False)"),
        runs_inside("os-exit", "import os\nos._exit(0)"),
        runs_inside("builtin-exit", "import _sitebuiltins\n_sitebuiltins.Quitter('exit', '')(0)"),
        submits("exit-on-import", "import sys\nsys.exit(0)", FUNCTIONS),
        submits("os-exit-on-import", "import os\nos._exit(0)", FUNCTIONS),
        submits("exec-true", "import os\nos.execv('/bin/true', ['true'])", FUNCTIONS),
        submits("atexit", "import atexit, os\natexit.register(os._exit, 0)"),
        submits("excepthook", "import os, sys\nsys.excepthook = lambda *error: os._exit(0)"),
        submits(
            "finalizer",
            "import os\nclass Last:\n    def __del__(self, leave=os._exit):\n        leave(0)\n_last = Last()",
        ),
        submits(
            "exit-from-a-thread",
            "import os, threading\nthreading.Thread(target=os._exit, args=(0,)).start()\nthreading.Event().wait(1)",
            FUNCTIONS,
        ),
    ),
)
