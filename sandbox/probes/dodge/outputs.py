"""Prints or returns values that can crash the judge's own code."""

from sandbox.probes.probe import CALLS, ENTRY, STDIN, Group, JudgeProbe, ProbeClass, submits


def _writes(name: str, expression: str, *, seconds: float = 1.0) -> JudgeProbe:
    return submits(name, f"import os\nos.write(1, {expression})", STDIN, seconds=seconds)


def _returns(name: str, expression: str, given: str = "") -> JudgeProbe:
    return submits(name, f"{given}\ndef {ENTRY}(*values):\n    return {expression}\n", CALLS)


_FLOOD = "import os\nblock = b'x' * (1 << 20)\ntry:\n    for _ in range(256):\n        os.write(1, block)\n" \
    "except OSError:\n    pass"  # fmt: skip

CLASS = ProbeClass(
    Group.DODGE,
    "outputs",
    why="The judge fails on an unusual output, and counts its own failure as a success or as unknown.",
    remedy='Read a bounded number of bytes, decode them with errors="replace", and reject what cannot be compared.',
    source="ours",
    probes=(
        submits("flood-of-256-mb", _FLOOD, STDIN, seconds=5.0),
        _writes("invalid-utf-8", "b'\\xff\\xfe\\xfa\\n'"),
        _writes("surrogate-in-utf-8", "b'\\xed\\xa0\\x80\\n'"),
        _writes("nul-bytes", "b'\\0\\0\\0\\n'"),
        _writes("long-integer", "b'9' * 5000"),
        _writes("deep-brackets", "b'[' * 50_000"),
        _writes("exponent", "b'1e999999999\\n'"),
        _writes("overlong-line", "b'1 ' * 500_000"),
        _returns("not-a-number", "float('nan')"),
        _returns("infinity", "float('inf')"),
        _returns("lone-surrogate", "'\\ud800'"),
        _returns("bytes", "b'answer'"),
        _returns("set", "{1, 2}"),
        _returns("function", "print"),
        _returns("plain-object", "object()"),
        _returns("huge-integer", "10 ** 5000"),
        _returns("cyclic-list", "loop", "loop = []\nloop.append(loop)"),
        _returns("deep-list", "deep", "deep = []\nfor _ in range(5000):\n    deep = [deep]"),
        _returns("odd-keys", "{(1, 2): 3}"),
        _returns("generator", "(value for value in values)"),
        _returns(
            "raises-when-compared", "Bad()", "class Bad:\n    def __eq__(self, other):\n        raise ValueError\n"
        ),
        _returns("raises-when-shown", "Bad()", "class Bad:\n    def __repr__(self):\n        raise ValueError\n"),
    ),
)
