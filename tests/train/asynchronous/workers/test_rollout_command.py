"""`curate rollout` in processes of its own: workers that join, leave and are killed."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import fleet
import forked
import pytest
import tiny_world
from transformers import AutoModelForCausalLM, AutoTokenizer

from rewards.reward import Task
from train.asynchronous.dispatcher import ControllerSettings
from train.asynchronous.ray_actors import run_workers_on_ray
from train.asynchronous.rollout_process import RolloutOptions
from train.asynchronous.server import ControllerServer
from train.errors import ConfigError
from train.rollouts.prompt_dataset import TrainingPrompt
from train.sampling.engine_spec import EngineSpec
from train.weights.source import SharedMemoryTransport

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other

ROOT = Path(__file__).parents[4]
SETTINGS = ControllerSettings(
    prompts_per_batch=2,
    completions_per_prompt=4,
    total_steps=10**6,
    max_tokens=300,
    max_staleness=1,
    online_filter=False,
)
TOKEN = "correct horse"
SECONDS = 300  # for a busy machine


class Run:
    """A controller with its server and weights, and the processes of its workers."""

    def __init__(self, model, settings=SETTINGS):
        tokenizer = AutoTokenizer.from_pretrained(model)
        chat = tiny_world.chat(tiny_world.statement("larger"))
        ids = tuple(tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False))
        self.weights = AutoModelForCausalLM.from_pretrained(model)
        self.controller = fleet.controller(
            settings, prompts=Same(ids), now=time.monotonic, submit=lambda answer, task: fleet.scored()
        )
        self.source = SharedMemoryTransport()
        terms = EngineSpec("the run", str(model), "transformers", 512)
        self.server = ControllerServer(self.controller, "127.0.0.1:0", token=TOKEN, run="the run", spec=terms)
        self.processes = []
        self.version = 0
        self.trained = []
        self.publish()

    def publish(self):
        weights = self.weights.named_parameters()
        self.controller.publish_weights(self.source.publish(weights, self.version, None, 1.001))

    def train(self):
        """Make a step if the groups are there."""
        if groups := self.controller.try_take_batch(self.version):
            assert [len(group) for group in groups] == [4, 4]
            self.trained += [group[0].problem_id for group in groups]
            self.version += 1
            self.publish()

    def start(self, *options, name=""):
        environment = {**os.environ, **tiny_world.ENVIRONMENT, "CURATE_TOKEN": TOKEN, "PYTHONPATH": str(ROOT)}
        named = ("--name", name) if name else ()
        self.processes.append(
            forked.Popen(
                [sys.executable, "cli.py", "rollout", "--controller", self.server.url, *named, *options],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return self.processes[-1]

    def train_until(self, reached):
        until = time.monotonic() + SECONDS
        while not reached():
            assert time.monotonic() < until
            for process in self.processes:
                assert process.poll() in (None, 0, -signal.SIGKILL), process.communicate()[0]
            self.controller.expire_leases()
            self.train()
            time.sleep(0.005)

    def holds(self, name):
        worker = self.controller._leases.workers.get(name)
        return worker is not None and worker.n_leases > 0


class Same:
    def __init__(self, ids):
        self.ids = ids

    def get_prompt(self, position):
        return TrainingPrompt(f"q{position}", self.ids, Task())


@contextmanager
def run_of(model, settings=SETTINGS):
    run = Run(model, settings)
    try:
        yield run
    finally:
        for process in run.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
        run.server.close(run_ended=False)
        run.source.close()


def test_workers_join_leave_and_are_killed_and_nothing_is_lost(tiny_model, caplog):
    with run_of(tiny_model) as run:
        victim, other = run.start(name="victim"), run.start(name="other")
        run.train_until(lambda: run.holds("victim") and run.holds("other"))
        victim.kill()
        killed = time.monotonic()
        run.train_until(lambda: run.controller.collect_metrics()["workers/dead"] == 1)
        assert time.monotonic() - killed < 20
        assert "victim is dead: it sent nothing for 15 s" in caplog.text
        late = run.start(name="late")  # it joins while the run goes on
        run.train_until(lambda: run.holds("late") and run.holds("other"))
        other.send_signal(signal.SIGTERM)
        run.train_until(lambda: other.poll() == 0)
        assert "worker other: has left" in other.stdout.read()
        assert not run.holds("other")
        version = run.version
        run.train_until(lambda: run.version == version + 3)
        run.controller.close()
        run.server.close()
        assert late.wait(SECONDS) == 0
        assert "worker late: the run is over" in late.stdout.read()
        assert len(set(run.trained)) == len(run.trained)
        still_open = {f"q{group.dispatched.position}" for group in run.controller._groups.open.values()}
        assert {*run.trained, *still_open} >= {f"q{number}" for number in range(len(run.trained))}


def test_a_ray_cluster_that_is_not_there_is_explained():
    with pytest.raises(ConfigError, match="there is no Ray cluster: .* Start one with: ray start --head"):
        run_workers_on_ray("127.0.0.1:1", RolloutOptions("http://127.0.0.1:2"), workers=1, gpus=0, note=print)


@pytest.mark.thorough
def test_a_worker_takes_the_weights_from_a_relay(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where workers keep weights
    with run_of(tiny_model) as run:
        options = ["--key", str(tmp_path / "run.key"), "--folder", str(tmp_path / "relay"), "--listen", "127.0.0.1:0"]
        relay = forked.Popen(
            [sys.executable, "-m", "cli", "relay", "--controller", run.server.url, *options],
            cwd=ROOT,
            env={**os.environ, "CURATE_TOKEN": TOKEN, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        run.processes.append(relay)
        said = ""
        while "serves on" not in said:
            said += relay.stdout.readline()
        url, public = re.findall(r"--relay (\S+) --public-key (\S+)", said)[0]
        run.start("--relay", url, "--public-key", public, name="far")
        run.train_until(lambda: run.version == 1)
        assert (tmp_path / "relay" / "store" / "runs" / "the-run" / "0" / "manifest").exists()
        kept = [path.name for path in next(tmp_path.glob("curate-weights-*/relays-*")).iterdir()]
        assert "latest" not in kept  # the controller says which version is the newest
        assert [name for name in kept if name.isdigit()]
        relay.terminate()
        assert relay.wait(SECONDS) == 0
