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
from sandbox.jail import linux

_MS_SHARED = 1 << 20
_PARTS = ("steady", "deaths", "restarts")


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.soak")
    options.add_argument("runs", nargs="?", type=int, default=200_000, help="programs to execute  [200000]")
    options.add_argument("--seed", type=int, default=0, help="seed of the mixture and of the kills  [0]")
    options.add_argument(
        "--out", type=Path, default=RESULTS / "soak.json", help="file of the summary  [benchmarks/results/soak.json]"
    )
    options.add_argument("--only", choices=_PARTS, help="measure this part again, and keep the results of the others")
    given = options.parse_args()
    _unshare_mounts()
    runs, workers, seed = given.runs, len(os.sched_getaffinity(0)), given.seed
    result: dict[str, Any] = json.loads(given.out.read_text()) if given.only else {}
    result |= {"machine": describe_machine(), "seed": seed, "workers": workers}
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "steady": lambda: judge_steadily(runs, workers, seed),
        "deaths": lambda: kill_workers(max(150, runs // 60), workers, seed),
        "restarts": lambda: restart_command(max(150, runs // 50), max(4, runs // 5000), workers, seed),
    }
    for name in [given.only] if given.only else _PARTS:
        result[name] = parts[name]()
        result["good"] = all(result[part]["good"] for part in _PARTS if part in result)
        given.out.parent.mkdir(exist_ok=True)
        given.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 0 if result["good"] else 1


def _unshare_mounts() -> None:
    """Share mounts only with descendants, so that mounts of other processes are not counted.

    An ordinary user lacks the privilege for this, and for mounts that are visible here.
    """
    with contextlib.suppress(OSError):
        linux.unshare(linux.CLONE_NEWNS)
        linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
        linux.mount(None, "/", None, linux.MS_REC | _MS_SHARED)


if __name__ == "__main__":
    sys.exit(main())
