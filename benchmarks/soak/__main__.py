"""python -m benchmarks.soak [RUNS]"""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS, describe_machine
from benchmarks.soak.kills import kill_workers
from benchmarks.soak.restarts import restart_command
from benchmarks.soak.steady import judge_steadily
from sandbox.kernel import linux

_MS_SHARED = 1 << 20


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.soak")
    options.add_argument("runs", nargs="?", type=int, default=200_000, help="programs to execute  [200000]")
    options.add_argument("--seed", type=int, default=0, help="seed of the mixture and of the kills  [0]")
    options.add_argument(
        "--out", type=Path, default=RESULTS / "soak.json", help="summary file  [benchmarks/results/soak.json]"
    )
    given = options.parse_args()
    _unshare_mounts()
    runs, workers, seed = given.runs, len(os.sched_getaffinity(0)), given.seed
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "steady": lambda: judge_steadily(runs, workers, seed),
        "deaths": lambda: kill_workers(max(150, runs // 60), workers, seed),
        "restarts": lambda: restart_command(max(150, runs // 50), max(4, runs // 5000), workers, seed),
    }
    results: dict[str, Any] = {"machine": describe_machine(), "workers": workers}
    good = True
    given.out.parent.mkdir(parents=True, exist_ok=True)
    for name, measure in parts.items():
        results[name] = measure()
        good = good and results[name]["good"]
        given.out.write_text(json.dumps(results | {"good": good}, indent=2) + "\n")
    print(given.out.read_text(), end="")
    return 0 if good else 1


def _unshare_mounts() -> None:
    """Share mounts only with descendants, so that mounts of other processes are not counted.

    Without CAP_SYS_ADMIN, this has no effect, and the sandbox makes no mounts either.
    """
    with contextlib.suppress(OSError):
        linux.unshare(linux.CLONE_NEWNS)
        linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
        linux.mount(None, "/", None, linux.MS_REC | _MS_SHARED)


if __name__ == "__main__":
    sys.exit(main())
