"""python -m benchmarks.soak [RUNS]"""

import argparse
import json
import os
import sys
from pathlib import Path

from benchmarks.machine import describe
from benchmarks.soak.deaths import deaths
from benchmarks.soak.restarts import restarts
from benchmarks.soak.steady import steady

RESULTS = Path(__file__).parents[1] / "results" / "soak.json"


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.soak")
    options.add_argument("runs", nargs="?", type=int, default=200_000, help="programs to execute  [200000]")
    options.add_argument("--seed", type=int, default=0, help="of the mixture and of the kills  [0]")
    options.add_argument("--out", type=Path, default=RESULTS, help="where the summary goes  [benchmarks/results]")
    given = options.parse_args()
    workers = len(os.sched_getaffinity(0))
    result = {
        "machine": describe(),
        "seed": given.seed,
        "workers": workers,
        "steady": steady(given.runs, workers, given.seed),
        "deaths": deaths(max(150, given.runs // 60), workers, given.seed),
        "restarts": restarts(max(100, given.runs // 200), max(4, given.runs // 4000), workers, given.seed),
    }
    result["good"] = all(part["good"] for part in result.values() if isinstance(part, dict))
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 0 if result["good"] else 1


if __name__ == "__main__":
    sys.exit(main())
