"""The public names of the package are imported from it, and only those that are used are loaded."""

import subprocess
import sys
from pathlib import Path

import rewards

ROOT = Path(__file__).parents[2]


def test_every_public_name_can_be_imported_from_the_package():
    assert [name for name in rewards.__all__ if not hasattr(rewards, name)] == []
    assert dir(rewards) == rewards.__all__


def test_importing_the_package_loads_none_of_its_modules_and_no_sandbox():
    code = "import sys, rewards\nprint([n for n in sys.modules if n.startswith(('rewards.', 'sandbox'))])"
    output = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_the_docstring_lists_every_module():
    modules = {path.stem for path in (ROOT / "rewards").iterdir() if path.suffix == ".py"} - {"__init__"}
    listed = {line.split()[0] for line in (rewards.__doc__ or "").splitlines() if "  " in line.strip()}
    assert modules <= listed
    assert {name.rstrip("/") for name in listed} <= {path.stem for path in (ROOT / "rewards").iterdir()}
