"""Submissions that write reports to inherited pipes and unnamed files."""

from sandbox.probes.probe import FUNCTIONS, Group, JudgeProbe, ProbeClass, make_source_probe

_SOURCE = """
import json, os, pickle, stat, struct
for descriptor in range(3, 64):
    try:
        status = os.fstat(descriptor)
    except OSError:
        continue
    if stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode) or status.st_nlink == 0:
        try:
            os.set_blocking(descriptor, False)
            os.write(descriptor, {message})
        except OSError:
            pass
os._exit(0)
"""
_DICTIONARY = "{'passed': True, 'success': True, 'score': 1.0, 'results': [True, True, True]}"


def _make_message_probe(name: str, message: str) -> JudgeProbe:
    return make_source_probe(name, _SOURCE.format(message=message), FUNCTIONS)


CLASS = ProbeClass(
    Group.FORGE,
    "descriptors",
    why="The submission's process inherits the descriptor over which its result is reported.",
    remedy="Let the submission inherit only descriptors 0 to 2, or treat everything from other descriptors as output.",
    source="ours",
    probes=(
        _make_message_probe("json", f"(json.dumps({_DICTIONARY}) + chr(10)).encode()"),
        _make_message_probe("word", "b'passed\\n'"),
        _make_message_probe("byte", "b'1'"),
        _make_message_probe("pickle", "pickle.dumps(True)"),
        _make_message_probe("pickled-dictionary", f"pickle.dumps({_DICTIONARY})"),
        _make_message_probe("connection", "struct.pack('!i', len(pickle.dumps(True))) + pickle.dumps(True)"),
    ),
)
