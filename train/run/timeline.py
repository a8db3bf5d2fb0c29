"""When each part of a run worked: one line for each stretch of work.

RUN/timeline.jsonl    {"step": 3, "part": "sample", "began": 12.01, "ended": 14.7, "batch": 4}

Times are seconds since the run's start. A batch has the number of the step that trains on it: under the pipeline
`one-off`, batch 4 is sampled during step 3.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TIMELINE = "timeline.jsonl"
PARTS = ("sample", "reward", "train", "sync", "evaluate", "checkpoint")


class Timeline:
    """Appends to the file of a run, from any thread. A resumed run continues from the time at which it ended."""

    def __init__(self, folder: Path, *, after_seconds: float = 0.0) -> None:
        self._path = folder / TIMELINE
        self._start = time.monotonic() - after_seconds
        self._lock = threading.Lock()

    def clock(self) -> float:
        """Return the seconds since the run's start."""
        return time.monotonic() - self._start

    def record(self, step: int, part: str, start_time: float, end_time: float, *, batch: int | None = None) -> None:
        """Append a stretch of work.

        began, ended  seconds since the run's start
        batch         number of the batch that was worked on, if it may differ from the step
        """
        line = {"step": step, "part": part, "began": round(start_time, 4), "ended": round(end_time, 4)}
        if batch is not None:
            line["batch"] = batch
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    @contextmanager
    def record_part(self, step: int, part: str) -> Iterator[None]:
        """Record the time spent in a `with` block as a stretch of work."""
        start_time = self.clock()
        try:
            yield
        finally:
            self.record(step, part, start_time, self.clock())
