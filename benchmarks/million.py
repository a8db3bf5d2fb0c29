"""A build of a million rows: its wall time, its memory and the disk it takes.

    python -m benchmarks.million [--rows N]      (default: 1,000,000; a quarter of an hour)

The rows are made up: statements of 40 to 160 words, one in twenty a copy of an earlier one with a word or two
changed, and five tests each. They have no solutions, so nothing is executed, and only what grows with the number of
rows is measured. The build is the command itself, in a process of its own. Its memory is the largest sum of resident
pages over that process and its children, including mapped files, sampled five times a second. Unnamed files, in which
sketches of statements are kept, do not count as disk space.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import describe
from curate.dataset.output_folder import read_manifest

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "million.json"
ROWS_PER_FILE = 50_000
MAPPING = """
location = "rows"

[fields]
id = "id"
statement = "statement"
inputs = "inputs"
outputs = "outputs"
"""


def rows(count: int, *, seed: int = 0) -> Iterator[dict[str, Any]]:
    rng = random.Random(seed)
    vocabulary = ["".join(rng.choices("etaoinshrdlucmfwyp", k=rng.randint(2, 9))) for _ in range(20_000)]
    weights = list(accumulate(1 / (rank + 3) for rank in range(len(vocabulary))))
    recent: deque[list[str]] = deque(maxlen=1_000)
    for number in range(count):
        if recent and rng.random() < 0.05:
            words = list(rng.choice(recent))
            words[rng.randrange(len(words))] = rng.choice(vocabulary)
        else:
            words = rng.choices(vocabulary, cum_weights=weights, k=rng.randint(40, 160))
            recent.append(words)
        inputs = [f"{rng.randrange(10**6)} {rng.randrange(10**6)}\n" for _ in range(5)]
        yield {
            "id": f"row-{number:07}",
            "statement": " ".join(words),
            "inputs": inputs,
            "outputs": [f"{sum(map(int, line.split()))}\n" for line in inputs],
        }


def write_raw(folder: Path, count: int) -> Path:
    """Write the rows as Parquet files, and the mapping that reads them; return the path of the mapping."""
    (folder / "rows").mkdir(parents=True)
    remaining = rows(count)
    while part := list(islice(remaining, ROWS_PER_FILE)):
        pq.write_table(pa.Table.from_pylist(part), folder / "rows" / f"train-{part[0]['id']}.parquet")
    mapping = folder / "mapping.toml"
    mapping.write_text(MAPPING)
    return mapping


def watched(command: list[str], out: Path) -> dict[str, float]:
    """Run a command. Return its duration in seconds, and the peak size of its memory and of its folder in megabytes."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=sys.stderr)
    peak = work = 0.0
    while process.poll() is None:
        with suppress(psutil.NoSuchProcess, FileNotFoundError):
            tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            peak = max(peak, sum(_resident(member) for member in tree))
            work = max(work, disk_mb(out))
        time.sleep(0.2)
    if process.returncode:
        raise SystemExit(f"the build failed with status {process.returncode}")
    return {"wall_seconds": time.perf_counter() - started, "peak_mb": peak / 2**20, "work_mb": work}


def _resident(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess):
        return process.memory_info().rss
    return 0


def disk_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    count = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        mapping = write_raw(Path(folder) / "raw", count)
        cli = [sys.executable, "-c", "from cli import main; main()"]
        options = ["build-dataset", "--source", f"generic={mapping}", "--no-reference", "keep", "--out", str(out)]
        measured = watched([*cli, *options], out)
        manifest = read_manifest(out)
        result = {
            "machine": describe(),
            "rows": count,
            **measured,
            "rows_per_second": count / measured["wall_seconds"],
            "kept": manifest.n_kept,
            "raw_mb": disk_mb(Path(folder) / "raw"),
            "dataset_mb": disk_mb(out),
            "stages": manifest.seconds,
        }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
