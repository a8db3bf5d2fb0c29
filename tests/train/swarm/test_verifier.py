"""`curate verifier` beside a real coordinator: what it accepts reaches the trainer, whatever happens on the way."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import forked
import pytest
import swarm_answers
import swarms
import torch
from blake3 import blake3
from waiting import becomes

from train.asynchronous.messages import ACCEPTED, Lease, LeaseVerdict
from train.errors import RunError
from train.sampling.engine_spec import EngineSpec
from train.sampling.transformers import TransformersSampler
from train.swarm.signatures import load_or_create_key, lock_key
from train.swarm.verification.verifier_process import VerifierOptions, VerifierProcess
from train.weights.manifest import WeightFile, WeightManifest

ROOT = Path(__file__).parents[3]
VERSION = 1
RULES = replace(swarms.RULES, completions_per_prompt=2, max_tokens=24)

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other


@pytest.fixture(scope="module")
def model(tiny_model, tmp_path_factory) -> Iterator[Path]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more of them would wait for each other on a busy machine
    yield swarm_answers.model(tmp_path_factory.mktemp("verifier") / "model", tiny_model, layers=2, width=64)
    torch.set_num_threads(threads)


@pytest.fixture
def world(model: Path, tmp_path: Path) -> Iterator[swarms.World]:
    made = swarms.World(tmp_path, RULES)
    content = (model / "model.safetensors").read_bytes()
    file = WeightFile("model.safetensors", len(content), blake3(content).hexdigest())
    made.controller.publish_weights(WeightManifest(VERSION, (file,), str(model)))
    yield made
    made.close()


@contextmanager
def coordinator(world: swarms.World, model: Path) -> Iterator[None]:
    """Run a coordinator, always at the same address."""
    terms = EngineSpec(swarms.RUN, str(model), "transformers", 128)
    listen = world.url.removeprefix("http://") or "127.0.0.1:0"
    with world.coordinator(listen=listen, engine=terms, vocab_size=10_000):
        yield


@contextmanager
def verifier(invite: str, folder: Path) -> Iterator[forked.Popen]:
    command = [sys.executable, "-m", "cli", "verifier", invite, "--key", str(folder / "verifier.key")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)}
    process = forked.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def answered(node: swarms.Member, engine: TransformersSampler) -> LeaseVerdict:
    """Let a node draw the answers to a lease, and return the verdict on them."""
    [lease, *_] = node.ask(VERSION, slots=RULES.completions_per_prompt)
    assert node.upload(lease, swarm_answers.results(lease, swarm_answers.drawn(engine, lease))) == "taken"
    return verdict_on(node, lease)


def verdict_on(node: swarms.Member, lease: Lease) -> LeaseVerdict:
    until = time.monotonic() + 120  # the verifier may still be loading the model
    while time.monotonic() < until:
        if verdict := dict(node.beat(VERSION).verdicts).get((lease.group, 0)):
            return verdict
        time.sleep(0.3)
    raise AssertionError("there was no verdict")


def test_a_verifier_outlives_its_coordinator_and_leaves_when_told_to(
    world: swarms.World, model: Path, tmp_path: Path
) -> None:
    engine = TransformersSampler(str(model), context_tokens=128)
    with coordinator(world, model):
        pass  # now there is an address, for the invite
    with verifier(swarms.invite(world.place, "verifier").text, tmp_path) as process:
        with coordinator(world, model):
            node = world.member()
            assert answered(node, engine) == ACCEPTED
        with coordinator(world, model):
            node.join()
            assert answered(node, engine) == ACCEPTED
            batch = world.controller.wait_for_batch(0, 20)
            assert [len(group) for group in batch] == [2, 2]
            attacker = world.member()
            [lease, *_] = attacker.ask(VERSION, slots=RULES.completions_per_prompt)
            attacker.upload(lease)  # well-formed, without commitments
            with pytest.raises(RunError, match="banned"):
                verdict_on(attacker, lease)
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert said.splitlines()[-1].endswith("has left")
    assert "hard (malformed)" in said


def test_a_verifier_ends_with_the_run(world: swarms.World, model: Path, tmp_path: Path) -> None:
    with coordinator(world, model):
        told = swarms.invite(world.place, "verifier").text
        lines: list[str] = []
        verifier = VerifierProcess(
            VerifierOptions(told, key_path=tmp_path / "key", folder=tmp_path / "versions"), note=lines.append
        )
        thread = threading.Thread(target=verifier.run)
        thread.start()
        assert becomes(lambda: any("has weights" in line for line in lines))
        world.controller.close()
        thread.join(60)
        assert not thread.is_alive()
    assert lines[-1].endswith("the run is over")


def test_two_processes_do_not_share_a_key(world: swarms.World, model: Path, tmp_path: Path) -> None:
    load_or_create_key(tmp_path / "verifier.key")
    with (
        lock_key(tmp_path / "verifier.key"),
        coordinator(world, model),
        verifier(swarms.invite(world.place, "verifier").text, tmp_path) as process,
    ):
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "another process uses the key" in said


def test_an_invite_for_a_node_is_refused(world: swarms.World, model: Path, tmp_path: Path) -> None:
    with coordinator(world, model), verifier(swarms.invite(world.place).text, tmp_path) as process:
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said.endswith("For a verifier: curate swarm invite FOLDER --verifier\n")
