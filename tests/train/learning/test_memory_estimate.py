"""The estimate of memory is compared with what a learner really holds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import random_models  # noqa: E402
from learner_states import state_of  # noqa: E402

from benchmarks import memory  # noqa: E402
from train.config import ModelConfig, ObjectiveConfig, OptimizerConfig  # noqa: E402
from train.errors import LearnerError  # noqa: E402
from train.learning.learner import Learner  # noqa: E402
from train.learning.policy import load_causal_lm  # noqa: E402
from train.run.memory import estimate_learner_memory  # noqa: E402


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return random_models.folder(tmp_path_factory.mktemp("memory") / "model")


@pytest.mark.parametrize("lora_rank", [0, 2])
def test_weights_moments_and_reference_are_exact(path, lora_rank):
    model = ModelConfig(path, lora_rank=lora_rank)
    learner = Learner(model, ObjectiveConfig(kl=0.1), OptimizerConfig(), temperature=1.0, total_updates=1, seed=0)
    given = random_models.sequences(2)
    learner.begin_batch(given)
    learner.update(given)
    state = state_of(learner)
    found = estimate_learner_memory(model, row_tokens=100, reference=True)
    sizes = {
        kind: sum(each.nbytes for name, each in state[kind].items() if not name.endswith("/step"))
        for kind in ("weights", "moments", "reference")
    }
    assert found.moments == sizes["moments"]
    assert (
        found.reference == found.gradients == sizes["weights"] == sizes["reference"] == found.trainable_parameters * 4
    )
    assert found.weights == found.parameters * 4 == sum(each.nbytes for each in load_causal_lm(model).parameters())


@pytest.mark.parametrize(("ranks", "lora_rank"), [(1, 0), (4, 0), (4, 2)])
def test_the_plan_is_what_the_learner_takes_in_its_own_forward_and_backward_pass(path, ranks, lora_rank):
    """All layers on tensors without data, sharded by FSDP2 itself if there are several ranks."""
    found = memory.compare(Path(path), 2000, ranks, lora_rank=lora_rank)
    assert found["measured"] == pytest.approx(found["planned"], rel=0.05)


def test_ranks_share_weights_and_their_states(path):
    model = ModelConfig(path, dtype="bfloat16")
    one, eight = (estimate_learner_memory(model, row_tokens=1000, reference=True, ranks=ranks) for ranks in (1, 8))
    assert one.moments == pytest.approx(8 * eight.moments, abs=8)
    assert one.gradients == pytest.approx(8 * eight.gradients, abs=8)
    assert eight.total < one.total


def test_longer_rows_take_more_and_checkpointing_less(path):
    short, long = (
        estimate_learner_memory(ModelConfig(path), row_tokens=tokens, reference=False) for tokens in (1000, 2000)
    )
    assert 1.5 * short.activations < long.activations < 2 * short.activations  # logits are computed for some tokens
    lean = estimate_learner_memory(ModelConfig(path, activation_checkpointing=True), row_tokens=1000, reference=False)
    assert lean.activations < short.activations


def test_a_missing_model_is_reported(tmp_path):
    with pytest.raises(LearnerError, match="has no config.json"):
        estimate_learner_memory(ModelConfig(str(tmp_path)), row_tokens=1, reference=False)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="all weights"),
        pytest.param({"activation_checkpointing": True}, id="checkpointing", marks=pytest.mark.thorough),
        pytest.param({"lora_rank": 8}, id="lora", marks=pytest.mark.thorough),
    ],
)
def test_the_measured_peak_is_the_estimate_up_to_a_tenth(options, tmp_path):
    """Measured is the resident memory of a process on the CPU, where malloc keeps no freed blocks for later."""
    import peak_memory
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = {"num_attention_heads": 6, "num_key_value_heads": 2, "tie_word_embeddings": False}
    for name, width, n_layers in (("model-tiny", 24, 1), ("model", 384, 8)):
        settings = Qwen2Config(
            vocab_size=8000, hidden_size=width, intermediate_size=3 * width, num_hidden_layers=n_layers, **sizes
        )
        Qwen2ForCausalLM(settings).save_pretrained(tmp_path / name)
    given = [f"{name}={str(value).lower()}" for name, value in options.items()]
    measured = subprocess.run(
        [sys.executable, "-W", "ignore", peak_memory.__file__, str(tmp_path / "model"), *given],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[3]),
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "MALLOC_MMAP_THRESHOLD_": "131072",
        },
        stdout=subprocess.PIPE,
        check=True,
    )
    model = ModelConfig(str(tmp_path / "model"), **options)
    found = estimate_learner_memory(model, row_tokens=peak_memory.ROW_TOKENS, reference=True).total
    assert found == pytest.approx(int(measured.stdout), rel=0.1)
