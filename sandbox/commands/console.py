"""Error messages and progress bars of all commands."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from sandbox.closeable import Closeable
from sandbox.extras import format_install_command

# Extra of the distribution -> modules that it installs.
_MODULES_OF_EXTRA = {
    "data": ("datasketch", "duckdb", "huggingface_hub", "jinja2", "pandas", "pyarrow", "xxhash"),
    "plot": ("matplotlib",),
    "relay": ("blake3", "cryptography", "httptools", "msgspec", "numpy", "obstore", "starlette", "urllib3", "uvicorn"),
    "serve": ("prometheus_client", "starlette", "uvicorn", "httptools"),
    "train": ("torch", "transformers"),
}


def require_extra(extra: str, modules: Sequence[str] = ()) -> None:
    """Raise ClickException with the install command if a module is missing.

    modules   the required modules; empty for all modules of the extra
    """
    missing = [name for name in modules or _MODULES_OF_EXTRA[extra] if find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"modules are not installed: {', '.join(missing)}. Type: {format_install_command(extra)}"
        )


def confirm_overwrite(out: Path, *, overwrite: bool) -> None:
    """Raise ClickException if the output file exists, unless the user permits to replace it.

    overwrite   whether the option --overwrite permits it; otherwise the command asks, if it runs on a terminal
    """
    if overwrite or not out.exists():
        return
    if not out.is_file():
        raise click.ClickException(f"{out} is not a regular file. Choose another --out.")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.ClickException(f"{out} exists. Pass --overwrite to replace it, or choose another --out.")
    if not click.confirm(f"{out} exists. Replace it?", err=True):
        raise click.ClickException(f"{out} is unchanged. Choose another --out.")


@contextmanager
def report_user_errors(
    *kinds: type[Exception],
    interrupt_message: str | None = None,
    advice: str | Callable[[Exception], str] = "",
    exit_code: int = 1,
) -> Iterator[None]:
    """Convert exceptions to ClickException, which click shows as one line without a traceback.

    kinds              the exceptions that the user can fix; others propagate
    interrupt_message  text after "interrupted; " for KeyboardInterrupt, such as how to resume; None to let it propagate
    advice             a sentence after the error message, or a function that returns it
    exit_code          the exit status after one of `kinds`; it is 1 after an interruption
    """
    try:
        yield
    except kinds as error:
        message, advised = _describe_error(error), advice if isinstance(advice, str) else advice(error)
        explained = click.ClickException(f"{message}. {advised}" if advised else message)
        vars(explained)["exit_code"] = exit_code  # click declares a ClassVar, to which mypy permits no assignment
        raise explained from error
    except KeyboardInterrupt:
        if interrupt_message is None:
            raise
        raise click.ClickException(f"interrupted; {interrupt_message}") from None


def _describe_error(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {error.filename}"  # without the errno
    return str(error)


class ProgressBar(Closeable):
    """A display of a stage's progress, rate and remaining time: a bar on a terminal, occasional lines elsewhere.

    unit          noun for the items, with a leading space
    short_stages  whether a stage of less than five seconds also gets a line

    A call with the name of the stage, the number of items done, and their total number (None if unknown) updates it.
    """

    SECONDS_TO_FIRST_LINE = 5.0
    SECONDS_BETWEEN_LINES = 10.0

    def __init__(self, unit: str = " problems", *, short_stages: bool = True) -> None:
        from tqdm import tqdm

        self._unit = unit
        self._tqdm = tqdm
        self._bar: tqdm[Any] | None = None  # None before the first call, and without a terminal
        self._stage = ""
        self._start_time = self._next_line = 0.0
        self._short_stages = short_stages
        self._shows_end = short_stages
        self._initial = 0

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if stage != self._stage:
            self.close()
            self._stage, self._initial = stage, done
            self._start_time = time.monotonic()
            self._next_line = self._start_time + self.SECONDS_TO_FIRST_LINE
            self._shows_end = self._short_stages
            if sys.stderr.isatty():
                self._bar = self._tqdm(desc=stage, total=total, initial=done, unit=self._unit, file=sys.stderr)
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
        elif now >= self._next_line or (self._shows_end and done == total):
            self._next_line, self._shows_end = now + self.SECONDS_BETWEEN_LINES, True
            line = self._tqdm.format_meter(
                done, total or 0, now - self._start_time, ncols=0, prefix=stage, unit=self._unit, initial=self._initial
            )
            click.echo(line, err=True)

    def write(self, line: str) -> None:
        """Print a line on stderr, above the bar if there is one."""
        self._tqdm.write(line, file=sys.stderr)

    def close(self) -> None:
        """Close the bar, so that later output starts on a new line."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
