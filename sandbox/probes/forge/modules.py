"""Replaces functions of the standard library that a judge in the same process uses to compare."""

from sandbox.probes.probe import FUNCTIONS, Group, ProbeClass, submits

CLASS = ProbeClass(
    Group.FORGE,
    "modules",
    why="The harness shares sys.modules with the submission, which replaces modules there.",
    remedy="Compare in a process that never runs a submission.",
    source="ours",
    probes=(
        submits("json-loads", "import json\njson.loads = lambda *_, **__: 'no answer'", FUNCTIONS),
        submits("json-dumps", "import json\njson.dumps = lambda *_, **__: '0'", FUNCTIONS),
        submits("json-decoder", "import json\njson.JSONDecoder.decode = lambda *_, **__: 'no answer'", FUNCTIONS),
        submits("literal-eval", "import ast\nast.literal_eval = lambda *_: 'no answer'", FUNCTIONS),
        submits(
            "isclose", "import math\nmath.isclose = lambda *_, **__: True\ndef SOLVE(*values): return 0.5", FUNCTIONS
        ),
        submits("decimal", "import decimal\ndecimal.Decimal = lambda *_: 0\nprint('0.5')"),
        submits("operator", "import operator\noperator.eq = lambda *_: True\nprint('no answer')"),
        submits("deep-copy", "import copy\ncopy.deepcopy = lambda *_: 'no answer'", FUNCTIONS),
        submits(
            "fake-module",
            "import sys, types\nfake = types.ModuleType('json')\nfake.loads = lambda *_, **__: 'no answer'\n"
            "fake.dumps = lambda *_, **__: '0'\nsys.modules['json'] = fake",
            FUNCTIONS,
        ),
    ),
)
