"""Run the checks one after another:  python -m benchmarks.gpu [RESULT.json] [CHECK...]"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu.outcome import MARK, SKIPPED
from benchmarks.machine import describe

ROOT = Path(__file__).parents[2]
_SECONDS = {"attention": 60, "learner": 150, "ranks": 90, "sampling": 150, "transfer": 60, "steps": 180}


def run(check: str) -> dict[str, Any]:
    """Run a check in a process group of its own, and return what it found."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", f"benchmarks.gpu.{check}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=_SECONDS[check])
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        printed, _ = process.communicate()
        return {"status": "timed out", "seconds": _SECONDS[check], "printed": printed[-3000:]}
    seconds = round(time.monotonic() - began, 1)
    told = [line.removeprefix(MARK) for line in printed.splitlines() if line.startswith(MARK)]
    if process.returncode == 0 and told:
        return {"status": "passed", "seconds": seconds, **json.loads(told[-1])}
    if process.returncode == SKIPPED and told:
        return {"status": "skipped", **json.loads(told[-1])}
    return {"status": "failed", "seconds": seconds, "printed": printed[-3000:]}


def main() -> None:
    import torch

    if not torch.cuda.is_available():
        sys.exit("There is no GPU here. Run this on a machine with one; torch must be built for CUDA.")
    out, checks = Path(sys.argv[1] if len(sys.argv) > 1 else "gpu.json"), sys.argv[2:] or list(_SECONDS)
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    results: dict[str, Any] = {"machine": describe(), "gpus": gpus, "torch": torch.__version__}
    for check in checks:
        results[check] = run(check)
        out.write_text(json.dumps(results, indent=1) + "\n")
        print(check, json.dumps(results[check]), flush=True)
    sys.exit(any(results[check]["status"] in ("failed", "timed out") for check in checks))


if __name__ == "__main__":
    main()
