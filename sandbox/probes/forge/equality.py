"""Submissions that return objects whose __eq__ returns True for any other object."""

from sandbox.probes.probe import CALLS, ENTRY, FUNCTIONS, Group, JudgeProbe, ProbeClass, make_source_probe

_METHODS = (
    "    __eq__ = lambda self, other: True\n    __ne__ = lambda self, other: False\n    __hash__ = lambda self: 0\n"
)


def _make_equality_probe(name: str, base: str, value: str, more: str = "") -> JudgeProbe:
    source = f"class Equal{base}:\n{_METHODS}{more}\ndef {ENTRY}(*values):\n    return {value}\n"
    return make_source_probe(name, source, FUNCTIONS)


CLASS = ProbeClass(
    Group.FORGE,
    "equality",
    why="The judge compares the returned object itself, whose methods decide whether it is equal.",
    remedy="Compare plain values copied out of the submission's process, and check their exact types.",
    source="https://github.com/evalplus/evalplus/pull/306",
    probes=(
        _make_equality_probe("object", "", "Equal()"),
        _make_equality_probe("text", "(str)", "Equal('no answer')"),
        _make_equality_probe("integer", "(int)", "Equal(123456)"),
        _make_equality_probe("float", "(float)", "Equal(0.5)"),
        _make_equality_probe("list", "(list)", "Equal([0])"),
        _make_equality_probe("dictionary", "(dict)", "Equal()"),
        _make_equality_probe("tuple", "(tuple)", "Equal((0,))"),
        _make_equality_probe("pretended-class", "", "Equal()", "    __class__ = list\n"),
        _make_equality_probe("pretended-text", "", "Equal()", "    __class__ = str\n"),
        _make_equality_probe("metaclass", "(type)", "Equal('Answer', (), {})"),
        make_source_probe(
            "type-equal-to-all",
            "class Any(type):\n    __eq__ = lambda self, other: True\n    __ne__ = lambda self, other: False\n"
            "    __hash__ = lambda self: 0\n    __name__ = property(lambda self: mock.ANY)\n"
            f"from unittest import mock\nclass Equal(metaclass=Any):\n{_METHODS}"
            f"def {ENTRY}(*values):\n    return Equal()\n",
            FUNCTIONS,
        ),
        make_source_probe(
            "mock", f"from unittest import mock\ndef {ENTRY}(*values):\n    return mock.ANY\n", FUNCTIONS
        ),
        make_source_probe(
            "magic-mock",
            f"from unittest import mock\ndef {ENTRY}(*values):\n    m = mock.MagicMock()\n"
            "    m.__eq__.return_value = True\n    m.__ne__.return_value = False\n    return m\n",
            FUNCTIONS,
        ),
        make_source_probe(
            "no-distance",
            "class Near(float):\n    __sub__ = __rsub__ = __abs__ = lambda self, *other: Near(0)\n"
            "    __eq__ = lambda self, other: False\n    __hash__ = None\n"
            f"def {ENTRY}(*values):\n    return Near(0.5)\n",
            CALLS,
        ),
        make_source_probe(
            "changes-its-mind",
            "class Fickle(str):\n    looks = 0\n    def __eq__(self, other):\n        Fickle.looks += 1\n"
            "        return Fickle.looks % 2 == 0\n    __ne__ = lambda self, other: not self == other\n"
            f"    __hash__ = None\ndef {ENTRY}(*values):\n    return Fickle('no answer')\n",
            CALLS,
        ),
    ),
)
