"""The wheel contains what we mean to ship, does not overwrite other packages, and works beside a user's own files."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import cli
import curate
import rewards
import sandbox
import train
from curate.commands.main import list_command_modules

ROOT = Path(__file__).parents[1]
PACKAGES = {"curate", "rewards", "sandbox", "train"}
RECORD = {"id": 1, "code": "print(input())", "kind": "stdin", "tests": [{"input": "7", "output": "7"}]}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def site(wheel: Path) -> Path:
    """Return a folder in which the wheel is installed, with the console script in bin/."""
    folder = wheel.parent / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
    subprocess.run([*command, str(folder), str(wheel)], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder whose modules have names of ours, or of our dependencies, and may not be imported."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("cli.py", "train.py", "sandbox.py", "rewards/__init__.py", "click.py", "torch.py", "verify.py"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"raise SystemExit('{name} of the user was imported')\n")
    (folder / "records.jsonl").write_text(json.dumps(RECORD) + "\n")
    return folder


def curate_in(folder: Path, site: Path, *words: str, script: str = "", path: str = "") -> tuple[int, str]:
    command = ["-m", "curate"] if script else [str(site / "bin" / "curate")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [path, str(site)]))}
    environment.pop("PYTHONSAFEPATH", None)
    done = subprocess.run(
        [sys.executable, *command, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout + done.stderr


def test_the_wheel_holds_our_packages_and_nothing_else(wheel: Path) -> None:
    top_level = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in top_level if not name.endswith(".dist-info")} == PACKAGES


def test_our_packages_share_one_parent() -> None:
    parents = {Path(module.__file__ or "").resolve().parent.parent for module in (sandbox, rewards, curate, train)}
    assert parents == {Path(cli.__file__).resolve().parent}


@pytest.mark.parametrize("command", sorted(list_command_modules()))
def test_every_command_starts_in_a_folder_with_modules_of_the_same_names(
    command: str, site: Path, hostile: Path
) -> None:
    status, printed = curate_in(hostile, site, command, "--help")
    assert (status, printed.startswith(f"Usage: curate {command}")) == (0, True), printed


def test_programs_are_judged_in_such_a_folder(site: Path, hostile: Path) -> None:
    status, printed = curate_in(hostile, site, "judge", "records.jsonl", "--out", "verdicts.jsonl", "--workers", "1")
    assert (status, "1 records: accepted 1" in printed) == (0, True), printed


def test_a_dataset_is_built_in_such_a_folder(site: Path, hostile: Path) -> None:
    source = f"taco={ROOT / 'examples' / 'raw' / 'taco'}"
    words = ["--source", source, "--out", "out", "--limit", "1", "--mutants", "0", "--workers", "1"]
    status, printed = curate_in(hostile, site, "build-dataset", *words)
    assert (status, "problems in out" in printed) == (0, True), printed


@pytest.mark.thorough
def test_a_run_is_planned_in_such_a_folder(site: Path, hostile: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed; type: make .venv/train")
    import random_models
    import small_runs

    model = random_models.folder(hostile / "model")
    (hostile / "model" / "tokenizer.json").write_text("{}")  # a plan only looks whether there is one
    small_runs.written(hostile, Path(model), hostile / "dataset")
    status, printed = curate_in(hostile, site, "train", "run.toml", "--dry-run")
    assert printed.startswith(f"model      {model}, float32, all weights"), printed
    assert (status, "no data/*.parquet. Pass the folder" in printed) == (1, True), (
        printed
    )  # there is no dataset to plan with


def test_python_finds_our_packages_in_such_a_folder_if_asked_for_the_module(site: Path, hostile: Path) -> None:
    status, printed = curate_in(hostile, site, "judge", "--help", script="-m")
    assert (status, printed.startswith("Usage: curate judge")) == (0, True), printed


@pytest.mark.parametrize("name", ["sandbox", "rewards", "train"])
def test_another_package_of_our_name_is_reported(name: str, site: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign" / name
    foreign.mkdir(parents=True)
    (foreign / "__init__.py").write_text("raise SystemExit('imported')\n")
    status, printed = curate_in(tmp_path, site, "judge", "--help", path=str(foreign.parent))
    assert status == 1
    assert f"Error: another package named {name} shadows curate's: {foreign / '__init__.py'}" in printed
    assert "Traceback" not in printed


def test_a_wheel_names_the_requirements_of_its_extras_which_an_index_has(site: Path, tmp_path: Path) -> None:
    code = "from sandbox.extras import format_install_command as line; print(line('ray')); print(line('data'))"
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    ray, data = done.stdout.splitlines()
    assert ray == "pip install 'ray>=2.52'"
    assert data.startswith("pip install 'datasets>=4.0' 'datasketch<3,>=2' ")


def test_a_source_tree_that_is_not_installed_names_itself(tmp_path: Path) -> None:
    (tmp_path / "sandbox").symlink_to(ROOT / "sandbox")
    code = "from sandbox.extras import format_install_command; print(format_install_command('ray'))"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == f"pip install --editable '{tmp_path}[ray]'\n", done.stderr


def test_the_version_is_that_of_the_distribution(site: Path, tmp_path: Path) -> None:
    status, printed = curate_in(tmp_path, site, "--version")
    version = next(site.glob("*.dist-info")).stem.split("-")[1]
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    assert status == 0
    assert printed.startswith(f"curate-code {version}, built from commit {commit.strip()}")
