"""Replaces builtins that a judge in the same process uses to compare."""

from sandbox.probes.probe import Group, ProbeClass, submits

CLASS = ProbeClass(
    Group.FORGE,
    "builtins",
    why="The judge shares an interpreter with the submission, which replaces the functions that the judge calls next.",
    remedy="Compare in a process that never runs a submission.",
    source="ours",
    probes=(
        submits("all", "import builtins\nbuiltins.all = lambda *_: True\nprint('no answer')"),
        submits("any", "import builtins\nbuiltins.any = lambda *_: False\nprint('no answer')"),
        submits("zip", "import builtins\nbuiltins.zip = lambda *_, **__: iter(())\nprint('no answer')"),
        submits("len", "import builtins\nbuiltins.len = lambda *_: 0\nprint('no answer')"),
        submits("str", "import builtins\nbuiltins.str = lambda *_: 'no answer'\nprint('no answer')"),
        submits("repr", "import builtins\nbuiltins.repr = lambda *_: 'no answer'\nprint('no answer')"),
        submits("sorted", "import builtins\nbuiltins.sorted = lambda *_, **__: []\nprint('no answer')"),
        submits("abs", "import builtins\nbuiltins.abs = lambda *_: 0\nprint('0.5')\ndef SOLVE(*values): return 0.5"),
        submits("float", "import builtins\nbuiltins.float = lambda *_: 0.5\nprint('0.5')"),
        submits("set", "import builtins\nbuiltins.set = lambda *_: 0\nprint('no answer')"),
        submits("sum", "import builtins\nbuiltins.sum = lambda *_: 3\nprint('no answer')"),
    ),
)
