"""Every role of an asynchronous run is killed: nothing is lost, nothing is trained on twice, all can be repeated."""

import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import forked
import psutil
import pytest
import small_runs
from curate_command import curate
from journal_audit import audit_journal
from waiting import becomes, listens

from train.asynchronous import journal

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other

ROOT = Path(__file__).parents[2]
STALENESS = 2
RUN = [
    "rollout.pipeline=async",
    f"rollout.staleness={STALENESS}",
    "objective.old=learner",
    "objective.truncation=2.0",
    "engine.gpus=[0]",  # workers in processes of their own
    "engine.restarts_per_hour=100",
    "run.keep_journal=true",
    "run.checkpoint_steps=2",
]
SECONDS = 240


class Training:
    """`curate train --resume` in a process of its own, which is started again where a test has killed it."""

    def __init__(self, small, run, *changes):
        self.run = run
        settings = [word for change in (*RUN, *changes) for word in ("--set", change)]
        self._command = small_runs.command(small, run, "--resume", *settings)
        self._log = run.with_name("log")
        self.process = None
        self.start()

    def start(self):
        with self._log.open("ab") as log:
            self.process = forked.Popen(self._command, stdout=log, stderr=log)

    def steps(self):
        path = self.run / "metrics.jsonl"
        return path.read_text().count("\n") if path.exists() else 0

    def go_on(self, steps):
        """Wait until so many further steps are made, or the run has ended."""
        goal = self.steps() + steps
        becomes(lambda: self.steps() >= goal or self.process.poll() is not None, SECONDS)
        assert self.process.poll() in (None, 0), self._log.read_text()
        assert self.steps() >= goal or self.process.poll() == 0, self._log.read_text()

    def workers(self):
        found = []
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.Error):  # it has just ended
                if "train.asynchronous.rollout_process" in child.cmdline():
                    found.append(child)
        return found

    def kill_worker(self, rng):
        if self.process.poll() is None and (workers := self.workers()):
            rng.choice(workers).send_signal(signal.SIGKILL)

    def kill_trainer(self):
        workers = self.workers() if self.process.poll() is None else []
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        _, alive = psutil.wait_procs(workers, timeout=60)
        assert alive == []  # they end with the trainer, so that a resumed run finds their GPUs free
        self.start()

    def finish(self):
        assert self.process.wait(SECONDS) == 0, self._log.read_text()


@contextmanager
def training(small, run, *changes):
    made = Training(small, run, *changes)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()


def check(run):
    """Check the journal of a finished run, and that it can be trained again to the same weights."""
    found = audit_journal(journal.read_events(run / journal.FOLDER), staleness=STALENESS)
    assert found.findings == []
    result = curate("train", run, "--replay", check=True)
    assert "the same weights as" in result.output
    return found


def test_a_run_survives_the_death_of_a_worker_and_of_the_trainer(small, tmp_path):
    with training(small, tmp_path / "run", "run.steps=5") as made:
        made.go_on(2)
        made.kill_worker(random.Random(0))
        made.go_on(1)
        made.kill_trainer()
        made.finish()
    assert check(tmp_path / "run").n_batches == 5


@pytest.mark.thorough
def test_roles_that_are_killed_at_random_points_lose_nothing(small, tmp_path):
    rng = random.Random(0)
    with training(small, tmp_path / "run", "run.steps=8", "engine.gpus=[0,1]") as made:
        for victim in ("worker", "trainer", "trainer", "worker"):
            made.go_on(1)
            time.sleep(rng.random())
            if victim == "worker":
                made.kill_worker(rng)
            else:
                made.kill_trainer()
        made.finish()
    assert check(tmp_path / "run").n_batches == 8


@contextmanager
def judge_service(port):
    """Run `curate serve` as long as the block lasts, and end it without mercy."""
    command = [sys.executable, "-m", "cli", "serve", "--port", str(port), "--workers", "2"]
    process = forked.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert becomes(lambda: listens(port), SECONDS)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.thorough
def test_a_reward_service_that_is_killed_and_started_again_costs_nothing(small, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = ["sandbox.backend=http", f"sandbox.address=http://127.0.0.1:{port}"]
    with ExitStack() as stack:
        service = stack.enter_context(judge_service(port))
        made = stack.enter_context(training(small, tmp_path / "run", "run.steps=6", *address))
        for _ in range(2):
            made.go_on(2)
            service.kill()
            service = stack.enter_context(judge_service(port))
        made.finish()
    assert check(tmp_path / "run").n_batches == 6
