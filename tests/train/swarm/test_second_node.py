"""A node that was written from the protocol page alone, examples/swarm/second_node.py, beside a real coordinator and a
real verifier."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import forked
import pytest
import swarm_answers
import swarms
from blake3 import blake3
from safetensors.torch import load_file, save_file

from train.sampling.engine_spec import EngineSpec
from train.swarm.accounts import VerdictEntry
from train.swarm.ledger import read_rows
from train.weights.manifest import WeightFile, WeightManifest

SCRIPT = Path(__file__).parents[3] / "examples" / "swarm" / "second_node.py"
RULES = replace(swarms.RULES, completions_per_prompt=2, max_tokens=48)  # more than one chunk of commitments
SECONDS = 240  # until a test that hangs is given up


@pytest.fixture(scope="module")
def model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return swarm_answers.model(tmp_path_factory.mktemp("second") / "model", tiny_model, layers=2, width=64)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[swarms.World]:
    made = swarms.World(tmp_path, RULES)
    yield made
    made.close()


def publish(world: swarms.World, version: int, folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    file = WeightFile("model.safetensors", len(content), blake3(content).hexdigest())
    world.controller.publish_weights(WeightManifest(version, (file,), str(folder)))


def changed(model: Path, folder: Path) -> Path:
    """Return a folder with the weights of the model, a few of them changed: they travel as a difference."""
    folder.mkdir()
    tensors = load_file(model / "model.safetensors")
    tensors["lm_head.weight"][:20] *= 1.5
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_a_second_implementation_is_accepted_with_whole_weights_and_with_a_difference(
    world: swarms.World, model: Path, tmp_path: Path
) -> None:
    engine = EngineSpec(swarms.RUN, str(model), "transformers", 128)
    publish(world, 1, model)
    with world.coordinator(engine=engine, vocab_size=10_000):
        verifier = ["-m", "cli", "verifier", swarms.invite(world.place, "verifier").text, "--key", str(tmp_path / "v")]
        node = [str(SCRIPT), swarms.invite(world.place).text, str(tmp_path / "n")]
        environment = {"PYTHONPATH": str(SCRIPT.parents[2]), "TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
        started = [forked.Popen([sys.executable, *words], env={**forked.os.environ, **environment},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                   for words in (verifier, node)]  # fmt: skip
        try:
            assert world.controller.wait_for_batch(0, SECONDS)
            publish(world, 2, changed(model, tmp_path / "changed"))
            assert world.controller.wait_for_batch(1, SECONDS)
            world.controller.close()
            said = [process.communicate(timeout=SECONDS)[0] for process in started]
        finally:
            for process in started:
                process.kill()
    assert [process.returncode for process in started] == [0, 0], said
    verdicts = [entry for row in read_rows(world.place / "ledger.sqlite")
                if isinstance(entry := row.decode(), VerdictEntry)]  # fmt: skip
    assert {verdict.reason for verdict in verdicts} <= {"", "late"}, said
    assert "weights 2" in said[1]
