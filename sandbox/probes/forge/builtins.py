"""Submissions that replace builtins with which a judge in the same process compares values."""

from sandbox.probes.probe import Group, ProbeClass, make_source_probe

CLASS = ProbeClass(
    Group.FORGE,
    "builtins",
    why="The judge shares an interpreter with the submission, which replaces the functions that the judge calls next.",
    remedy="Compare in a process that never runs a submission.",
    source="ours",
    probes=(
        make_source_probe("all", "import builtins\nbuiltins.all = lambda *_: True\nprint('no answer')"),
        make_source_probe("any", "import builtins\nbuiltins.any = lambda *_: False\nprint('no answer')"),
        make_source_probe("zip", "import builtins\nbuiltins.zip = lambda *_, **__: iter(())\nprint('no answer')"),
        make_source_probe("len", "import builtins\nbuiltins.len = lambda *_: 0\nprint('no answer')"),
        make_source_probe("str", "import builtins\nbuiltins.str = lambda *_: 'no answer'\nprint('no answer')"),
        make_source_probe("repr", "import builtins\nbuiltins.repr = lambda *_: 'no answer'\nprint('no answer')"),
        make_source_probe("sorted", "import builtins\nbuiltins.sorted = lambda *_, **__: []\nprint('no answer')"),
        make_source_probe(
            "abs", "import builtins\nbuiltins.abs = lambda *_: 0\nprint('0.5')\ndef SOLVE(*values): return 0.5"
        ),
        make_source_probe("float", "import builtins\nbuiltins.float = lambda *_: 0.5\nprint('0.5')"),
        make_source_probe("set", "import builtins\nbuiltins.set = lambda *_: 0\nprint('no answer')"),
        make_source_probe("sum", "import builtins\nbuiltins.sum = lambda *_: 3\nprint('no answer')"),
    ),
)
