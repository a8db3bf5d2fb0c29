"""Engines draw verifiable answers with counted noise, and commit to the hidden states behind the tokens."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from train.errors import SamplerError
from train.sampling.commitment import compute_commitment_distances, decode_commitments
from train.sampling.protocol import Engine, SampledCompletion, SamplingParams
from train.sampling.seeded_sampling import get_bfloat16_bits, sample_tokens
from train.sampling.transformers import TransformersSampler

pytestmark = pytest.mark.filterwarnings("ignore")  # of vLLM, torch and transformers about each other

SAMPLING = SamplingParams(temperature=1.3, top_p=1.0, max_tokens=80, logprobs=True, verifiable=True)


def drawn(engine: Engine, prompts, sampling: SamplingParams = SAMPLING, *, prefix: str = "") -> list[SampledCompletion]:
    for number, prompt in enumerate(prompts):
        engine.add(f"{prefix}{number}", prompt, number, sampling)
    answers: dict[str, SampledCompletion] = {}
    while len(answers) < len(prompts):
        answers |= engine.step()
    return [answers[f"{prefix}{number}"] for number in range(len(prompts))]


@pytest.fixture(scope="module", params=["vllm", "transformers"])
def engine(request, tiny_model, environment):
    if request.param == "transformers":
        yield TransformersSampler(str(tiny_model))
        return
    from train.sampling.vllm import VllmSampler

    environment.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")  # which the sampler sets, too: nothing of it stays behind
    opened = VllmSampler(str(tiny_model), verifiable=True)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def model(tiny_model):
    return AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)


def check(model, answer: SampledCompletion, seed: int):
    """A prefill of the finished answer gives its tokens, commitments and log-probabilities again."""
    ids = torch.tensor([[*answer.prompt_ids, *answer.token_ids]])
    first, n_tokens = len(answer.prompt_ids) - 1, answer.n_tokens
    with torch.no_grad():
        out = model(ids, output_hidden_states=True)
    tokens, logprobs, _ = sample_tokens(out.logits[0, first:-1], 1.3, [seed] * n_tokens, range(n_tokens))
    assert tuple(tokens.tolist()) == answer.token_ids
    assert torch.allclose(logprobs, torch.tensor(answer.logprobs), atol=1e-4)
    hidden = get_bfloat16_bits(out.hidden_states[-1][0, first:-1])
    assert all(
        one.exponent_mismatches <= 3
        for one in compute_commitment_distances(decode_commitments(answer.commitments, n_tokens), hidden)
    )


def test_a_prefill_gives_everything_again(engine, model, prompts):
    answers = drawn(engine, prompts * 3)
    assert sum(answer.n_tokens for answer in answers) > 150
    for seed, answer in enumerate(answers):
        check(model, answer, seed)


def test_an_answer_is_the_same_whatever_is_drawn_beside_it(engine, prompts):
    together = drawn(engine, prompts)
    for seed, (prompt, other) in enumerate(zip(prompts, together, strict=True)):
        engine.add("alone", prompt, seed, SAMPLING)
        engine.add("other", prompt, 99, SamplingParams(temperature=1.0, top_p=0.9, max_tokens=5))
        answers: dict[str, SampledCompletion] = {}
        while len(answers) < 2:
            answers |= engine.step()
        assert answers["alone"].token_ids == other.token_ids
        assert answers["other"].commitments == b""


def test_an_answer_that_was_dropped_leaves_nothing_behind(engine, prompts):
    plain = drawn(engine, prompts[:1])
    engine.add("0", prompts[1], 7, SAMPLING)
    engine.step()
    engine.abort(["0"])
    assert drawn(engine, prompts[:1]) == plain


def test_a_lease_without_temperature_is_verifiable_too(engine, prompts):
    greedy = SamplingParams(temperature=0.0, top_p=1.0, max_tokens=40, logprobs=True)
    checked = SamplingParams(temperature=0.0, top_p=1.0, max_tokens=40, logprobs=True, verifiable=True)
    for plain, other in zip(drawn(engine, prompts, greedy), drawn(engine, prompts, checked), strict=True):
        assert other.token_ids == plain.token_ids
        assert len(decode_commitments(other.commitments, other.n_tokens)) == -(-other.n_tokens // 32)


def test_answers_that_are_interrupted_are_committed_to_in_full(engine, model, prompts):
    plain = drawn(engine, prompts)
    for number, prompt in enumerate(prompts):
        engine.add(str(number), prompt, number, SAMPLING)
    answers = dict(engine.step())
    for step in range(1, 60):
        if step % 7 == 0:
            weights = [(name, tensor.detach().clone()) for name, tensor in model.named_parameters()]
            engine.load(weights, step)
            engine.compute_logprobs(prompts)  # it uses the output layer between two steps
        answers |= engine.step()
        if len(answers) == len(prompts):
            break
    for number, before in enumerate(plain):
        assert answers[str(number)].token_ids == before.token_ids
        check(model, answers[str(number)], number)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["vllm"], indirect=True)
def test_an_engine_that_was_not_started_for_it_says_so(engine, prompts, monkeypatch):
    monkeypatch.setattr(engine, "_is_verifiable", False)
    with pytest.raises(SamplerError, match="verifiable=True"):
        engine.add("0", prompts[0], 0, SAMPLING)
