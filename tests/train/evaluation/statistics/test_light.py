"""The mathematics of evaluations needs only the standard library, so that it can be used anywhere."""

import subprocess
import sys
from pathlib import Path

import train.evaluation


def test_statistics_and_ratings_load_no_other_package():
    folder = Path(train.evaluation.__file__).parent
    modules = [f"train.evaluation.statistics.{file.stem}" for file in (folder / "statistics").glob("*.py")]
    modules.append("train.evaluation.codeforces.rating")
    heavy = {"sandbox", "rewards", "torch", "numpy", "pandas", "pyarrow", "click", "datasets"}
    code = f"import sys\nimport {', '.join(modules)}\nprint(*sorted({heavy!r} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(modules) > 4
    assert loaded.stdout.split() == []
