"""Without a cgroup, the sandbox still bounds what it can see, and does not report a limit that was not reached."""

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
SPEAKING = ["raise MemoryError", "import os, sys\nsys.stderr.write('std::bad_alloc')\nsys.stderr.flush()\nos.abort()"]


def without_cgroups(arguments: list[str], text: str = "") -> str:
    """Return what Python prints with these arguments if cgroups are hidden; it must succeed."""
    hidden = [*command(NO_CGROUP, ROOT), *arguments]
    done = subprocess.run(hidden, input=text, capture_output=True, text=True, cwd=ROOT, check=False)
    assert not done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def seen() -> tuple[dict[str, str], list[str]]:
    layers, outcomes = json.loads(without_cgroups(["-c", RUN], json.dumps([*GROWING.values(), *SPEAKING])))
    return layers, outcomes


def test_layers_that_are_only_best_effort_say_so_and_what_to_do(seen: tuple[dict[str, str], list[str]]) -> None:
    layers, _ = seen
    weak = {name for name, how in layers.items() if how.startswith("best-effort")}
    assert weak == {"memory", "processors"}
    assert "What to do" in layers["memory"]


def test_with_a_cgroup_nothing_is_only_best_effort(box: Sandbox) -> None:
    if "cgroup" not in box.layers["memory"] or "No cgroup" in box.layers["memory"]:
        pytest.skip("this machine gives us no cgroup, which is what the test is about")
    assert not [name for name in ("memory", "number of processes") if box.layers[name].startswith("best-effort")]


def test_growing_programs_run_out_of_memory_and_messages_about_memory_do_not_count(
    seen: tuple[dict[str, str], list[str]],
) -> None:
    _, outcomes = seen
    assert dict(zip(GROWING, outcomes, strict=False)) == dict.fromkeys(GROWING, "out_of_memory")
    assert outcomes[len(GROWING) :] == ["exited", "signalled"]


def test_the_doctor_marks_what_is_weak() -> None:
    said = without_cgroups(["-m", "cli", "doctor"])
    marked = [line.split("  ")[0] for line in said.splitlines() if line.startswith("! ")]
    assert marked[:2] == ["! memory", "! processors"]
    assert "degraded" in marked[-1]
    assert "What to do" in said
