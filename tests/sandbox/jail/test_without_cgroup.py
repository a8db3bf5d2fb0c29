"""Without a cgroup, the sandbox bounds the resident memory of runs, and reports only limits that a run has reached."""

import json
import subprocess

import pytest
from confined import NO_CGROUP, ROOT, command

from sandbox import Sandbox

RUN = """
import json, sys
from sandbox import Limits, Program, Sandbox
with Sandbox(workers=1) as box:
    results = [box.run(Program(source), limits=Limits(memory_mb=64)) for source in json.load(sys.stdin)]
    print(json.dumps([box.layers, [result.outcome.value for result in results]]))
"""
GROWING = {
    "bit by bit": "x = []\nwhile True: x.append(bytearray(b'x' * 10**6))",
    "small objects": "x = {}\nwhile True: x[len(x)] = [len(x)]",
    "doubled": "x = [0] * 1000\nwhile True: x += x",
    "in children": "import os\nfor _ in range(4): os.fork()\nx = []\nwhile True: x.append(bytearray(b'x' * 10**6))",
}
MEMORY_MESSAGES = [
    "raise MemoryError",
    "import os, sys\nsys.stderr.write('std::bad_alloc')\nsys.stderr.flush()\nos.abort()",
]


def run_without_cgroups(arguments: list[str], text: str = "") -> str:
    """Run Python with these arguments and without cgroups; return its stdout."""
    hidden = [*command(NO_CGROUP, ROOT), *arguments]
    done = subprocess.run(hidden, input=text, capture_output=True, text=True, cwd=ROOT, check=False)
    assert not done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def layers_and_outcomes() -> tuple[dict[str, str], list[str]]:
    layers, outcomes = json.loads(run_without_cgroups(["-c", RUN], json.dumps([*GROWING.values(), *MEMORY_MESSAGES])))
    return layers, outcomes


def test_best_effort_layers_name_the_remedy(layers_and_outcomes: tuple[dict[str, str], list[str]]) -> None:
    layers, _ = layers_and_outcomes
    weak = {name for name, how in layers.items() if how.startswith("best-effort")}
    assert weak == {"memory", "processors"}
    assert "Start the sandbox" in layers["memory"]


def test_with_a_cgroup_no_limit_is_best_effort(box: Sandbox) -> None:
    if "cgroup" not in box.layers["memory"] or "No cgroup" in box.layers["memory"]:
        pytest.skip("this machine has no writable cgroup")
    assert not [name for name in ("memory", "number of processes") if box.layers[name].startswith("best-effort")]


def test_only_programs_beyond_the_limit_are_out_of_memory(
    layers_and_outcomes: tuple[dict[str, str], list[str]],
) -> None:
    _, outcomes = layers_and_outcomes
    assert dict(zip(GROWING, outcomes, strict=False)) == dict.fromkeys(GROWING, "out_of_memory")
    assert outcomes[len(GROWING) :] == ["exited", "signalled"]


def test_the_doctor_marks_best_effort_layers() -> None:
    output = run_without_cgroups(["-m", "cli", "doctor"])
    marked = [line.split("  ")[0] for line in output.splitlines() if line.startswith("! ")]
    assert marked[:2] == ["! memory", "! processors"]
    assert "degraded" in marked[-1]
    assert "Start the sandbox" in output
