"""The export target verifiers: a Python package. Once it is installed, verifiers loads it as a taskset by its name.

The package contains the problems as Parquet, with complete suites, because curate's sandbox judges the programs.
"""

import re
import shutil
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path

from curate.exports._export import ExportOptions, collect_common_values, make_user_message, write_parquet, write_readme
from curate.problem import Problem

EXCLUSION_REASONS: dict[str, str] = {}
_TASKSET = Path(__file__).with_name("_taskset.py")
_INIT = """from {package}.taskset import ProblemEnvironment, ProblemTaskset

__all__ = ["ProblemEnvironment", "ProblemTaskset"]
"""
_PYPROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "0.1.0"
description = "Verified programming problems, rewarded in a sandbox."
requires-python = ">=3.11"
dependencies = ["curate-code", "pyarrow>=17", "verifiers>=0.4"]

[tool.hatch.build.targets.wheel]
packages = ["{package}"]
"""
_README = """# Problems for verifiers

A package with the taskset `{name}`, for verifiers 0.4 or newer, in an environment that has curate-code:

    pip install uv --editable DIR
    vf-eval {name} --model MODEL --client.base-url http://HOST:8000/v1 --client.api-key-var KEY --no-push

KEY is the name of an environment variable that contains the server's key; without --no-push, the results go to Prime
Intellect. The environment runs verifiers' harness `null`, which only sends prompts to the model, as a local process
(runtime `subprocess`); verifiers prepares it with uv. To use another harness or runtime, set --env.agent.harness.id and
--env.agent.runtime.type.

The reward is 1.0 if the program in the last fenced block of a reply passes every test in the sandbox, else 0.0. If the
sandbox fails, the trace has an error and no reward. If many processes score, set CURATE_URL to the address of one
`curate serve`.
"""


def find_unsupported_reason(problem: Problem, options: ExportOptions) -> str | None:
    return None


def make_package_name(folder: str) -> str:
    """Return the package name for a folder. The prefix prevents conflicts with other packages."""
    return f"curate_{re.sub(r'[^a-z0-9]+', '_', folder.lower()).strip('_') or 'problems'}"


def write(problems: Iterable[Problem], folder: Path, options: ExportOptions) -> None:
    import pyarrow as pa

    package = make_package_name(options.name)
    names = {"package": package, "name": package.replace("_", "-")}
    inner = folder / package
    inner.mkdir()
    prompt = options.prompt
    columns = ("id", *(["system_prompt"] if prompt.system else []), "prompt", "tests", "source", "licence")
    schema = pa.schema({name: pa.string() for name in columns})
    rows = (
        {
            **collect_common_values(problem),
            "system_prompt": prompt.system,
            "prompt": make_user_message(problem, prompt),
            "tests": problem.tests.to_json(),
        }
        for problem in problems
    )
    write_parquet(rows, schema, inner / "problems.parquet", tests=itemgetter("tests"))
    shutil.copyfile(_TASKSET, inner / "taskset.py")
    (inner / "__init__.py").write_text(_INIT.format(**names))
    (folder / "pyproject.toml").write_text(_PYPROJECT.format(**names))
    remedy = "Pass them to the model as `chat_template_kwargs` of its sampling arguments."
    write_readme(folder, _README.format(**names), prompt, remedy)
