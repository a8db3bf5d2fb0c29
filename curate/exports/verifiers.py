"""Write a package for verifiers. Once the folder is installed, the name of the package can be used as a taskset.

The package contains the problems as Parquet. Rewards are computed in curate's sandbox, so suites are exported
completely.
"""

import re
import shutil
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path

from curate.exports._export import ExportOptions, collect_common_values, make_question, write_parquet, write_readme
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
Intellect. The environment runs verifiers' harness
`null`, which only talks to the model, as a process of this machine (runtime `subprocess`); verifiers prepares it with
uv. To use another harness or runtime, give --env.agent.harness.id and --env.agent.runtime.type.

A reply is rewarded with 1.0 if the program in its last fenced block passes every test in the sandbox, else 0.0. When
the sandbox fails, the trace has an error and no reward. Where many processes score, set CURATE_URL to the address of
one `curate serve`.
"""


def unsupported_reason(problem: Problem, options: ExportOptions) -> str | None:
    return None


def make_package_name(folder: str) -> str:
    """Return a package name made from the name of the folder; its prefix distinguishes it from other packages."""
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
            "prompt": make_question(problem, prompt),
            "tests": problem.tests.to_json(),
        }
        for problem in problems
    )
    write_parquet(rows, schema, inner / "problems.parquet", tests=itemgetter("tests"))
    shutil.copyfile(_TASKSET, inner / "taskset.py")
    (inner / "__init__.py").write_text(_INIT.format(**names))
    (folder / "pyproject.toml").write_text(_PYPROJECT.format(**names))
    remedy = "Give them to the model as `chat_template_kwargs` of its sampling arguments."
    write_readme(folder, _README.format(**names), prompt, remedy)
