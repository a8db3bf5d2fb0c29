"""How commands show how far they are."""

import sys
import time
from typing import Any

import click


class Progress:
    """Shows how far a stage is, with rate and time left: a bar on a terminal, elsewhere a line now and then."""

    SECONDS_BETWEEN_LINES = 10.0

    def __init__(self, unit: str = " problems") -> None:
        from tqdm import tqdm

        self._unit = unit

        self._tqdm = tqdm
        self._bar: tqdm[Any] | None = None  # only on a terminal
        self._stage = ""
        self._began = self._printed = 0.0
        self._initial = 0

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if stage != self._stage:
            self.close()
            self._stage, self._initial = stage, done
            self._began = self._printed = time.monotonic()
            if sys.stderr.isatty():
                self._bar = self._tqdm(desc=stage, total=total, initial=done, unit=self._unit, file=sys.stderr)
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
        elif done == total or now - self._printed >= self.SECONDS_BETWEEN_LINES:
            self._printed = now
            line = self._tqdm.format_meter(
                done, total or 0, now - self._began, ncols=0, prefix=stage, unit=self._unit, initial=self._initial
            )
            click.echo(line, err=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
