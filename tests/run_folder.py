"""The folder that all processes of a test run share, and what is made once in it."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_RUN = "CURATE_TESTS_RUN"
CONTROLLER = "controller"  # the file with the process id of the run's controller


def run_folder() -> Path:
    """Return the folder of the test run; create it in the run's controller, which is the first to ask."""
    if _RUN not in os.environ:
        os.environ[_RUN] = tempfile.mkdtemp(prefix="curate-tests-")
        (run_folder() / CONTROLLER).write_text(str(os.getpid()))
    return Path(os.environ[_RUN])


def make_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """Call `make` with the empty folder unless a process has done so before, and return the folder."""
    done = folder.with_name(f"{folder.name}.made")
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            make(folder)
            done.touch()
    return folder


@contextmanager
def locked(path: Path, operation: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold a lock that processes share."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, operation)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # closing is not enough if a child was forked meanwhile
