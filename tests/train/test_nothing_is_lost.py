"""Whatever ends a run, under every pipeline and number of ranks, its last whole step is kept."""

import os
import signal
import socket
import subprocess

import forked
import pytest
import small_runs
from small_runs import same, trained, weights

from train.errors import SamplerError, UpdateError
from train.learning.learner import Learner
from train.run import checkpoint

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other

SELDOM = "run.checkpoint_steps=100"


def fail_at_update(monkeypatch, number, error):
    """Let this update of a run fail, counted from 1; there are two in a step."""
    update, made = Learner.update, []

    def update_or_fail(self, *arguments, **options):
        made.append(1)
        if len(made) == number:
            raise error
        return update(self, *arguments, **options)

    monkeypatch.setattr(Learner, "update", update_or_fail)


@pytest.mark.parametrize(
    ("way", "error"),
    [
        pytest.param("sync", UpdateError("the loss is nan"), id="sync"),
        pytest.param("minibatch", SamplerError("an engine is lost"), id="minibatch"),
        pytest.param("one-off", KeyboardInterrupt(), id="one-off", marks=pytest.mark.thorough),
    ],
)
def test_a_step_that_fails_between_its_updates_leaves_the_step_before(way, error, small, whole, tmp_path, monkeypatch):
    pipeline = f"rollout.pipeline={way}"
    with monkeypatch.context() as patch:
        fail_at_update(patch, 6, error)  # in the midst of step 3
        with pytest.raises(type(error)):
            trained(small, tmp_path / "run", pipeline, SELDOM)
    (saved,) = checkpoint.list_checkpoints(tmp_path / "run")
    assert saved.name == "step-000002"
    trained(small, tmp_path / "run", pipeline, SELDOM, resume=True)
    assert same(weights(tmp_path / "run"), weights(whole(way)))


class Ranks:
    """A run on two ranks, started as torchrun starts them. Rank 0 prints a line for each step."""

    def __init__(self, small, run, *changes):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
        words = [word for change in changes for word in ("--set", change)]
        self.ranks = [
            forked.Popen(
                small_runs.command(small, run, *words),
                env={**os.environ, **common, "RANK": str(rank), "CUDA_VISIBLE_DEVICES": ""},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(2)
        ]

    def steps(self, n):
        """Wait for lines about so many steps."""
        for _ in range(n):
            while line := self.ranks[0].stdout.readline():
                if line.startswith("step "):
                    break
            assert line, "rank 0 has ended"

    def ended(self):
        return [(rank.communicate(timeout=120)[0], rank.returncode) for rank in self.ranks]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for rank in self.ranks:
            rank.kill()
            rank.communicate()


@pytest.mark.parametrize("receivers", [(0, 1), pytest.param((1,), marks=pytest.mark.thorough)], ids=["all", "rank 1"])
def test_sigterm_to_ranks_keeps_their_last_whole_step(receivers, small, tmp_path):
    with Ranks(small, tmp_path / "run", "run.steps=1000", SELDOM) as run:
        run.steps(2)
        for rank in receivers:
            run.ranks[rank].send_signal(signal.SIGTERM)
        (words, status), (_, other_status) = run.ended()
    assert (status, other_status) == (1, int(1 in receivers)), words
    assert words.splitlines()[-1].startswith("Error: interrupted; --resume continues"), words
    last_step = small_runs.lines(tmp_path / "run" / "metrics.jsonl")[-1]["step"]
    (saved,) = checkpoint.list_checkpoints(tmp_path / "run")
    assert saved.name == f"step-{last_step:06d}"
    trained(small, tmp_path / "run", f"run.steps={last_step + 1}", SELDOM, resume=True)  # on one rank
