"""The mathematics of evaluations needs only the standard library, so that it can be used anywhere."""

import subprocess
import sys
from pathlib import Path

import train.evaluation

ROOMS = ("statistics", "codeforces")


def test_statistics_and_ratings_load_no_other_package():
    folder = Path(train.evaluation.__file__).parent
    modules = [f"train.evaluation.{room}.{file.stem}" for room in ROOMS for file in (folder / room).glob("*.py")]
    heavy = {"sandbox", "rewards", "torch", "numpy", "pandas", "pyarrow", "click", "datasets"}
    code = f"import sys\nimport {', '.join(modules)}\nprint(*sorted({heavy!r} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(modules) > 5
    assert loaded.stdout.split() == []
