"""Submissions that output values that can crash the judge's own code."""

from sandbox.probes.probe import CALLS, ENTRY, STDIN, Group, JudgeProbe, ProbeClass, make_source_probe


def _make_write_probe(name: str, expression: str, *, seconds: float = 1.0) -> JudgeProbe:
    return make_source_probe(name, f"import os\nos.write(1, {expression})", STDIN, seconds=seconds)


def _make_return_probe(name: str, expression: str, given: str = "") -> JudgeProbe:
    return make_source_probe(name, f"{given}\ndef {ENTRY}(*values):\n    return {expression}\n", CALLS)


_FLOOD = "import os\nblock = b'x' * (1 << 20)\ntry:\n    for _ in range(256):\n        os.write(1, block)\n" \
    "except OSError:\n    pass"  # fmt: skip

CLASS = ProbeClass(
    Group.DODGE,
    "outputs",
    why="The judge fails on an unusual output, and counts its own failure as a success or as unknown.",
    remedy='Read a bounded number of bytes, decode them with errors="replace", and reject values that are not plain.',
    source="ours",
    probes=(
        make_source_probe("flood-of-256-mb", _FLOOD, STDIN, seconds=5.0),
        _make_write_probe("invalid-utf-8", "b'\\xff\\xfe\\xfa\\n'"),
        _make_write_probe("surrogate-in-utf-8", "b'\\xed\\xa0\\x80\\n'"),
        _make_write_probe("nul-bytes", "b'\\0\\0\\0\\n'"),
        _make_write_probe("long-integer", "b'9' * 5000"),
        _make_write_probe("deep-brackets", "b'[' * 50_000"),
        _make_write_probe("exponent", "b'1e999999999\\n'"),
        _make_write_probe("overlong-line", "b'1 ' * 500_000"),
        _make_return_probe("not-a-number", "float('nan')"),
        _make_return_probe("infinity", "float('inf')"),
        _make_return_probe("lone-surrogate", "'\\ud800'"),
        _make_return_probe("bytes", "b'answer'"),
        _make_return_probe("set", "{1, 2}"),
        _make_return_probe("function", "print"),
        _make_return_probe("plain-object", "object()"),
        _make_return_probe("huge-integer", "10 ** 5000"),
        _make_return_probe("cyclic-list", "loop", "loop = []\nloop.append(loop)"),
        _make_return_probe("deep-list", "deep", "deep = []\nfor _ in range(5000):\n    deep = [deep]"),
        _make_return_probe("odd-keys", "{(1, 2): 3}"),
        _make_return_probe("generator", "(value for value in values)"),
        _make_return_probe(
            "raises-when-compared", "Bad()", "class Bad:\n    def __eq__(self, other):\n        raise ValueError\n"
        ),
        _make_return_probe(
            "raises-when-shown", "Bad()", "class Bad:\n    def __repr__(self):\n        raise ValueError\n"
        ),
    ),
)
