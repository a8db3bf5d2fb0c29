"""Run the checks one after another, print a line per figure, and write a file with all figures."""

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.gpu.thresholds import FAIL, MARK, PASS, SKIP, SLOW, THRESHOLDS, Value
from benchmarks.record import RESULTS, ROOT, describe_machine

TOTAL_SECONDS = 480
# Time limits. Seconds left by a check go to later ones. Checks on one GPU share the total.
SECONDS = {
    "machine": 50, "kernels": 30, "learner": 60, "lora": 30, "engine": 130, "run": 180, "ranks": 60, "transfer": 90,
}  # fmt: skip
GPUS = {"ranks": 2, "transfer": 2}  # all others need one
_MIN_SECONDS = 20  # with less time left, a check is skipped
_CPU_FACTOR = 10  # multiple of the time limits on CPUs
_TAIL_LINES = 12  # last lines of a failed check's output


class CheckEnd(NamedTuple):
    """The end of a check's process. status: None after a timeout"""

    status: int | None
    seconds: float
    last_lines: list[str]

    @property
    def failure(self) -> str:
        """The reason for missing figures."""
        how = f"timeout after {self.seconds:.0f} s" if self.status is None else f"exit status {self.status}"
        return f"not measured: {how}"


def run_check(command: Sequence[str], seconds: float, on_cpu: bool, report: Callable[[str, Value], None]) -> CheckEnd:
    """Run a check in a new process group, and kill the group at the time limit.

    report: called with the name and the value of each printed figure
    """
    began, tail = time.monotonic(), deque[str](maxlen=_TAIL_LINES)
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "HF_HUB_OFFLINE": "1"} | ({"CUDA_VISIBLE_DEVICES": ""} if on_cpu else {}),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip

    def read() -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                if line.startswith(MARK):
                    report(*json.loads(line.removeprefix(MARK)))
                elif line.strip():
                    tail.append(line.rstrip())

    reader = threading.Thread(target=read, daemon=True)  # a process outside the group may keep the pipe open
    reader.start()
    status = None
    try:
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(seconds)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # including its descendants
        process.wait()
        reader.join(5)
    return CheckEnd(status, time.monotonic() - began, list(tail))


class Table:
    """A printed table of figures, whose rows are also written to a file."""

    def __init__(self, *, on_cpu: bool) -> None:
        self._on_cpu = on_cpu
        self.rows: list[dict[str, Any]] = []

    def add(self, check: str, figure: str, value: Value, result: str = "", reason: str = "") -> None:
        """Print a figure and add its row.

        result: replaces the result of the threshold
        """
        threshold = THRESHOLDS[check][figure]
        bounds = "-" if self._on_cpu and threshold.is_speed else str(threshold)
        result = result or threshold.judge(value, on_cpu=self._on_cpu)
        reason = reason or (threshold.reason if result in (FAIL, SLOW) else "")
        shown = value or "-" if value is None or isinstance(value, str) else f"{value:,.4g} {threshold.unit}"
        if isinstance(value, float | int) and abs(value) >= 1000:
            shown = f"{value:,.0f} {threshold.unit}"
        print(f"{check:<9} {figure:<26} {shown:<22} {bounds:<14} {result:<5} {reason}".rstrip(), flush=True)
        if isinstance(value, float) and not math.isfinite(value):
            value = str(value)
        row = {"check": check, "figure": figure, "value": value, "unit": threshold.unit, "threshold": bounds}
        self.rows.append({**row, "result": result, "reason": reason})

    def add_missing(self, check: str, result: str, reason: str) -> None:
        present = {row["figure"] for row in self.rows if row["check"] == check}
        for figure in (figure for figure in THRESHOLDS[check] if figure not in present):
            self.add(check, figure, None, result, reason)


def main(arguments: Sequence[str]) -> int:
    """Return 1 if a correctness check failed, else 0; missed speed thresholds do not affect the exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks/gpu.sh", description=__doc__)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"{', '.join(SECONDS)}  [default: all]")
    parser.add_argument("--cpu", action="store_true", help="use tiny shapes on the CPU, without speed thresholds")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu.json", help="[default: %(default)s]")
    parser.add_argument("--folder", type=Path, help="for model and run  [default: runs/gpu, with --cpu runs/gpu-cpu]")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the checks  [default: this one]")
    given = parser.parse_args(arguments)
    if unknown := sorted(set(given.checks) - SECONDS.keys()):
        parser.error(f"unknown check {unknown[0]}; choose from {', '.join(SECONDS)}")
    n_gpus = 1 if given.cpu else _count_gpus()
    if not n_gpus:
        parser.error("torch finds no GPU. To run with tiny shapes on the CPU, type: benchmarks/gpu.sh --cpu")
    folder = (given.folder or ROOT / "runs" / ("gpu-cpu" if given.cpu else "gpu")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    table, ended, began, deadline = Table(on_cpu=given.cpu), {}, time.monotonic(), 0
    for check in (check for check in SECONDS if check in ("machine", *(given.checks or SECONDS))):
        deadline = min(deadline + SECONDS[check], TOTAL_SECONDS)
        left = deadline * (_CPU_FACTOR if given.cpu else 1) - (time.monotonic() - began)
        if GPUS.get(check, 1) > n_gpus:
            table.add_missing(check, SKIP, f"it needs {GPUS[check]} GPUs")
        elif left < _MIN_SECONDS:
            table.add_missing(check, SKIP, f"no time is left; type: benchmarks/gpu.sh {check}")
        else:
            command = [given.python, "-W", "ignore", "-m", "benchmarks.gpu.setup", check, str(folder)]
            command += ["tiny" if given.cpu else "full", given.python]
            end = ended[check] = run_check(command, left, given.cpu, partial(table.add, check))
            table.add_missing(check, FAIL, end.failure)
            if any(row["result"] == FAIL for row in table.rows if row["check"] == check):
                print("\n".join(f"          | {line}" for line in end.last_lines), flush=True)
        found = {"machine": describe_machine(), "on_cpu": given.cpu, "seconds": round(time.monotonic() - began, 1)}
        checks = {name: {"status": end.status, "seconds": end.seconds} for name, end in ended.items()}
        found |= {"checks": checks, "figures": table.rows}
        given.out.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")
    results = [row["result"] for row in table.rows]
    counts = ", ".join(f"{results.count(result)} {result}" for result in (PASS, SLOW, FAIL, SKIP))
    print(f"{counts} in {time.monotonic() - began:.0f} s; {given.out}")
    return int(FAIL in results)


def _count_gpus() -> int:
    try:
        import torch
    except ImportError:
        return 0
    return torch.cuda.device_count()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
