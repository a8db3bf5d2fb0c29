"""An export to verifiers is a package that verifiers loads, with rewards from the sandbox."""

import asyncio
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from exported import problems, write
from foreign import needed

needed("verifiers")

from curate.exports._export import ExportOptions, export  # noqa: E402
from rewards import process_singletons  # noqa: E402
from sandbox import Sandbox  # noqa: E402

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verifiers")
    dataset = write(folder / "built", problems())
    export(dataset, "verifiers", folder / "My Set", ExportOptions())
    return folder / "My Set"


@pytest.fixture(scope="module")
def tasks(package):
    import verifiers.v1 as vf

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(package)
        environment = vf.load_environment(vf.resolve_env_config({"taskset": {"id": "curate-my-set"}}))
    return {task.data.id.removeprefix("taco/"): task for task in environment.taskset}


def scored(task, reply):
    """Return the scored trace of a rollout in which the model gave this reply."""
    import verifiers.v1 as vf
    from verifiers.v1.trace import AgentInfo, Trace, TraceTask

    recorded = TraceTask(type=type(task).__name__, data=task.data, key=task.key)
    trace = Trace(task=recorded, agent=AgentInfo(config=vf.AgentConfig()), root_reply=reply)
    asyncio.run(task.score(trace))
    return trace


def test_its_loader_finds_every_verified_problem(tasks):
    assert list(tasks) == "call dict none other referee slow sum".split()
    assert "Statement of sum." in tasks["sum"].data.prompt_text
    assert len({task.key for task in tasks.values()}) == 7


@pytest.mark.thorough
def test_the_command_in_its_readme_is_accepted_and_needs_no_cloud(package, tmp_path):
    needed("prime_runs")
    (line,) = [line for line in (package / "README.md").read_text().splitlines() if line.startswith("    vf-eval ")]
    words = line.replace("MODEL", "some/model").replace("HOST", "localhost").split()
    vf_eval = [
        sys.executable,
        "-c",
        "from verifiers.v1.cli.eval.main import main; main()",
        *words[1:],
        "--dry-run",
        "True",
    ]
    paths = os.pathsep.join(map(str, [package, ROOT]))
    environment = os.environ | {"PYTHONPATH": paths, "KEY": "none", "HOME": str(tmp_path)}
    done = subprocess.run(vf_eval, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    resolved = json.loads(next(tmp_path.glob("outputs/*/configs/resolved/eval.json")).read_text())
    agent = resolved["env"]["agent"]
    assert (agent["runtime"]["type"], agent["harness"]["id"]) == ("subprocess", "null")
    assert resolved["client"]["base_url"] == "http://localhost:8000/v1"


def test_right_programs_get_one_and_wrong_ones_zero(tasks):
    references = {row.id.removeprefix("taco/"): row.reference for row in problems()}
    for name, task in tasks.items():
        assert (name, scored(task, f"So:\n```python\n{references[name].source}\n```").reward) == (name, 1.0)
        assert scored(task, "```python\n1 / 0\n```").reward == 0.0
        assert scored(task, "I do not know.").reward == 0.0


def test_a_failed_sandbox_is_an_error_and_not_a_zero(tasks, monkeypatch):

    import verifiers.v1 as vf

    box = Sandbox(workers=1)
    box.close()
    monkeypatch.setattr(process_singletons, "_singletons", {(os.getpid(), "sandbox"): box})
    with pytest.raises(vf.TaskError, match="UnknownReward"):
        scored(tasks["sum"], "```python\nprint(1)\n```")


def test_the_folder_builds_into_a_wheel_with_its_problems(package, tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=package, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extract("curate_my_set/problems.parquet", tmp_path)
    assert pq.read_metadata(tmp_path / "curate_my_set" / "problems.parquet").num_rows == 7
