"""Compare the wall time of a whole build with the CPU time of the programs that it executes.

    python -m benchmarks.build [NAME=LOCATION ...]     (default: the sample in examples/)

The ratio is wall time / (CPU time / cores). It would be 1 if the build did nothing but execute programs on all cores.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.machine import describe
from curate.pipeline import BuildOptions, build

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "build.json"


def main(arguments: list[str]) -> None:
    sample = [f"{name}={ROOT}/examples/raw/{name}" for name in ("taco", "synthetic1", "livecodebench")]
    locations = [tuple(argument.split("=", 1)) for argument in arguments or sample]
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        manifest = build([(name, place) for name, place in locations], Path(folder) / "out", BuildOptions())
        wall_seconds = time.perf_counter() - started
    assert manifest.build is not None
    cpu_seconds = manifest.build.executed_cpu_seconds
    result = {
        "machine": describe(),
        "problems": manifest.n_read,
        "workers": cores,
        "wall_seconds": wall_seconds,
        "cpu_seconds": cpu_seconds,
        "ratio": wall_seconds / (cpu_seconds / cores),
        "stages": manifest.seconds,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
