"""The sampler is tested with the real vLLM, in this process and on the CPU."""

import shutil
import threading
from collections import Counter, deque
from dataclasses import replace

import pytest
import tiny_world
from tiny_model import END
from tiny_world import prompts

from train.engine_options import EngineOptions
from train.errors import SamplerError
from train.sampling.open_engine import open_sampler
from train.sampling.protocol import SamplingParams
from train.weights.source import TensorFiles

pytestmark = pytest.mark.filterwarnings("ignore")  # of vLLM, torch and transformers about each other

SAMPLING = SamplingParams(max_tokens=tiny_world.MAX_TOKENS)


@pytest.fixture(scope="module")
def sampler(tiny_model, environment):
    sampler = open_sampler(str(tiny_model))
    yield sampler
    sampler.close()


def test_every_prompt_gets_the_answer_that_was_taught(sampler):
    answers = dict(sampler.sample(prompts("sum", "product", "difference"), SAMPLING))
    assert sorted(answers) == list(range(12))
    for index, name in ((0, "sum"), (4, "product"), (8, "difference")):
        texts = Counter(answers[index + n].text for n in range(4))
        assert sum(texts[taught_one] for taught_one in tiny_world.PROBLEMS[name][1]) >= 3, texts


def test_the_ids_are_those_that_the_model_read_and_wrote(sampler, tokenizer):
    prompt = prompts("sum", times=1)
    ((_, answer),) = sampler.sample(prompt, SAMPLING)
    assert answer.finish_reason == "stop"
    assert answer.n_tokens == len(answer.token_ids)
    assert tokenizer.decode(answer.token_ids) == answer.text + END
    wanted = tokenizer.apply_chat_template(prompt[0][0], add_generation_prompt=True, return_dict=False)
    assert list(answer.prompt_ids) == wanted


def test_log_probabilities_and_versions_come_with_the_tokens(sampler):
    ((_, answer),) = sampler.sample(prompts("product", times=1), SamplingParams(max_tokens=8, logprobs=True))
    assert len(answer.logprobs) == len(answer.versions) == answer.n_tokens
    assert all(logprob <= 0 for logprob in answer.logprobs)
    ((_, plain),) = sampler.sample(prompts("product", times=1), SamplingParams(max_tokens=8))
    assert plain.logprobs == ()
    assert plain.token_ids == answer.token_ids


def logprobs_of(model, answer, temperature):
    import torch

    ids = torch.tensor([*answer.prompt_ids, *answer.token_ids])
    with torch.no_grad():
        logits = model(ids[None]).logits[0, len(answer.prompt_ids) - 1 : -1]
    return (logits / temperature).log_softmax(-1).gather(1, torch.tensor(answer.token_ids)[:, None])[:, 0]


@pytest.mark.parametrize("by_file", [False, True], ids=["tensors", "file"])
def test_it_samples_with_the_new_weights(sampler, tiny_model, tmp_path, by_file):
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    known = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def load(weights, version):
        tensors = {name: tensor.detach().clone() for name, tensor in weights.items()}
        if by_file:
            save_file(tensors, tmp_path / f"{version}.safetensors")
            sampler.load(TensorFiles((tmp_path / f"{version}.safetensors",)), version)
        else:
            sampler.load(tensors.items(), version)

    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.03 * torch.randn_like(parameter)
    sampling = SamplingParams(temperature=0.7, top_p=1.0, max_tokens=12, logprobs=True)
    load(dict(model.named_parameters()), 7)  # without the output layer: it is the embedding
    try:
        ((_, answer),) = sampler.sample(prompts("product", times=1), sampling)
        assert set(answer.versions) == {7}
        torch.testing.assert_close(torch.tensor(answer.logprobs), logprobs_of(model, answer, 0.7), atol=1e-4, rtol=0)
    finally:
        load(known, 0)


@pytest.fixture
def core(sampler):
    """Return the engine's core, with the queue that asynchronous scheduling has on GPUs: a step is always in flight."""
    core = sampler._core
    core.batch_queue, core.batch_queue_size, core.step_fn = deque(maxlen=2), 2, core.step_with_batch_queue
    yield core
    core.batch_queue, core.batch_queue_size, core.step_fn = None, 1, core.step


@pytest.fixture
def models(tiny_model):
    """Return the model, and the same after an update."""
    import torch
    from transformers import AutoModelForCausalLM

    models = [AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32) for _ in range(2)]
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in models[1].parameters():
            parameter += 0.03 * torch.randn_like(parameter)
    return models


def weights(model):
    return [(name, weight.detach().clone()) for name, weight in model.named_parameters()]


def test_a_step_in_flight_belongs_to_the_weights_before_a_load(sampler, core, models):
    import torch

    sampler.load(weights(models[0]), 0)
    sampling = SamplingParams(temperature=0.7, top_p=1.0, max_tokens=20, logprobs=True)
    for key in ("a", "b"):
        sampler.add(key, tuple(range(5, 25)), ord(key), sampling)
    n_steps = 0
    while n_steps < 8 or not any(step.total_num_scheduled_tokens for _, step, _ in core.batch_queue):
        assert sampler.step() == []
        n_steps += 1
    sampler.load(weights(models[1]), 1)
    assert not core.batch_queue
    answers = []
    while len(answers) < 2:
        answers += [answer for _, answer in sampler.step()]
    sampler.load(weights(models[0]), 0)
    for answer in answers:
        assert set(answer.versions) == {0, 1}
        by_version = [logprobs_of(model, answer, 0.7) for model in models]
        expected = [by_version[version][place] for place, version in enumerate(answer.versions)]
        torch.testing.assert_close(torch.tensor(answer.logprobs), torch.stack(expected), atol=1e-4, rtol=0)


def test_an_engine_sleeps_and_wakes_with_nothing_in_flight(sampler, core, models, monkeypatch):
    """On a CPU the memory stays; the order of calls is what counts."""
    calls = []
    monkeypatch.setattr(sampler, "_sleeps", True)
    monkeypatch.setattr(sampler._llm, "sleep", lambda level: calls.append(("sleep", len(core.batch_queue))))
    monkeypatch.setattr(sampler._llm, "wake_up", lambda tags: calls.append((*tags, len(core.batch_queue))))
    before = dict(sampler.sample(prompts("sum", times=1), SAMPLING))
    assert core.batch_queue
    sampler.sleep()
    sampler.load(weights(models[0]), 0)
    assert calls == [("sleep", 0), ("weights", 0), ("kv_cache", 0)]
    assert not core.is_scheduler_paused()
    assert dict(sampler.sample(prompts("sum", times=1), SAMPLING)) == before


def test_an_answer_that_does_not_end_is_cut_off(sampler):
    answers = [answer for _, answer in sampler.sample(prompts("larger"), SAMPLING)]
    assert {answer.finish_reason for answer in answers} == {"length"}
    assert {answer.n_tokens for answer in answers} == {tiny_world.MAX_TOKENS}


def test_a_short_answer_does_not_wait_for_a_long_one(sampler):
    order = [index for index, _ in sampler.sample(prompts("larger", "smaller", times=1), SAMPLING)]
    assert order == [1, 0]


def test_a_seed_decides_a_sample_whatever_is_sampled_beside_it(sampler):
    asked = prompts("product", times=16)
    together = dict(sampler.sample(asked, SAMPLING))
    few = sampler.sample(list(reversed(asked[:5])), SAMPLING)
    assert {4 - index: answer for index, answer in few} == {index: together[index] for index in range(5)}
    assert len({answer.text for answer in together.values()}) > 1


def test_nothing_is_compiled_on_cpus_whatever_thread_draws(sampler):
    """Compiling would change how torch computes in all other threads as long as it lasts, such as the learner's."""
    import torch._dynamo

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    sampling = replace(SAMPLING, logprobs=True)
    thread = threading.Thread(target=lambda: list(sampler.sample(prompts("sum"), sampling)))
    thread.start()
    thread.join()
    assert not torch._dynamo.utils.counters["frames"]


def test_answers_to_a_short_prompt_share_what_is_cached_of_it(sampler):
    from vllm import SamplingParams

    asked = [{"prompt_token_ids": list(range(3, 53))}] * 2
    first, second = sampler._llm.generate(asked, SamplingParams(max_tokens=1, detokenize=False), use_tqdm=False)
    assert second.num_cached_tokens == 32


def test_prompts_as_token_ids_get_the_answers_of_the_same_chats(sampler):
    from_chats = dict(sampler.sample(prompts("sum", "larger", times=2), SAMPLING))
    asked = [(from_chats[index].prompt_ids, seed) for index, (_, seed) in enumerate(prompts("sum", "larger", times=2))]
    assert dict(sampler.sample(asked, SAMPLING)) == from_chats


def test_a_prefill_and_plain_text_are_continued_up_to_a_stop(sampler, tokenizer):
    (user,) = tiny_world.chat(tiny_world.statement("sum"))
    begun = "Here it is.\n```python\n"
    prefilled = [user, {"role": "assistant", "content": begun}]
    text = tokenizer.apply_chat_template([user], add_generation_prompt=True, tokenize=False) + begun
    sampling = replace(SAMPLING, temperature=0, stop=("\n```", "no such"), logprobs=True)
    answers = dict(sampler.sample([(prefilled, 0), (text, 0)], sampling))
    assert answers[0] == answers[1]
    assert (answers[0].text, answers[0].finish_reason) == ("print(sum(map(int, input().split())))", "stop")
    assert tokenizer.decode(answers[0].prompt_ids) == text
    assert answers[0].n_prompt_tokens == len(answers[0].prompt_ids)
    assert tokenizer.decode(answers[0].token_ids).startswith(answers[0].text + "\n```")
    assert answers[0].n_tokens == len(answers[0].token_ids) == len(answers[0].logprobs) == len(answers[0].versions)


def test_a_stop_ends_an_answer_and_its_neighbours_go_on(sampler):
    asked = prompts("sum", "smaller", "larger", times=1)
    answers = dict(sampler.sample(asked, replace(SAMPLING, stop=("```python", "Hmm. Hmm."))))
    assert [answers[n].text for n in range(3)] == ["Here it is.\n", "I do not know.", "Let me think. "]
    assert [answers[n].finish_reason for n in range(3)] == ["stop"] * 3


def test_a_prompt_that_is_too_long_is_refused_and_the_others_go_on(sampler):
    asked = [(tiny_world.chat("word " * 5000), 0), *prompts("sum", times=1)]
    answers = dict(sampler.sample(asked, SAMPLING))
    assert isinstance(answers[0], ValueError)
    assert "maximum context length" in str(answers[0])
    assert answers[1].finish_reason == "stop"


def test_prompts_are_read_only_as_far_as_the_model_keeps_up(sampler):
    read = []

    def endless():
        while True:
            read.append(1)
            yield prompts("smaller", times=1)[0]

    stream = sampler.sample(endless(), SAMPLING)
    for _ in range(3):
        next(stream)
    stream.close()
    assert len(read) < 3000
    assert len(list(sampler.sample(prompts("sum"), SAMPLING))) == 4  # nothing is left of those that were cut short


def test_a_folder_without_a_model_is_named():
    with pytest.raises(SamplerError, match=r"/nowhere/model is not the folder of a model"):
        open_sampler("/nowhere/model")


def test_a_model_that_cannot_be_loaded_says_why(environment, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "no such"}')
    with pytest.raises(SamplerError, match="vLLM cannot load"):
        open_sampler(str(tmp_path))


@pytest.mark.parametrize("wrong", [{"temperature": -1}, {"top_p": 0}, {"max_tokens": 0}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ValueError, match="temperature must be 0 to 2"):
        SamplingParams(**wrong)


@pytest.fixture(scope="module")
def thinking_model(tiny_model, tmp_path_factory):
    """Return the folder of the model with a chat template that knows enable_thinking."""
    from transformers import AutoTokenizer

    folder = shutil.copytree(tiny_model, tmp_path_factory.mktemp("thinking") / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template += "{% if enable_thinking is defined and not enable_thinking %}NO{% endif %}"
    tokenizer.save_pretrained(folder)
    return folder


def test_options_of_the_engine_and_arguments_of_the_chat_template_arrive(thinking_model, environment, tokenizer):
    options = EngineOptions.from_table({"max_model_len": 200, "dtype": "bfloat16", "concurrency": 2})
    sampler = open_sampler(str(thinking_model), None, options, {"enable_thinking": False})
    try:
        config = sampler._engine.vllm_config
        assert (config.model_config.max_model_len, config.scheduler_config.max_num_seqs) == (200, 2)
        assert str(config.model_config.dtype) == "torch.bfloat16"
        long = (tiny_world.chat("word " * 100), 0)
        answers = dict(sampler.sample([long, *prompts("sum", times=3)], SAMPLING))
        assert "200" in str(answers[0])
        assert all(tokenizer.decode(answers[n].prompt_ids).endswith("assistant\nNO") for n in (1, 2, 3))
    finally:
        sampler.close()


@pytest.mark.parametrize(
    ("options", "words"), [({"quantization": "no such"}, "quantization"), ({"enforce_eagr": True}, "'enforce_eagr'")]
)
def test_what_vllm_refuses_is_explained(options, words, tiny_model, environment):
    with pytest.raises(SamplerError, match=f"vLLM cannot load .*: .*{words}"):
        open_sampler(str(tiny_model), None, EngineOptions.from_table(options))


@pytest.mark.thorough
def test_closing_ends_what_another_thread_samples(tiny_model, environment):
    sampler = open_sampler(str(tiny_model))
    begun = threading.Event()
    ends = []

    def endless():
        while True:
            yield prompts("smaller", times=1)[0]

    def sample():
        try:
            for _ in sampler.sample(endless(), SAMPLING):
                begun.set()
        except SamplerError as error:
            ends.append(str(error))

    thread = threading.Thread(target=sample)
    thread.start()
    assert begun.wait(120)
    sampler.close()
    thread.join(60)
    assert ends == ["the sampler was closed while it was sampling"]


@pytest.fixture
def headlong(tiny_model, tmp_path):
    """Return a model whose hidden states are exact in bfloat16, so that only its logits can be rounded."""
    import torch
    from transformers import AutoModelForCausalLM

    shutil.copytree(tiny_model, tmp_path / "headlong")
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weight.zero_()  # the layers have no effect
        embedding = model.get_input_embeddings().weight
        embedding.copy_(embedding.sign())
        norm = model.model.norm.weight
        norm.copy_(torch.linspace(0.05, 0.2, len(norm)).bfloat16())
    model.save_pretrained(tmp_path / "headlong")
    return tmp_path / "headlong"


@pytest.mark.thorough
def test_a_head_in_float32_leaves_no_rounding_of_logits_between_learner_and_engine(headlong, environment):
    import torch

    from train.config import Config, DataConfig, ModelConfig, StageConfig
    from train.learning.policy import Policy, load_causal_lm
    from train.learning.sequences import TrainingSequence, pack_into_rows
    from train.sampling.open_engine import open_engine

    model = ModelConfig(str(headlong), dtype="bfloat16", head_dtype="float32")
    engine = open_engine(Config(model, DataConfig("unused"), stages=(StageConfig(max_tokens=40),)))
    try:
        asked = [([{"role": "user", "content": f"Say {number}."}], number) for number in range(12)]
        answers = dict(
            engine.sample(asked, SamplingParams(temperature=2.0, top_p=1.0, max_tokens=40, logprobs=True))
        ).values()
    finally:
        engine.close()
    sequences = [
        TrainingSequence(a.prompt_ids, a.token_ids, a.logprobs, (0.0,) * a.n_tokens, truncated=False, reward=0.0)
        for a in answers
    ]
    by_engine = torch.tensor([logprob for sequence in sequences for logprob in sequence.sampler_logprobs])
    (row,) = pack_into_rows(sequences, row_tokens=4096)
    causal = load_causal_lm(model)
    with torch.no_grad():
        exact, rounded = (Policy(causal, torch.bfloat16, 2.0, exact_logits=way)(row)[0] for way in (True, False))
    differences = [(by_learner - by_engine[row.token_index_R]).abs().mean().item() for by_learner in (exact, rounded)]
    assert differences[0] < 1e-3 < differences[1]
