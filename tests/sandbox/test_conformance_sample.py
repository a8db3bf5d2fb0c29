"""The sample of the conformance suite passes when its own driver runs our adapters."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from confined import CONTAINER, command

ROOT = Path(__file__).parents[2]
KIT = Path(os.environ.get("CURATE_CONFORMANCE", ROOT.parent / "shared" / "conformance"))

pytestmark = [
    pytest.mark.quiet,
    pytest.mark.thorough,
    pytest.mark.skipif(
        not (KIT / "check.py").exists(), reason=f"no conformance kit in {KIT} (CURATE_CONFORMANCE says where)"
    ),
]


def assert_holds(adapter: str, *options: str) -> None:
    driver = subprocess.run(
        [sys.executable, KIT / "check.py", ROOT / "tests" / adapter, *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert driver.returncode == 0, driver.stdout + driver.stderr


@pytest.mark.parametrize("category", ["verdict", "wrong", "hack", "host"])
def test_the_sample_holds(category: str) -> None:
    assert_holds("conformance_adapter.py", "--category", category, *(["--starve"] if category == "host" else []))


def test_the_sample_holds_in_containers() -> None:
    command(CONTAINER, ROOT)  # skips the test where there are none
    assert_holds("docker_conformance_adapter.py", "--starve")
