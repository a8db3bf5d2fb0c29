"""Result files, and the description of the machine in them."""

import datetime
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"


def load_results(name: str) -> dict[str, Any]:
    """Return the results of a benchmark; empty if there are none."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def save_results(name: str, results: Mapping[str, Any]) -> None:
    """Write the results of a benchmark, and print the path of the file."""
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(path, flush=True)


def describe_machine() -> str:
    """Return cores, processor, kernel, Python and today's date."""
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores of {model}, Linux {platform.release().split('-')[0]},"
        f" Python {platform.python_version()}, {datetime.date.today()}"
    )
