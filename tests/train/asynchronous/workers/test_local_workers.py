"""Workers in processes of their own on the trainer's machine get the GPUs of the run, and leave nothing behind.

In place of an engine, each worker here is a script with a process of its own, as vLLM has for each GPU.
"""

import sys
import threading

import psutil
import pytest

from train import config
from train.asynchronous.local_workers import LocalWorkers
from train.errors import SamplerError

SECONDS = 60
WORKER = """#!/bin/sh
sleep 600 &
echo "child $! GPU $CUDA_VISIBLE_DEVICES token $CURATE_TOKEN"
wait
"""


@pytest.fixture
def start(monkeypatch, tmp_path):
    """Return a function that starts workers, and a list of the errors with which they ended the run."""
    script = tmp_path / "python"
    script.write_text(WORKER)
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-5")
    errors = []

    def started(on_exit=lambda name: None, fail=errors.append, **changes):
        settings = config.EngineConfig(**changes)
        return LocalWorkers(settings, "http://127.0.0.1:1", "secret", tmp_path / "workers", on_exit=on_exit, fail=fail)

    return started, errors


def said(folder, number):
    """Wait for the words of a worker, and return them by their names."""
    path = folder / "workers" / f"worker-{number}.log"
    waiting = threading.Event()
    for _ in range(100 * SECONDS):
        if path.exists() and path.read_text().endswith("\n"):
            words = path.read_text().splitlines()[-1].split()
            return dict(zip(words[::2], words[1::2], strict=True))
        waiting.wait(0.01)
    raise AssertionError("the worker says nothing")


def has_ended(pid):
    try:
        process = psutil.Process(pid)
        return process.status() == psutil.STATUS_ZOMBIE or process.wait(SECONDS) is None
    except psutil.NoSuchProcess:
        return True


def test_workers_get_the_gpus_and_the_token_of_the_run_and_end_with_all_that_they_started(start, tmp_path):
    begin, errors = start
    workers = begin(gpus=(0, 1))
    told = [said(tmp_path, number) for number in range(2)]
    assert [(words["GPU"], words["token"]) for words in told] == [("4", "secret"), ("GPU-5", "secret")]
    workers.close(wait_seconds=0)
    assert all(has_ended(int(words["child"])) for words in told)
    assert errors == []


def test_a_worker_that_dies_takes_its_processes_along_before_it_is_started_again(start, tmp_path):
    names, again = [], threading.Event()

    def gone(name):
        names.append(name)
        again.set()

    workers = start[0](gone, gpus=(1,), restarts_per_hour=1)
    child = int(said(tmp_path, 0)["child"])
    psutil.Process(workers.pids[0]).kill()
    assert again.wait(SECONDS)
    assert has_ended(child)
    workers.close(wait_seconds=0)
    assert len(names) == 1


def test_gpus_that_the_run_does_not_see_are_refused(start):
    with pytest.raises(SamplerError, match="there is no GPU 2; CUDA_VISIBLE_DEVICES lists 2 GPUs, indexed from 0"):
        start[0](gpus=(1, 2))


def test_an_error_while_a_worker_is_started_again_ends_the_run(start, tmp_path):
    ended, errors = threading.Event(), []

    def fail(error):
        errors.append(error)
        ended.set()

    workers = start[0](fail=fail, gpus=(0,))
    said(tmp_path, 0)
    (tmp_path / "python").unlink()
    psutil.Process(workers.pids[0]).kill()
    assert ended.wait(SECONDS)
    assert "a worker cannot be restarted: " in str(errors[0])
    workers.close(wait_seconds=0)
