"""The sample of the conformance suite passes when its own driver runs tests/conformance_adapter.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
KIT = Path(os.environ.get("CURATE_CONFORMANCE", ROOT.parent / "shared" / "conformance"))
needs_kit = pytest.mark.skipif(
    not (KIT / "check.py").exists(), reason=f"no conformance kit in {KIT} (CURATE_CONFORMANCE says where)"
)


@needs_kit
@pytest.mark.quiet
@pytest.mark.parametrize("category", ["verdict", "wrong", "hack", "host"])
def test_the_sample_holds(category: str) -> None:
    options = ["--category", category, *(["--starve"] if category == "host" else [])]
    driver = subprocess.run(
        [sys.executable, KIT / "check.py", ROOT / "tests" / "conformance_adapter.py", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert driver.returncode == 0, driver.stdout + driver.stderr
