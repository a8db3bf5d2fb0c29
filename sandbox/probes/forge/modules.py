"""Submissions that replace library functions with which a judge in the same process compares values."""

from sandbox.probes.probe import FUNCTIONS, Group, ProbeClass, make_source_probe

CLASS = ProbeClass(
    Group.FORGE,
    "modules",
    why="The harness shares sys.modules with the submission, which replaces modules there.",
    remedy="Compare in a process that never runs a submission.",
    source="ours",
    probes=(
        make_source_probe("json-loads", "import json\njson.loads = lambda *_, **__: 'no answer'", FUNCTIONS),
        make_source_probe("json-dumps", "import json\njson.dumps = lambda *_, **__: '0'", FUNCTIONS),
        make_source_probe(
            "json-decoder", "import json\njson.JSONDecoder.decode = lambda *_, **__: 'no answer'", FUNCTIONS
        ),
        make_source_probe("literal-eval", "import ast\nast.literal_eval = lambda *_: 'no answer'", FUNCTIONS),
        make_source_probe(
            "isclose", "import math\nmath.isclose = lambda *_, **__: True\ndef SOLVE(*values): return 0.5", FUNCTIONS
        ),
        make_source_probe("decimal", "import decimal\ndecimal.Decimal = lambda *_: 0\nprint('0.5')"),
        make_source_probe("operator", "import operator\noperator.eq = lambda *_: True\nprint('no answer')"),
        make_source_probe("deep-copy", "import copy\ncopy.deepcopy = lambda *_: 'no answer'", FUNCTIONS),
        make_source_probe(
            "fake-module",
            "import sys, types\nfake = types.ModuleType('json')\nfake.loads = lambda *_, **__: 'no answer'\n"
            "fake.dumps = lambda *_, **__: '0'\nsys.modules['json'] = fake",
            FUNCTIONS,
        ),
    ),
)
