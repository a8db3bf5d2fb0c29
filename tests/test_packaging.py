"""The wheel contains what we mean to ship and does not overwrite other packages."""

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

ROOT = Path(__file__).parents[1]


def test_the_wheel_holds_our_packages_and_nothing_else(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    top_level = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in top_level if not name.endswith(".dist-info")} == {
        "cli.py",
        "curate",
        "rewards",
        "sandbox",
        "train",
    }


def test_our_packages_share_one_parent() -> None:
    parents = {Path(module.__file__ or "").resolve().parent.parent for module in (sandbox, rewards, curate, train)}
    assert parents == {Path(cli.__file__).resolve().parent}


def test_another_package_named_sandbox_is_reported(tmp_path: Path) -> None:
    foreign = tmp_path / "sandbox"
    foreign.mkdir()
    (foreign / "__init__.py").write_text("")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from cli import main; main(['judge', '--help'])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT / "tests")
    assert result.returncode == 1
    assert "another package named sandbox hides ours" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", sorted(cli.main.commands))
def test_every_command_has_help(command: str) -> None:  # and a guide: see test_docs.py
    assert cli.main.commands[command].help
