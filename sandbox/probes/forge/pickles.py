"""Submissions that return values whose unpickling executes code."""

from sandbox.probes.probe import CALLS, ENTRY, Group, JudgeProbe, ProbeClass, make_source_probe

_EQUAL = "type('Equal', (), {'__eq__': lambda self, other: True, '__ne__': lambda self, other: False})()"


def _make_reduce_probe(name: str, function: str, argument: str) -> JudgeProbe:
    source = (
        f"class Value:\n    def __reduce__(self):\n        return {function}, ({argument!r},)\n"
        f"def {ENTRY}(*values):\n    return Value()\n"
    )
    return make_source_probe(name, source, CALLS)


CLASS = ProbeClass(
    Group.FORGE,
    "pickles",
    why="The judge unpickles the returned value, which runs code of the submission in the judge's process.",
    remedy="Transfer values as JSON, with limits on size and depth, never as pickles.",
    source="https://docs.python.org/3/library/pickle.html",
    probes=(
        _make_reduce_probe("equal-object", "eval", _EQUAL),
        _make_reduce_probe("patched-builtin", "eval", "[setattr(__import__('builtins'), 'all', lambda *_: True)]"),
        make_source_probe(
            "state",
            f"class Value(dict):\n    def __reduce__(self):\n        return eval, ({_EQUAL!r},)\n"
            f"def {ENTRY}(*values):\n    return [Value()]\n",
            CALLS,
        ),
    ),
)
