"""Models of many families take packed rows; the others are refused with an explanation."""

import dataclasses
import inspect
import math
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import random_models  # noqa: E402
from torch.nn.attention.varlen import varlen_attn  # noqa: E402

from train.config import ModelConfig  # noqa: E402
from train.errors import LearnerError  # noqa: E402
from train.learning import attention  # noqa: E402
from train.learning.attention import _compute_sequence_ends, compute_packed_attention, repeat_heads  # noqa: E402
from train.learning.policy import Policy, check_trained_experts, export_tensors, load_causal_lm  # noqa: E402
from train.learning.sequences import pack_into_rows  # noqa: E402


def logprobs(policy, sequences, row_tokens):
    made = torch.zeros(sum(len(each.token_ids) for each in sequences))
    with torch.no_grad():
        for row in pack_into_rows(sequences, row_tokens=row_tokens):
            made[row.token_index_R], _ = policy(row)
    return made.split([len(each.token_ids) for each in sequences])


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama", "mistral", "phi", "qwen3-moe"])
def test_packed_log_probabilities_equal_those_of_each_sequence_alone(tmp_path, family):
    from transformers import AutoModelForCausalLM

    path = random_models.folder(tmp_path, family)
    plain = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    given = random_models.sequences(10)
    found = logprobs(Policy(load_causal_lm(ModelConfig(path)), torch.float32, 1.0), given, row_tokens=70)
    for sequence, ours in zip(given, found, strict=True):
        ids = torch.tensor([*sequence.prompt_ids, *sequence.token_ids])
        at = len(sequence.prompt_ids) - 1
        with torch.no_grad():
            theirs = plain(ids[None]).logits[0, at:-1].log_softmax(1).gather(1, ids[at + 1 :, None])[:, 0]
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama", "mistral", "phi", "qwen3-moe"])
def test_a_shared_prompt_gives_the_gradients_of_each_answer_with_a_prompt_of_its_own(tmp_path, family):
    policy = Policy(load_causal_lm(ModelConfig(random_models.folder(tmp_path, family))), torch.float32, 1.0)
    given = random_models.sequences(12, answers=5, seed=1)
    given += [dataclasses.replace(given[2], advantages=given[2].advantages[::-1]), given[7]]  # the same answers again
    found = []
    for sequences in ([given], [[each] for each in given]):
        policy.zero_grad()
        values = []
        for part in sequences:
            (row,) = pack_into_rows(part, row_tokens=1000)
            logp_R, entropy_R = policy(row, entropy_gradient=True)
            wanted = torch.tensor([place for each in part for place in each.advantages])
            (logp_R * wanted[row.token_index_R] + 0.1 * entropy_R).sum().backward()
            values.append(torch.zeros(len(wanted)).index_copy(0, row.token_index_R, logp_R.detach()))
        gradients = [parameter.grad for parameter in policy.parameters() if parameter.grad is not None]
        found.append((torch.cat(values), gradients))
    (shared, of_shared), (alone, of_alone) = found
    torch.testing.assert_close(shared, alone, rtol=1e-5, atol=1e-5)
    scale = max(gradient.abs().max() for gradient in of_alone)
    for one, other in zip(of_shared, of_alone, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6 * float(scale))


@pytest.mark.parametrize("family", ["qwen2", "phi", "qwen3-moe"])
def test_weights_have_the_names_and_values_of_the_file(tmp_path, family):
    from safetensors.torch import load_file

    path = random_models.folder(tmp_path, family)
    found, file = (
        dict(export_tensors(load_causal_lm(ModelConfig(path)), torch.float32)),
        load_file(tmp_path / "model.safetensors"),
    )
    assert found.keys() == file.keys()
    assert all(torch.equal(found[name], file[name]) for name in file)


def test_a_sequence_does_not_influence_its_neighbours(tmp_path):
    policy = Policy(load_causal_lm(ModelConfig(random_models.folder(tmp_path))), torch.float32, 1.0)
    given = random_models.sequences(6)
    before = logprobs(policy, given, row_tokens=1000)
    others = [given[0], dataclasses.replace(given[1], prompt_ids=(5,) * len(given[1].prompt_ids)), *given[2:]]
    after = logprobs(policy, others, row_tokens=1000)
    assert (before[1] - after[1]).abs().max() > 1e-3
    for place in (0, 2, 3, 4, 5):
        torch.testing.assert_close(before[place], after[place], rtol=0, atol=1e-6)


@pytest.mark.parametrize("family", ["gemma2", "granite", "mamba"])
def test_families_with_unsupported_logits_or_rows_are_refused(tmp_path, family):
    path = random_models.folder(tmp_path, family)
    with pytest.raises(LearnerError, match="another"):
        load_causal_lm(ModelConfig(path))


def test_a_folder_without_a_model_is_reported(tmp_path):
    with pytest.raises(LearnerError, match="is not the folder of a model"):
        load_causal_lm(ModelConfig(str(tmp_path / "nothing")))
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"')
    with pytest.raises(LearnerError, match="cannot be loaded"):
        load_causal_lm(ModelConfig(str(tmp_path)))


def test_a_model_without_some_of_its_weights_is_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    path = random_models.folder(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(LearnerError, match="missing: model.layers.1.mlp.up_proj.weight"):
        load_causal_lm(ModelConfig(path))


def test_on_gpus_the_keys_of_an_answer_begin_with_those_of_its_prompt():
    query_ends, key_ends, max_queries, max_keys, keys = _compute_sequence_ends(
        ((3, 2, 1), (4,), (1, 1, 1)), torch.device("cpu")
    )
    sequences = [(0, 1, 2), (0, 1, 2, 3, 4), (0, 1, 2, 5), (6, 7, 8, 9), (10,), (10, 11), (10, 12)]
    assert keys.tolist() == [place for sequence in sequences for place in sequence]
    assert key_ends.tolist() == [0, 3, 8, 12, 16, 17, 19, 21]
    assert query_ends.tolist() == [0, 3, 5, 6, 10, 11, 12, 13]
    assert (max_queries, max_keys) == (4, 5)
    assert _compute_sequence_ends(((3,), (4,)), torch.device("cpu"))[-1] is None


@pytest.mark.parametrize("extra", ["softcap", "s_aux"])
def test_unsupported_attention_is_refused(extra):
    one = torch.ones(1, 1, 3, 8)
    with pytest.raises(ValueError, match="soft caps"):
        compute_packed_attention(torch.nn.Identity(), one, one, one, None, lengths=((3,),), **{extra: 1.0})


def test_repeated_heads_for_keys_give_the_same_attention(monkeypatch):
    """As on a GPU in float32, where torch has no memory-efficient kernel for queries with more heads than keys."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, heads, 12, 8, generator=generator) for heads in (6, 2, 2))
    lengths = ((3, 4), (2, 3))
    shared, _ = compute_packed_attention(torch.nn.Identity(), query, key, value, None, lengths=lengths)
    own, _ = compute_packed_attention(
        torch.nn.Identity(), query, *repeat_heads(key, value, heads=6), None, lengths=lengths
    )
    torch.testing.assert_close(own, shared)


def reference_varlen_attn(
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale=None, window_size=(-1, -1), enable_gqa=False
):
    """What torch's kernel computes, sequence by sequence in float64; queries are the last ones of a sequence."""
    groups = query.shape[1] // key.shape[1]
    assert enable_gqa == (groups > 1)
    assert window_size[1] == 0
    attended = []
    for (first_q, end_q), (first_k, end_k) in zip(
        pairwise(cu_seq_q.tolist()), pairwise(cu_seq_k.tolist()), strict=True
    ):
        assert end_q - first_q <= max_q
        assert end_k - first_k <= max_k
        q, k, v = query[first_q:end_q].double(), key[first_k:end_k].double(), value[first_k:end_k].double()
        scores = torch.einsum("qhe,khe->hqk", q, k.repeat_interleave(groups, 1))
        back = torch.arange(len(k) - len(q), len(k))[:, None] - torch.arange(len(k))
        seen = (back >= 0) & ((back <= window_size[0]) | (window_size[0] < 0))
        weights = (scores * (scale or q.shape[-1] ** -0.5)).masked_fill(~seen, -math.inf).softmax(-1)
        attended.append(torch.einsum("hqk,khe->qhe", weights, v.repeat_interleave(groups, 1)))
    return torch.cat(attended).to(query.dtype)


@pytest.mark.parametrize("sliding_window", [None, 3])
def test_the_one_kernel_of_gpus_attends_as_the_sequences_do_alone(sliding_window, monkeypatch):
    monkeypatch.setattr(torch.nn.attention.varlen, "varlen_attn", reference_varlen_attn)
    parameters = inspect.signature(reference_varlen_attn).parameters
    assert parameters.keys() <= inspect.signature(varlen_attn).parameters.keys()
    generator = torch.Generator().manual_seed(0)
    lengths = ((3, 4, 2), (2,), (5, 1))
    tensors = [torch.randn(1, heads, 17, 8, generator=generator, requires_grad=True) for heads in (4, 2, 2)]
    one, each = (
        attend(*tensors, lengths, None, sliding_window) for attend in (attention._attend_varlen, attention._attend_each)
    )
    torch.testing.assert_close(one, each, rtol=1e-5, atol=1e-6)
    weights = torch.randn(one.shape, generator=generator)
    for mine, theirs in zip(
        torch.autograd.grad((one * weights).sum(), tensors),
        torch.autograd.grad((each * weights).sum(), tensors),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


def test_a_mixture_of_experts_is_not_trained_whole_in_mixed_precision_by_a_single_gpu(tmp_path):
    path = random_models.folder(tmp_path / "moe", "qwen3-moe")
    causal = load_causal_lm(ModelConfig(path))
    with pytest.raises(LearnerError, match="mixture of experts.*torchrun, or set model.lora_rank"):
        check_trained_experts(causal, path)
    check_trained_experts(causal.requires_grad_(False), path)  # as with LoRA, which keeps them in half precision
    dense = random_models.folder(tmp_path / "dense")
    check_trained_experts(load_causal_lm(ModelConfig(dense)), dense)
