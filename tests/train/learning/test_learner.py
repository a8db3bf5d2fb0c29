"""The learner's updates are the same however the work is split, and the same after a restart."""

import dataclasses
import math
import resource
import threading
from concurrent.futures import Future

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import random_models  # noqa: E402
from learner_states import load_into, state_of  # noqa: E402

from train.config import ModelConfig, ObjectiveConfig, OptimizerConfig, ParallelismConfig  # noqa: E402
from train.errors import CheckpointError  # noqa: E402
from train.learning import sharded_state  # noqa: E402
from train.learning.learner import Learner, LearnerError  # noqa: E402
from train.learning.ranks import RankGroup  # noqa: E402


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return random_models.folder(tmp_path_factory.mktemp("models") / "qwen2")


def learner(path, objective=None, optimizer=None, *, temperature=1.0, total_updates=10, **model):
    return Learner(
        ModelConfig(path, **model),
        objective or ObjectiveConfig(),
        optimizer or OptimizerConfig(row_tokens=64),
        temperature=temperature,
        total_updates=total_updates,
        seed=0,
    )


def weights(learner):
    return {name: weight.clone() for name, weight in learner.export_weights()}


def distance(first, second):
    return max((first[name] - second[name]).abs().max().item() for name in first)


def test_an_update_does_not_depend_on_the_length_of_rows(path):
    results = []
    for row_tokens in (8, 40, 1000):  # the first is shorter than most sequences
        one = learner(path, optimizer=OptimizerConfig(row_tokens=row_tokens))
        figures = one.update(random_models.sequences())
        results.append((figures, weights(one)))
    for figures, after in results[1:]:
        assert figures == pytest.approx(results[0][0], rel=1e-4, abs=1e-6)
        assert distance(after, results[0][1]) < 1e-5


def test_an_update_does_not_depend_on_the_order_of_sequences(path):
    forward, backward = learner(path), learner(path)
    one = forward.update(random_models.sequences())
    two = backward.update(random_models.sequences()[::-1])
    assert one == pytest.approx(two, rel=1e-4, abs=1e-6)
    assert distance(weights(forward), weights(backward)) < 1e-5


def test_an_update_with_several_threads_is_the_same_each_time(path):
    given = random_models.sequences(24, longest=110, answers=24)  # so many numbers that torch divides them
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        moments = []
        for _ in range(4):
            one = learner(path, optimizer=OptimizerConfig(row_tokens=8192))
            one.update(given)
            moments.append(state_of(one)["moments"])
    finally:
        torch.set_num_threads(threads)
    assert all(other[name].equal(tensor) for other in moments[1:] for name, tensor in moments[0].items())


def test_log_probabilities_are_those_of_the_model_itself(path):
    from transformers import AutoModelForCausalLM

    plain = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    given = random_models.sequences()
    found = learner(path, temperature=0.7).compute_logprobs(given)
    for sequence, ours in zip(given, found, strict=True):
        ids = torch.tensor([*sequence.prompt_ids, *sequence.token_ids])
        with torch.no_grad():
            logp = (plain(ids[None]).logits[0] / 0.7).log_softmax(1)
        at = len(sequence.prompt_ids) - 1
        theirs = logp[at:-1].gather(1, ids[at + 1 :, None])[:, 0]
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_updates_make_good_completions_more_likely(path):
    given = [
        dataclasses.replace(s, advantages=(1.0,) * len(s.token_ids), truncated=False) for s in random_models.sequences()
    ]
    one = learner(path)
    with_own = [
        dataclasses.replace(s, sampler_logprobs=tuple(logp.tolist()))
        for s, logp in zip(given, one.compute_logprobs(given), strict=True)
    ]
    figures = one.update(with_own)
    assert figures["sampling/sampling_logp_difference/max"] == pytest.approx(0, abs=1e-5)
    assert figures["mismatch/token_mult_prob_error"] == pytest.approx(1, abs=1e-5)
    assert figures["clip_ratio/region_mean"] == 0
    before = torch.cat([torch.tensor(s.sampler_logprobs) for s in with_own])
    assert (torch.cat(one.compute_logprobs(given)) - before).mean() > 0


FULL = ObjectiveConfig(kl=0.1, entropy=0.01, old="learner", truncation=2.0, mismatch_low=0.1, mismatch_high=10.0)


@pytest.mark.parametrize(("lora_rank", "offload"), [(0, False), (2, False), (0, True)])
def test_a_restored_learner_continues_bit_for_bit(path, tmp_path, lora_rank, offload):
    settings = OptimizerConfig(row_tokens=64, schedule="cosine", warmup_steps=2)
    batches = [random_models.sequences(6, seed=seed) for seed in range(5)]

    def run(one, some):
        made = []
        for batch in some:
            one.begin_batch(batch)
            made.append(one.update(batch))
        return made

    through = learner(path, FULL, settings, lora_rank=lora_rank)
    expected = run(through, batches[:2])
    through.update_reference()
    expected += run(through, batches[2:])

    settings = dataclasses.replace(settings, offload=offload)
    stopped = learner(path, FULL, settings, lora_rank=lora_rank)
    found = run(stopped, batches[:2])
    stopped.update_reference()
    saving = stopped.save_state(tmp_path / "state")
    run(stopped, batches[4:])  # what is written is the state from before
    saving.result()
    stopped.close()
    resumed = learner(path, FULL, settings, lora_rank=lora_rank)
    resumed.load_state(tmp_path / "state")
    found += run(resumed, batches[2:])
    assert found == expected
    assert distance(weights(resumed), weights(through)) == 0
    assert len({figures["learning_rate"] for figures in found}) > 3


def test_a_checkpoint_of_another_model_is_refused(path, tmp_path):
    other = learner(random_models.folder(tmp_path / "other", "llama"))
    with pytest.raises(LearnerError, match="of another model"):
        load_into(learner(path), state_of(other))


def test_a_checkpoint_without_the_required_reference_is_refused(path):
    with pytest.raises(LearnerError, match="no reference"):
        load_into(learner(path, FULL), state_of(learner(path)))


@pytest.mark.parametrize("poison", ["weight", "advantage"])
def test_an_update_that_is_not_finite_ends_the_run_before_a_weight_changes(path, poison):
    one = learner(path)
    given = random_models.sequences()
    one.update(given)
    if poison == "weight":
        state = state_of(one)
        state["weights"]["model.norm.weight"][3] = math.nan
        load_into(one, state)
    else:
        given[0] = dataclasses.replace(given[0], advantages=(math.inf,) * len(given[0].token_ids))
    before, moments = weights(one), state_of(one)["moments"]
    with pytest.raises(LearnerError, match="update 1: the loss is .* weights were not changed"):
        one.update(given)
    after, moments_after = weights(one), state_of(one)["moments"]
    assert all(torch.equal(before[name], after[name]) or poison == "weight" for name in before)
    assert all(torch.equal(moments[name], moments_after[name]) for name in moments)
    assert state_of(one)["updates"] == 1


def test_a_gradient_with_too_large_a_norm_is_clipped(path):
    one = learner(path, optimizer=OptimizerConfig(row_tokens=64, betas=(0.0, 0.99), clip_norm=1e-3))
    assert one.update(random_models.sequences())["grad_norm"] > 2e-3
    moments = state_of(one)["moments"]
    cut = torch.cat([value.flatten() for name, value in moments.items() if name.endswith("/exp_avg")])
    assert cut.norm().item() == pytest.approx(1e-3, rel=1e-3)


def test_a_minibatch_without_a_counting_token_takes_no_step(path):
    one = learner(path)
    before = weights(one)
    cut = [dataclasses.replace(s, truncated=True) for s in random_models.sequences()]
    figures = one.update(cut)
    assert figures["skipped"] == 1
    assert figures["counted_tokens"] == 0
    assert "loss" not in figures
    assert distance(weights(one), before) == 0


def test_metrics_have_the_names_that_trl_uses(path):
    one = learner(path, FULL)
    given = random_models.sequences()
    one.begin_batch(given)
    figures = one.update(given)
    assert {
        "loss", "grad_norm", "learning_rate", "entropy", "kl", "num_tokens",
        "clip_ratio/low_mean", "clip_ratio/low_min", "clip_ratio/high_mean", "clip_ratio/high_max",
        "clip_ratio/region_mean", "sampling/sampling_logp_difference/mean", "sampling/sampling_logp_difference/max",
        "sampling/importance_sampling_ratio/min", "sampling/importance_sampling_ratio/mean",
        "sampling/importance_sampling_ratio/max", "mismatch/kl", "mismatch/token_mult_prob_error",
    } <= figures.keys()  # fmt: skip
    assert all(math.isfinite(value) for value in figures.values())
    assert figures["num_tokens"] == sum(len(s.prompt_ids) + len(s.token_ids) for s in given)
    assert figures["kl"] == pytest.approx(0, abs=1e-6)  # the reference is what it began with


def test_a_refreshed_reference_equals_the_policy(path):
    one = learner(path, ObjectiveConfig(kl=0.1), OptimizerConfig(row_tokens=64, learning_rate=0.01))
    given = random_models.sequences()
    kl = []
    for number in range(4):
        if number == 2:
            one.update_reference()
        one.begin_batch(given)
        kl.append(one.update(given)["kl"])
    assert kl[0] == pytest.approx(0, abs=1e-6)
    assert kl[1] > 1e-4
    assert kl[2] == pytest.approx(0, abs=1e-6)
    assert kl[3] > 1e-4


def test_a_mixed_reference_is_between_the_one_before_and_the_policy(path):
    def kl(mix):
        one = learner(
            path, ObjectiveConfig(kl=0.1, reference_mix=mix or 1.0), OptimizerConfig(row_tokens=64, learning_rate=0.01)
        )
        given = random_models.sequences()
        for number in range(3):
            if number == 2 and mix:
                one.update_reference()
            one.begin_batch(given)
            found = one.update(given)["kl"]
        return found

    assert kl(1.0) < 1e-6 < 0.1 * kl(0.9) < kl(0.5) < kl(0.0)


def test_old_log_probabilities_are_those_at_the_beginning_of_the_batch(path):
    one = learner(
        path, ObjectiveConfig(old="learner", overlong="none"), OptimizerConfig(row_tokens=64, learning_rate=0.05)
    )
    given = random_models.sequences()
    one.begin_batch(given)
    assert one.update(given[:6])["clip_ratio/region_mean"] == 0
    assert one.update(given[6:])["clip_ratio/region_mean"] > 0
    one.begin_batch(given)
    assert one.update(given[6:])["clip_ratio/region_mean"] == 0


@pytest.mark.parametrize("row_tokens", [64, 4096])
def test_the_first_update_takes_old_log_probabilities_from_its_own_forward_pass(path, monkeypatch, row_tokens):
    given = random_models.sequences()
    computed = {}
    optimizer = OptimizerConfig(row_tokens=row_tokens, learning_rate=0.01)
    found = {}
    for name, mismatch_high in (("own", 0.0), ("computed before", 1e9)):  # that bound masks nothing
        objective = ObjectiveConfig(
            old="learner", overlong="none", truncation=2.0, mismatch_low=0.0, mismatch_high=mismatch_high
        )
        one = learner(path, objective, optimizer)
        compute, seen = one.compute_logprobs, []
        computed[name] = seen
        monkeypatch.setattr(one, "compute_logprobs", lambda some, to=seen, do=compute: to.extend(some) or do(some))
        one.begin_batch(given)
        figures = [one.update(part) for _ in range(2) for part in (given[:6], given[6:])]
        found[name] = figures, weights(one)
    assert computed["own"] == given[6:]
    assert computed["computed before"] == given
    for own, before in zip(*(figures for figures, _ in found.values()), strict=True):
        assert own == pytest.approx({name: before[name] for name in own}, rel=1e-3, abs=1e-5)
    assert distance(found["own"][1], found["computed before"][1]) < 1e-3


def test_an_update_that_is_skipped_leaves_old_log_probabilities_to_the_next_one(path):
    one = learner(path, ObjectiveConfig(old="learner"), OptimizerConfig(row_tokens=64, learning_rate=0.05))
    given = random_models.sequences()
    cut = [dataclasses.replace(s, truncated=True) for s in given[:6]]
    one.begin_batch([*cut, *given[6:]])
    assert [one.update(part)["skipped"] for _ in range(2) for part in (cut, given[6:])] == [1, 0, 1, 0]


def test_completions_not_given_to_begin_batch_are_refused(path):
    one = learner(path, ObjectiveConfig(old="learner"))
    one.begin_batch(random_models.sequences(seed=1))
    with pytest.raises(LearnerError, match="are not in the batch of begin_batch"):
        one.update(random_models.sequences(seed=2))


def test_contradictory_settings_are_refused(path):
    with pytest.raises(LearnerError, match="objective.old"):
        learner(path, ObjectiveConfig(truncation=2.0))
    with pytest.raises(LearnerError, match="max_tokens"):
        learner(path, ObjectiveConfig(aggregation="constant_length")).update(random_models.sequences())


def test_activation_checkpointing_changes_no_gradient(path):
    plain, checkpointing = learner(path), learner(path, activation_checkpointing=True)
    assert plain.update(random_models.sequences()) == pytest.approx(
        checkpointing.update(random_models.sequences()), rel=1e-5
    )
    assert distance(weights(plain), weights(checkpointing)) < 1e-6


def test_half_precision_is_used_to_compute_but_not_for_the_weights(path):
    one, half = learner(path), learner(path, dtype="bfloat16")
    given = random_models.sequences()
    figures, exact = half.update(given), one.update(given)
    assert figures["entropy"] == pytest.approx(exact["entropy"], rel=0.05)
    assert figures["grad_norm"] == pytest.approx(exact["grad_norm"], rel=0.2)
    assert {weight.dtype for weight in state_of(half)["weights"].values()} == {torch.float32}
    assert {weight.dtype for _, weight in half.export_weights()} == {torch.bfloat16}


def test_lora_trains_its_layers_and_gives_whole_weights(path):
    one = learner(
        path, ObjectiveConfig(kl=0.1), OptimizerConfig(row_tokens=64, learning_rate=0.05), lora_rank=2, lora_alpha=4
    )
    full = learner(path)
    given = random_models.sequences()
    assert weights(one).keys() == weights(full).keys()
    assert distance(weights(one), weights(full)) == 0
    for _ in range(2):
        one.begin_batch(given)
        figures = one.update(given)
    assert figures["kl"] > 0
    assert all("lora_" in name for name in state_of(one)["weights"])
    changed = weights(one)
    assert torch.equal(changed["model.embed_tokens.weight"], weights(full)["model.embed_tokens.weight"])
    state = state_of(full)
    state["weights"] |= {name: changed[name] for name in state["weights"]}
    load_into(full, state)
    for ours, merged in zip(one.compute_logprobs(given), full.compute_logprobs(given), strict=True):
        torch.testing.assert_close(ours, merged, rtol=1e-4, atol=1e-5)


def test_with_lora_only_the_layers_that_are_trained_are_in_full_precision(path):
    given = random_models.sequences()
    half = learner(path, dtype="bfloat16", lora_rank=2)
    dtypes = {"lora_" in name: weight.dtype for name, weight in half._causal.named_parameters()}
    assert dtypes == {True: torch.float32, False: torch.bfloat16}
    full = learner(path, lora_rank=2)
    figures, exact = half.update(given), full.update(given)
    assert figures["entropy"] == pytest.approx(exact["entropy"], rel=0.05)
    assert figures["grad_norm"] == pytest.approx(exact["grad_norm"], rel=0.25)
    assert {value.dtype for value in state_of(half)["moments"].values()} == {torch.float32}


def test_the_saved_adapter_is_one_that_peft_reads(path, tmp_path):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    one = learner(path, optimizer=OptimizerConfig(row_tokens=64, learning_rate=0.05), lora_rank=2)
    for _ in range(2):
        one.update(random_models.sequences())
    one.save_pretrained(tmp_path / "model")
    base = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    adapted = PeftModel.from_pretrained(base, tmp_path / "model" / "adapter").merge_and_unload()
    whole = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    for name, weight in whole.state_dict().items():
        torch.testing.assert_close(adapted.state_dict()[name], weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lora_rank", [0, 2])
def test_the_saved_model_is_the_trained_one(path, tmp_path, lora_rank):
    from transformers import AutoModelForCausalLM

    one = learner(path, optimizer=OptimizerConfig(row_tokens=64, learning_rate=0.05), lora_rank=lora_rank)
    one.update(random_models.sequences())
    one.save_pretrained(tmp_path / "saved")
    saved = dict(AutoModelForCausalLM.from_pretrained(tmp_path / "saved", dtype=torch.float32).named_parameters())
    assert saved.keys() == weights(one).keys()
    assert distance(saved, weights(one)) == 0


def test_the_copy_of_the_last_whole_step_takes_the_memory_of_the_one_before(path, tmp_path):
    one = learner(path)
    one.update(random_models.sequences())
    one.snapshot()
    before = {name: (copy.data_ptr(), copy.clone()) for name, copy in one._snapshot.items()}
    one.update(random_models.sequences(seed=1))
    one.snapshot()
    after = {name: copy for name, copy in one._snapshot.items() if name != "updates"}
    assert {name: copy.data_ptr() for name, copy in after.items()} == {name: before[name][0] for name in after}
    assert any(not torch.equal(copy, before[name][1]) for name, copy in after.items())


def test_a_copy_that_is_being_written_is_not_overwritten(path, tmp_path, monkeypatch):
    one = learner(path)
    one.update(random_models.sequences())
    writing, written = Future(), {}

    def write(state, folder, group, *, begin):
        written.update({name: (value, value.clone()) for name, value in state.items()})
        return writing

    monkeypatch.setattr(sharded_state, "write_in_background", write)
    one.save_state(tmp_path / "state")
    one.update(random_models.sequences(seed=1))
    one.snapshot()
    assert all(torch.equal(value, copy) for value, copy in written.values())
    writing.set_result(None)
    one.close()


def test_the_thread_of_a_checkpoint_begins_with_the_gpu_of_its_rank(path, tmp_path, monkeypatch):
    one = learner(path)
    threads = []
    monkeypatch.setattr(one._ranks, "use_device", lambda: threads.append(threading.current_thread().name))
    one.save_state(tmp_path / "state").result(60)
    assert threads == ["checkpoint"]


def test_a_state_for_which_there_is_no_room_is_reported_in_the_words_of_the_system(path, tmp_path):
    one = learner(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(CheckpointError, match=r"rank 0: OSError: \[Errno 27\] File too large"):
            one.save_state(tmp_path / "state").result(60)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_rank_names_its_gpu_with_its_index(monkeypatch):
    chosen = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch.cuda, "Stream", lambda: None)
    monkeypatch.setattr(torch._C, "_accelerator_setAllocatorSettings", chosen.append)
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert RankGroup(ParallelismConfig()).device == torch.device("cuda:3")
    device, settings = chosen
    assert device == torch.device("cuda:3")
    assert "expandable_segments:True" in settings.split(",")
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:512")
    RankGroup(ParallelismConfig())
    assert chosen[2:] == [torch.device("cuda:3")]
