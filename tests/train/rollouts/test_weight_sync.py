"""Sampler and learner are compared when weights are handed over, when an engine starts, and over every batch."""

import logging
from math import nan

import pytest
import small_runs
import tiny_world

torch = pytest.importorskip("torch", reason="torch is not installed")

from learner_states import load_into, state_of  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

from train import loop  # noqa: E402
from train.errors import ParityError  # noqa: E402
from train.learning.learner import Learner  # noqa: E402
from train.rollouts.groups import Rollout  # noqa: E402
from train.rollouts.weight_sync import check_mismatch, compare_samples, make_probe, publish  # noqa: E402
from train.run.folder import open_run  # noqa: E402
from train.sampling.transformers import TransformersSampler  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other


@pytest.fixture
def learner(small):
    config = small_runs.read(small)
    return Learner(config.model, config.objective, config.optimizer, temperature=0.7, total_updates=1, seed=0)


@pytest.fixture
def prompts(tiny_model):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    chats = [tiny_world.chat(tiny_world.statement(name)) for name in ("sum", "larger")]
    return [tuple(tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]) for chat in chats]


def answer(prompt, tokens=8):
    ids = tuple(range(5, 5 + tokens))
    return Rollout("sum", prompt, ids, (-1.0,) * tokens, (0,) * tokens, False, "", 1.0, "accepted", 0.0)


class Deaf(TransformersSampler):
    """A sampler that reports new weights but keeps the old ones."""

    def load(self, weights, version):
        list(weights)
        self._version = version


def test_a_sampler_that_keeps_old_weights_is_detected_after_the_smallest_change(learner, prompts, tiny_model):
    sampler = Deaf(str(tiny_model))
    publish(learner, sampler, 1, None, max_error=1.01)  # there is nothing to miss
    state = state_of(learner)
    state["weights"]["model.norm.weight"][3] += 1e-6
    load_into(learner, state)
    with pytest.raises(ParityError, match=r"1 of 26 tensors in the engine differ .*model.norm.weight"):
        publish(learner, sampler, 2, None, max_error=1.01)
    probe = make_probe(learner, [[answer(prompt)] for prompt in prompts])
    figures = publish(learner, TransformersSampler(str(tiny_model)), 2, probe, max_error=1.001)
    assert figures["parity/checked"] == 1


def test_a_sampler_whose_log_probabilities_are_at_another_temperature_is_detected_at_its_start(
    learner, prompts, tiny_model
):
    sampler = TransformersSampler(str(tiny_model))
    publish(learner, sampler, 0, None, max_error=1.001)
    figures = compare_samples(learner, sampler, 0, prompts, temperature=0.7, max_error=1.001)
    assert figures["parity/token_mult_prob_error"] == pytest.approx(1, abs=1e-3)
    with pytest.raises(
        ParityError, match="weights 0 are loaded, but the sampler's log-probabilities do not match its samples"
    ):
        compare_samples(learner, sampler, 0, prompts, temperature=1.4, max_error=1.001)


def test_the_probe_is_the_beginnings_of_answers_before_temperature(learner, prompts, tiny_model):
    groups = [[answer(prompts[0], 5), answer(prompts[0])], [answer(prompts[1], 100)], [answer(prompts[1], 0)]]
    probe = make_probe(learner, groups)
    assert [len(logprobs) for logprobs in probe.logprobs] == [5, 64]
    assert [ids[: len(prompt)] for ids, prompt in zip(probe.tokens, prompts, strict=True)] == prompts
    by_sampler = TransformersSampler(str(tiny_model)).compute_logprobs(probe.tokens)
    for mine, its in zip(probe.logprobs, by_sampler, strict=True):
        assert mine == pytest.approx(its[-len(mine) :], abs=1e-4)
    assert make_probe(learner, [[answer(prompts[0], 0)]]) is None


def test_the_mismatch_over_a_batch_is_an_alarm_and_then_the_end(caplog):
    metrics = {"mismatch/kl": 0.05, "sampling/sampling_logp_difference/p99": 0.5}
    with caplog.at_level(logging.WARNING):
        check_mismatch({"mismatch/kl": 0.001}, step=3, warn_above=0.01, fail_above=0.1)
        check_mismatch({}, step=3, warn_above=0.01, fail_above=0.1)  # no token counted
        assert caplog.records == []
        check_mismatch(metrics, step=3, warn_above=0.01, fail_above=0.1)
    (record,) = caplog.records
    assert "step 3: sampler and learner assign different log-probabilities" in record.getMessage()
    assert "99th percentile of the absolute differences is 0.5" in record.getMessage()
    for kl in (0.2, nan):
        with pytest.raises(ParityError, match=r"engine.mismatch_stop allows 0\.1"):
            check_mismatch(metrics | {"mismatch/kl": kl}, step=3, warn_above=0.01, fail_above=0.1)


def test_a_run_ends_at_the_batch_about_which_sampler_and_learner_differ(small, tmp_path, monkeypatch):
    """Weights may change in the engine after the proof, too, for example in memory that fails."""

    class Decays(TransformersSampler):
        def update_weights(self, weights, version, probe, max_error):
            figures = super().update_weights(weights, version, probe, max_error)
            if version == 1:
                with torch.no_grad():
                    self._model.model.layers[1].mlp.down_proj.weight += 0.3
            return figures

    monkeypatch.setattr("train.sampling.transformers.TransformersSampler", Decays)
    config = small_runs.read(small)
    with (
        open_run(tmp_path / "run", config),
        pytest.raises(ParityError, match="step 2: sampler and learner assign different log-probabilities"),
    ):
        loop.train(config, tmp_path / "run")
    assert [line["step"] for line in small_runs.lines(tmp_path / "run" / "metrics.jsonl")] == [0, 1]
