"""The simple sampler draws from the distribution of its model, and draws the same answers each time."""

from collections import Counter

import pytest
import tiny_world
import torch
from tiny_world import prompts
from transformers import AutoModelForCausalLM

from train.errors import SamplerError
from train.sampling.protocol import SamplingParams
from train.sampling.transformers import TransformersSampler

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other

SAMPLING = SamplingParams(max_tokens=tiny_world.MAX_TOKENS, logprobs=True)


@pytest.fixture(scope="module")
def sampler(tiny_model):
    return TransformersSampler(str(tiny_model))


def test_every_prompt_gets_the_answer_that_was_taught(sampler):
    answers = dict(sampler.sample(prompts("sum", "product", "larger"), SAMPLING))
    assert sorted(answers) == list(range(12))
    for index, name in ((0, "sum"), (4, "product")):
        texts = Counter(answers[index + n].text for n in range(4))
        assert sum(texts[one] for one in tiny_world.PROBLEMS[name][1]) >= 3, texts
    assert {answers[index].finish_reason for index in (8, 9, 10, 11)} == {"length"}


def test_log_probabilities_are_those_of_the_model_at_its_temperature(sampler, tiny_model):
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    sampling = SamplingParams(temperature=0.7, top_p=1.0, max_tokens=12)
    for _, answer in sampler.sample(prompts("product", "sum", times=2), sampling):
        ids = torch.tensor([*answer.prompt_ids, *answer.token_ids])
        with torch.no_grad():
            logits = model(ids[None]).logits[0, len(answer.prompt_ids) - 1 : -1]
        wanted = (logits / 0.7).log_softmax(-1).gather(1, torch.tensor(answer.token_ids)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(answer.logprobs), wanted, atol=1e-5, rtol=0)


def test_a_seed_draws_the_same_answer_again(sampler):
    first, again = (dict(sampler.sample(prompts("product"), SAMPLING)) for _ in range(2))
    assert first == again


def test_it_samples_with_the_new_weights(sampler, tiny_model):
    known = {name: tensor.clone() for name, tensor in sampler._model.state_dict().items()}
    before = dict(sampler.sample(prompts("sum"), SAMPLING))
    sampler.load(((name, torch.zeros_like(tensor)) for name, tensor in known.items()), 3)
    ((_, answer),) = sampler.sample(prompts("sum", times=1), SamplingParams(max_tokens=2, temperature=1.0, top_p=1.0))
    assert set(answer.versions) == {3}
    assert answer.logprobs[0] == pytest.approx(-torch.tensor(float(len(sampler._tokenizer))).log().item(), abs=1e-4)
    sampler.load(known.items(), 0)
    assert dict(sampler.sample(prompts("sum"), SAMPLING)) == before


def test_prompts_as_token_ids_get_the_answers_of_the_same_chats(sampler):
    from_chats = dict(sampler.sample(prompts("sum", "larger", times=2), SAMPLING))
    asked = [(from_chats[index].prompt_ids, seed) for index, (_, seed) in enumerate(prompts("sum", "larger", times=2))]
    assert dict(sampler.sample(asked, SAMPLING)) == from_chats


def test_a_prompt_that_is_too_long_is_refused_and_the_others_go_on(sampler):
    long = [{"role": "user", "content": "word " * 2000}]
    answers = dict(sampler.sample([(long, 0), *prompts("sum", times=1)], SAMPLING))
    assert isinstance(answers[0], ValueError)
    assert answers[1].finish_reason == "stop"


def test_a_missing_model_is_explained(tmp_path):
    with pytest.raises(SamplerError, match="cannot load"):
        TransformersSampler(str(tmp_path / "none"))
