"""The image of the docker backend has all that it needs, and two versions of the sandbox are told apart."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import image

ROOT = Path(__file__).parents[2]
ENTRANCES = ("sandbox.judging.worker", "sandbox.jail.zygote")
LOADED_BY_NAME = ("sandbox/languages", "sandbox/checkers")
FINGERPRINTS = (
    "from sandbox import image; from sandbox.backends._supervisor import compute_code_fingerprint;"
    " print(image.compute_fingerprint(), compute_code_fingerprint())"
)


def path_of(module: str) -> Path | None:
    base = ROOT / Path(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def imported_by(path: Path) -> Iterator[str]:
    """Return the modules that a file imports and the packages around them, except imports for the type checker."""
    tree = ast.parse(path.read_text())
    unseen = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in unseen:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def reachable() -> set[Path]:
    """Return all files of the package that a worker or a zygote can import."""
    by_name = [path for folder in LOADED_BY_NAME for path in (ROOT / folder).glob("*.py")]
    waiting = [ROOT / "sandbox" / "__init__.py", *filter(None, map(path_of, ENTRANCES)), *by_name]
    reached: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached.add(path)
        for module in imported_by(path):
            if module.split(".")[0] == "sandbox":
                parts = module.split(".")
                packages = (".".join(parts[:depth]) for depth in range(1, len(parts) + 1))
                waiting += [found for found in map(path_of, packages) if found is not None]
    return reached


def test_whatever_a_worker_imports_is_in_the_image() -> None:
    names = {str(path.relative_to(ROOT / "sandbox")) for path in reachable()}
    assert {"judging/runner.py", "jail/child.py", "judge.py", "languages/cpp.py", "checkers/lcb.py"} <= names
    assert names - set(image.list_source_files()) == set()


def test_nothing_is_in_the_image_that_no_worker_imports() -> None:
    names = {str(path.relative_to(ROOT / "sandbox")) for path in reachable()}
    python = {name for name in image.list_source_files() if name.endswith(".py")}
    assert python - names == {"image/__init__.py"}


@pytest.mark.parametrize(
    ("edited", "makes_another_image", "judges_otherwise"),
    [
        ("commands/judge.py", False, False),
        ("service/app.py", False, False),
        ("judge_record.py", False, False),
        ("options.py", False, False),
        ("backends/_dispatch.py", False, True),
        ("judge.py", True, True),
        ("judging/runner.py", True, True),
    ],
)
def test_only_an_edit_of_what_judges_makes_another_version(
    edited: str, makes_another_image: bool, judges_otherwise: bool, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "sandbox", tmp_path / "sandbox", ignore=shutil.ignore_patterns("__pycache__"))

    def fingerprints() -> list[str]:
        command = [sys.executable, "-B", "-c", FINGERPRINTS]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()

    before = fingerprints()
    with (tmp_path / "sandbox" / edited).open("a") as file:
        file.write("# another comment\n")
    after = fingerprints()
    assert [old != new for old, new in zip(before, after, strict=True)] == [makes_another_image, judges_otherwise]
