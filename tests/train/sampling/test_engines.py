"""Engines draw step by step, and take new weights in the midst of answers: real models, on the CPU."""

from itertools import pairwise

import pytest
import torch
from transformers import AutoModelForCausalLM

from train.errors import SamplerError
from train.sampling.protocol import Engine, SampledCompletion, SamplingParams

pytestmark = pytest.mark.filterwarnings("ignore")  # of vLLM, torch and transformers about each other

SAMPLING = SamplingParams(temperature=0.8, top_p=1.0, max_tokens=24, logprobs=True)


@pytest.fixture(scope="module")
def models(tiny_model):
    """Return three versions of the model, which differ much."""
    found = [AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32) for _ in range(3)]
    torch.manual_seed(0)
    with torch.no_grad():
        for model in found[1:]:
            for parameter in model.parameters():
                parameter += 0.04 * torch.randn_like(parameter)
    return found


def load(engine: Engine, models, version: int) -> None:
    engine.load([(name, tensor.detach().clone()) for name, tensor in models[version].named_parameters()], version)


def drawn(engine: Engine, prompts, models=(), *, loads=()) -> dict[str, SampledCompletion]:
    """Return answers; before steps in `loads`, the versions named there are loaded."""
    for number, prompt in enumerate(prompts):
        engine.add(str(number), prompt, number, SAMPLING)
    due = dict(loads)
    answers: dict[str, SampledCompletion] = {}
    for step in range(200):
        if step in due:
            load(engine, models, due[step])
        answers |= engine.step()
        if len(answers) == len(prompts):
            return answers
    raise AssertionError("the engine does not end")


def error_of(models, answer: SampledCompletion) -> float:
    """Return by how much log-probabilities differ at most from those of the model that drew each token."""
    ids = torch.tensor([*answer.prompt_ids, *answer.token_ids])
    first = len(answer.prompt_ids)
    with torch.no_grad():
        tables = [(model(ids[None]).logits[0, first - 1 : -1] / 0.8).log_softmax(-1) for model in models]
    return max(
        abs(float(tables[version][place, token]) - logprob)
        for place, (version, token, logprob) in enumerate(
            zip(answer.versions, answer.token_ids, answer.logprobs, strict=True)
        )
    )


def test_an_answer_that_is_interrupted_twice_knows_what_drew_each_token(engine, models, prompts):
    load(engine, models, 0)
    answers = drawn(engine, prompts, models, loads=[(5, 1), (10, 2)])
    longest = max(answers.values(), key=lambda answer: answer.n_tokens)
    assert set(longest.versions) == {0, 1, 2}
    for answer in answers.values():
        assert len(answer.versions) == len(answer.logprobs) == answer.n_tokens
        assert all(before <= after for before, after in pairwise(answer.versions))
        assert error_of(models, answer) < 1e-4


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["vllm"], indirect=True)
def test_a_cache_of_old_weights_would_be_noticed(engine, models, prompts, monkeypatch):
    load(engine, models, 0)
    forget, results = engine._llm.reset_prefix_cache, []

    def pretend(reset_running_requests):
        results.append(forget(reset_running_requests=False))
        return True

    monkeypatch.setattr(engine._llm, "reset_prefix_cache", pretend)
    answers = drawn(engine, prompts, models, loads=[(5, 1)])
    assert results == [False]
    assert max(error_of(models, answer) for answer in answers.values()) > 0.1


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["vllm"], indirect=True)
def test_a_cache_that_cannot_be_forgotten_is_an_error(engine, models, monkeypatch):
    monkeypatch.setattr(engine._llm, "reset_prefix_cache", lambda reset_running_requests: False)
    with pytest.raises(SamplerError, match="it did not reset the KV cache of the old weights"):
        load(engine, models, 0)


def test_equal_weights_leave_every_token_as_it_was(engine, models, prompts):
    load(engine, models, 0)
    plain = drawn(engine, prompts)
    updated = drawn(engine, prompts, [models[0]] * 3, loads=[(4, 1), (9, 2)])
    assert {key: answer.token_ids for key, answer in updated.items()} == {
        key: answer.token_ids for key, answer in plain.items()
    }
    assert {version for answer in updated.values() for version in answer.versions} == {0, 1, 2}


def test_what_is_dropped_never_finishes_and_the_others_do_not_notice(engine, models, prompts):
    load(engine, models, 0)
    plain = drawn(engine, prompts)
    for number, prompt in enumerate(prompts):
        engine.add(str(number), prompt, number, SAMPLING)
    answers = dict(engine.step())
    engine.abort(["0"])
    while len(answers) < 3:
        answers |= engine.step()
    assert {key: answer.token_ids for key, answer in answers.items()} == {
        key: plain[key].token_ids for key in ("1", "2", "3")
    }


def test_it_tells_the_log_probabilities_of_given_tokens_while_answers_run(engine, models, prompts):
    load(engine, models, 0)
    plain = drawn(engine, prompts)
    for number, prompt in enumerate(prompts):
        engine.add(str(number), prompt, number, SAMPLING)
    answers = dict(engine.step())
    load(engine, models, 1)
    for sequence, told in zip(prompts, engine.compute_logprobs(prompts), strict=True):
        with torch.no_grad():
            wanted = models[1](torch.tensor([sequence])).logits[0, :-1].log_softmax(-1)
        wanted = wanted.gather(1, torch.tensor(sequence[1:])[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(told), wanted, atol=1e-4, rtol=0)
    load(engine, models, 0)
    while len(answers) < len(prompts):
        answers |= engine.step()
    assert plain.keys() == answers.keys()
    assert engine.compute_logprobs([]) == []
