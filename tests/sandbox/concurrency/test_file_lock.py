"""A lock excludes other processes, and ends with its process."""

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from math import inf
from pathlib import Path

import pytest

from sandbox.concurrency.file_lock import FileLock

ROOT = Path(__file__).parents[3]
HOLD = """
import os, subprocess, sys
from pathlib import Path
from sandbox.concurrency.file_lock import FileLock

lock = FileLock(Path(sys.argv[1]))
for child in sys.argv[2:]:
    if child == "fork" and not os.fork():
        break
    if child == "exec":
        subprocess.Popen(["cat"])
os.write(1, b"ready\\n")
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lock"


@contextmanager
def holder(path, *children):
    """Start a process that holds a lock and has these children, which live until the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), *children],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        for _ in range(1 + children.count("fork")):
            assert process.stdout.readline() == "ready\n"
        yield process


def test_one_holder_at_a_time(path):
    first = FileLock(path)
    with pytest.raises(BlockingIOError):
        FileLock(path)
    with pytest.raises(KeyError, match="mine"):
        FileLock(path, KeyError("mine"))
    first.close()
    first.close()
    with FileLock(path):
        pass


def test_another_process_is_excluded_until_it_is_killed(path):
    with holder(path) as process:
        with pytest.raises(BlockingIOError):
            FileLock(path)
        process.send_signal(signal.SIGKILL)
        process.wait()
        FileLock(path).close()


@pytest.mark.parametrize("child", ["fork", "exec"])
def test_a_child_that_outlives_the_holder_does_not_keep_the_lock(path, child):
    with holder(path, child) as process:
        with pytest.raises(BlockingIOError):
            FileLock(path)
        process.send_signal(signal.SIGKILL)
        process.wait()
        FileLock(path).close()


def test_who_waits_gets_the_lock_when_it_is_released(path):
    first, order = FileLock(path), []

    def wait():
        with FileLock(path, wait_seconds=inf):
            order.append("second")

    thread = threading.Thread(target=wait)
    thread.start()
    order.append("first")
    first.close()
    thread.join(60)
    assert order == ["first", "second"]


def test_shared_locks_exclude_only_an_exclusive_one(path):
    with FileLock(path, shared=True), FileLock(path, shared=True), pytest.raises(BlockingIOError):
        FileLock(path)


def test_data_in_the_file_stays_and_a_temporary_file_goes(path):
    path.write_text("data")
    with FileLock(path):
        pass
    assert path.read_text() == "data"
    with FileLock(path, temporary=True):
        assert path.exists()
    assert not path.exists()


def test_a_file_that_was_replaced_under_its_holder_is_not_locked(path):
    with FileLock(path):
        path.unlink()
        with FileLock(path):
            pass


def test_what_cannot_be_locked_is_named(tmp_path):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "missing" / "lock", Path("/proc/self/lock")):
        with pytest.raises(OSError, match=re.escape(str(path))):
            FileLock(path)
    assert os.listdir(tmp_path) == ["folder"]
