"""Speed, memory and disk use of builds:  python -m benchmarks.build [rows] [programs] [--raw FOLDER]   # default: both

rows      100,000 and 1,000,000 synthetic rows without solutions, on one core and on all. Memory is the peak of resident
          pages, mapped files included, summed over all processes and sampled five times a second.
programs  The sample in examples/, or the folders taco, synthetic1 and livecodebench in FOLDER. The ratio is wall time /
          (CPU time of the programs / cores). It is 1 for a build that only executes programs, on all cores.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.record import ROOT, describe_machine, load_results, save_results
from curate.dataset.output_folder import read_manifest
from curate.json_records import to_json

ROW_COUNTS = (100_000, 1_000_000)
ROWS_PER_FILE = 50_000
MAPPING = """
location = "rows"

[fields]
id = "id"
statement = "statement"
inputs = "inputs"
outputs = "outputs"
"""


def generate_rows(count: int, *, seed: int = 0) -> Iterator[dict[str, Any]]:
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
            "id": f"row-{number:08}",
            "statement": " ".join(words),
            "inputs": inputs,
            "outputs": [f"{sum(map(int, line.split()))}\n" for line in inputs],
        }


def write_raw(folder: Path, content: Iterator[dict[str, Any]]) -> Path:
    """Write rows as Parquet files, and return the path of the mapping that reads them."""
    (folder / "rows").mkdir(parents=True)
    while part := list(islice(content, ROWS_PER_FILE)):
        pq.write_table(pa.Table.from_pylist(part), folder / "rows" / f"train-{part[0]['id']}.parquet")
    path = folder / "mapping.toml"
    path.write_text(MAPPING)
    return path


def run_build(sources: Sequence[str], out: Path, *options: str, cores: Collection[int] | None = None) -> dict[str, Any]:
    """Run `curate build-dataset` on these cores, and return its rows, time, and peaks of memory and disk use."""
    arguments = [argument for source in sources for argument in ("--source", source)]
    command = [sys.executable, "-c", "from cli import main; main()", "build-dataset", *arguments, "--out", str(out)]
    started = time.perf_counter()
    process = subprocess.Popen(
        [*command, *options],
        cwd=ROOT,
        stdout=sys.stderr,
        preexec_fn=None if cores is None else lambda: os.sched_setaffinity(0, cores),
    )
    peak = work = 0.0
    while process.poll() is None:
        with suppress(psutil.NoSuchProcess, FileNotFoundError):
            tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            peak = max(peak, sum(read_resident_bytes(member) for member in tree))
            work = max(work, measure_disk_mb(out))
        time.sleep(0.2)
    wall = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"the build failed with status {process.returncode}")
    manifest = read_manifest(out)
    return {
        "rows": manifest.n_read,
        "kept": manifest.n_kept,
        "content_hash": manifest.content_hash,
        "wall_seconds": wall,
        "executed_cpu_seconds": manifest.build.executed_cpu_seconds if manifest.build else 0.0,
        "stages": manifest.seconds,
        "rows_per_second": manifest.n_read / wall,
        "peak_mb": peak / 2**20,
        "work_mb": work,
        "dataset_mb": measure_disk_mb(out),
    }


def read_resident_bytes(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess):
        return process.memory_info().rss
    return 0


def measure_disk_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def measure_rows() -> list[dict[str, Any]]:
    """Build synthetic rows on one core and on all. Raises AssertionError if the datasets differ."""
    measured = []
    cores = sorted(os.sched_getaffinity(0))
    for count in ROW_COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            mapping = write_raw(Path(folder) / "raw", generate_rows(count))
            for n_cores in sorted({1, len(cores)}):
                options = ("--no-reference", "keep", "--workers", str(n_cores))
                out = Path(folder) / f"out-{n_cores}"
                build = run_build([f"generic={mapping}"], out, *options, cores=cores[:n_cores])
                measured.append({"cores": n_cores, "raw_mb": measure_disk_mb(Path(folder) / "raw"), **build})
            assert measured[-1]["content_hash"] == measured[-2 if len(cores) > 1 else -1]["content_hash"]
    return measured


def measure_programs(raw: Path) -> dict[str, Any]:
    """Build real problems, whose solutions and mutants are executed on all cores."""
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        build = run_build([f"{name}={raw / name}" for name in ("taco", "synthetic1", "livecodebench")], out)
        funnel = {source: to_json(counts) for source, counts in read_manifest(out).counts.items()}
    ratio = build["wall_seconds"] / (build["executed_cpu_seconds"] / cores)
    return {**build, "workers": cores, "ratio": ratio, "funnel": funnel}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="*", choices=["rows", "programs", []], metavar="EXPERIMENT")
    parser.add_argument("--raw", type=Path, default=ROOT / "examples" / "raw")
    chosen = parser.parse_args()
    results = load_results("build")
    for name in chosen.experiments or ("rows", "programs"):
        measured = measure_rows() if name == "rows" else measure_programs(chosen.raw)
        results[name] = {"machine": describe_machine(), "measured": measured}
        save_results("build", results)


if __name__ == "__main__":
    main()
