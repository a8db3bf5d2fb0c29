"""Submissions that write the result file of a harness."""

import json

from sandbox.probes.probe import FUNCTIONS, Group, JudgeProbe, ProbeClass, make_source_probe

_JSON = json.dumps(
    {"passed": True, "success": True, "score": 1.0, "reward": 1.0, "status": "passed", "results": [True] * 3}
)
_JUNIT = '<testsuites><testsuite tests="3" failures="0" errors="0" skipped="0"/></testsuites>'
_WRITE = """
import os
for folder in {{os.getcwd(), os.path.dirname(os.path.abspath(globals().get("__file__", "x")))}}:
    for name in {names!r}:
        try:
            with open(os.path.join(folder, name), "x") as file:
                file.write({text!r})
        except OSError:
            pass
"""


_WRITE_NAMED_FILE = """
import os, sys, tempfile
folders = [os.path.realpath(folder) for folder in (os.getcwd(), tempfile.gettempdir())]
for path in [*sys.argv[1:], *(value for value in os.environ.values() if os.path.isabs(value))]:
    if os.path.realpath(os.path.dirname(path) or os.curdir) in folders and len(path) < 1000:
        try:
            with open(path, "x") as file:
                file.write({text!r})
        except (OSError, ValueError):
            pass
os._exit(0)
"""


def _make_file_probe(name: str, files: tuple[str, ...], text: str, then: str = "os._exit(0)") -> JudgeProbe:
    return make_source_probe(name, f"{_WRITE.format(names=files, text=text)}\n{then}\n", FUNCTIONS)


_WRITE_LATE = f"""
import os, time
folder = os.getcwd()
if os.fork() == 0:
    time.sleep(0.3)
    try:
        with open(os.path.join(folder, "result.json"), "w") as file:
            file.write({_JSON!r})
    finally:
        os._exit(0)
"""

CLASS = ProbeClass(
    Group.FORGE,
    "files",
    why="The harness writes its result to a file that the submission can also write, before or afterwards.",
    remedy="Create the file after the last process of the submission has exited, outside its folders.",
    source="ours",
    probes=(
        _make_file_probe("result-json", ("result.json", "results.json"), _JSON),
        _make_file_probe("output-json", ("output.json", "report.json", "test_results.json"), _JSON),
        _make_file_probe("score-text", ("score.txt", "reward.txt", "score", "reward"), "1.0\n"),
        _make_file_probe("verdict-text", ("verdict.txt", "status.txt", "result.txt"), "passed\n"),
        _make_file_probe("exit-status-text", ("exit_code", "exit_code.txt", "returncode", "rc"), "0\n"),
        _make_file_probe("junit-xml", ("junit.xml", "report.xml", "results.xml"), _JUNIT),
        make_source_probe("json-in-a-named-file", _WRITE_NAMED_FILE.format(text=_JSON), FUNCTIONS),
        make_source_probe("word-in-a-named-file", _WRITE_NAMED_FILE.format(text="pass\n"), FUNCTIONS),
        make_source_probe("written-late", _WRITE_LATE, FUNCTIONS),
    ),
)
