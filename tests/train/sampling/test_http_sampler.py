"""The sampler is tested with vLLM's own OpenAI-compatible server, and with servers that fail."""

import itertools
import threading
import time

import pytest
import tiny_world
from hiccups import HICCUPS
from loopback_server import answering
from tiny_world import prompts

from train.engine_options import EngineOptions, RequestOptions
from train.errors import ConfigError, SamplerError
from train.sampling.http import HttpSampler
from train.sampling.open_engine import open_sampler
from train.sampling.protocol import SampledCompletion, SamplingParams

SAMPLING = SamplingParams(max_tokens=tiny_world.MAX_TOKENS)
ANSWER = {"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}], "usage": {"completion_tokens": 2}}


@pytest.fixture
def sampler(tiny_model, model_server):
    sampler = open_sampler(str(tiny_model), model_server)
    yield sampler
    sampler.close()


def plain(path, number, content):
    """Answer like a server other than vLLM, which states neither token ids nor lengths."""
    return (200, {"data": [{"id": "m"}]}) if path == "/v1/models" else (200, ANSWER)


def test_the_server_gives_the_answers_that_were_taught_with_their_ids(sampler):
    answers = dict(sampler.sample(prompts("sum", "larger", "smaller"), SAMPLING))
    assert sorted(answers) == list(range(12))
    assert answers[0].text == tiny_world.PROBLEMS["sum"][1][0]
    assert {answers[n].finish_reason for n in range(4, 8)} == {"length"}
    assert all(len(answer.token_ids) == answer.n_tokens > 0 for answer in answers.values())
    assert all(answer.prompt_ids for answer in answers.values())


def test_prompts_as_token_ids_get_the_answers_of_the_same_chats(sampler):
    from_chats = dict(sampler.sample(prompts("sum", "larger", times=2), SAMPLING))
    asked = [(from_chats[index].prompt_ids, seed) for index, (_, seed) in enumerate(prompts("sum", "larger", times=2))]
    assert dict(sampler.sample(asked, SAMPLING)) == from_chats
    ((_, refused),) = sampler.sample([((3,) * 5000, 0)], SAMPLING)
    assert "5000 tokens" in str(refused)


def test_only_a_server_of_vllm_takes_prompts_as_token_ids():
    with answering(plain) as (url, _), pytest.raises(SamplerError, match="only vLLM accepts prompts as token ids"):
        list(open_sampler("m", url).sample([((1, 2), 0)], SAMPLING))


def test_max_tokens_is_limited_to_what_the_prompt_leaves_of_the_context(sampler):
    for most in (1000, 1024, 16384):
        ((_, answer),) = sampler.sample(prompts("sum", times=1), SamplingParams(max_tokens=most))
        assert answer.finish_reason == "stop"


def test_a_prompt_that_is_too_long_is_refused_and_the_others_go_on(sampler):
    asked = [(tiny_world.chat("word " * 5000), 0), *prompts("sum", times=1)]
    answers = dict(sampler.sample(asked, SAMPLING))
    assert isinstance(answers[0], ValueError)
    assert "400" in str(answers[0])
    assert answers[1].finish_reason == "stop"


def test_a_model_that_the_server_does_not_have_is_named_with_those_it_has(tiny_model, model_server):
    with pytest.raises(SamplerError, match=rf"has no model other\. It has {tiny_model}"):
        open_sampler("other", model_server)


def test_without_a_server_the_error_says_how_to_start_one():
    with pytest.raises(SamplerError, match="no server responds at http://127.0.0.1:9/v1.* vllm serve m"):
        open_sampler("m", "http://127.0.0.1:9/v1")


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "", "ftp://host/v1", "http://"])
def test_an_invalid_address_is_refused(url):
    with pytest.raises(SamplerError, match="is not an address such as http://localhost:8000/v1"):
        open_sampler("m", url)


def test_a_server_that_is_not_openai_compatible_is_recognised():
    with (
        answering(lambda *_: (200, b"<html>Welcome")) as (url, _),
        pytest.raises(SamplerError, match=r"is not OpenAI-compatible: GET /models returned 200.*/v1"),
    ):
        open_sampler("m", url)
    with answering(lambda *_: (404, {"detail": "Not Found"})) as (url, _):
        sampler = open_sampler("m", url)
        with pytest.raises(SamplerError, match=r"returned 404, Not Found\. Does the address end in /v1"):
            list(sampler.sample(prompts("sum", times=1), SAMPLING))


@pytest.mark.parametrize(
    "models",
    [
        pytest.param((404, b"<html>"), id="no list"),
        pytest.param((405, {"error": "GET?"}), id="no GET"),
        pytest.param((200, [{"id": "m"}]), id="a bare list"),
    ],
)
def test_a_server_may_have_no_list_of_models_or_a_bare_one(models):
    with answering(lambda path, *_: models if path == "/v1/models" else (200, ANSWER)) as (url, _):
        assert only_answer(url, PREFILLED).text == "Yes."


def test_a_server_that_stumbles_when_it_is_asked_for_its_models_is_asked_again():
    first = {1: (503, b""), 2: (200, b"<html>")}
    with answering(lambda path, number, content: first.get(number) or plain(path, number, content)) as (url, _):
        open_sampler("m", url)


def test_the_key_comes_from_the_environment_and_a_wrong_one_is_reported(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with answering(plain) as (url, asked):
        list(open_sampler("m", url).sample(prompts("sum", times=1), SAMPLING))
        assert {headers["authorization"] for _, headers, _ in asked} == {"Bearer secret"}
    with (
        answering(lambda *_: (401, {"error": {"message": "no"}})) as (url, _),
        pytest.raises(SamplerError, match="Set OPENAI_API_KEY"),
    ):
        open_sampler("m", url)


def test_other_servers_get_no_options_that_only_vllm_knows():
    with answering(plain) as (url, asked):
        answers = list(open_sampler("m", url).sample(prompts("sum", times=1), SAMPLING))
    assert answers == [(0, SampledCompletion("Yes.", "stop", 2))]
    assert asked[1][2].keys() == {"model", "messages", "temperature", "top_p", "max_tokens", "seed"}


PREFILLED = [{"role": "user", "content": "Add."}, {"role": "assistant", "content": "```python\n"}]


def answering_with(**choice):
    """Answer every request with this choice."""
    return lambda path, number, content: (
        plain(path, number, content)
        if path == "/v1/models"
        else (200, {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 40}})
    )


def only_answer(url, prompt, sampling=SAMPLING):
    ((_, answer),) = open_sampler("m", url).sample([(prompt, 0)], sampling)
    return answer


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"content": "Yes.", "reasoning_content": "```python\n1\n```"}, id="reasoning_content"),
        pytest.param({"content": "Yes.", "reasoning": "```python\n1\n```"}, id="reasoning"),
        pytest.param({"content": "Yes.", "reasoning": "```python\n1\n```", "reasoning_content": None}, id="both"),
    ],
)
def test_reasoning_that_a_server_returns_apart_is_never_in_the_text(message):
    with answering(answering_with(message=message, finish_reason="stop")) as (url, _):
        answer = only_answer(url, PREFILLED)
    assert answer == SampledCompletion("Yes.", "stop", 40, reasoning="```python\n1\n```", n_prompt_tokens=7)


def test_an_answer_that_was_cut_off_while_it_reasoned_has_no_text():
    with answering(answering_with(message={"content": None, "reasoning": "Hm"}, finish_reason="length")) as (url, _):
        answer = only_answer(url, PREFILLED)
    assert (answer.text, answer.reasoning, answer.finish_reason) == ("", "Hm", "length")


def test_content_in_parts_is_joined_and_thinking_is_kept_apart():
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "H"}, {"type": "text", "text": "m"}]},
        {"type": "text", "text": "Ye"},
        {"type": "text", "text": "s."},
    ]
    with answering(answering_with(message={"content": content}, finish_reason="stop")) as (url, _):
        answer = only_answer(url, PREFILLED)
    assert (answer.text, answer.reasoning) == ("Yes.", "Hm")


@pytest.mark.parametrize(
    ("choice", "finish_reason"),
    [
        ({"finish_reason": None}, "stop"),
        ({}, "stop"),
        ({"finish_reason": "eos_token"}, "stop"),
        ({"finish_reason": "model_length"}, "length"),
    ],
)
def test_only_words_for_a_limit_mean_that_an_answer_was_cut_off(choice, finish_reason):
    with answering(answering_with(message={"content": "Yes."}, **choice)) as (url, _):
        assert only_answer(url, PREFILLED, SamplingParams(max_tokens=41)).finish_reason == finish_reason


def test_without_a_reason_an_answer_of_all_tokens_was_cut_off():
    with answering(answering_with(message={"content": "Yes."})) as (url, _):
        assert only_answer(url, PREFILLED, SamplingParams(max_tokens=40)).finish_reason == "length"


def test_half_of_a_character_that_JSON_allows_is_kept():
    with answering(answering_with(message={"content": "\ud83d"}, finish_reason="stop")) as (url, _):
        assert only_answer(url, PREFILLED).text == "\ud83d"


@pytest.mark.parametrize(
    "error",
    [
        pytest.param({"message": "no", "param": "max_tokens", "code": "unsupported_parameter"}, id="by its name"),
        pytest.param({"message": "Use 'max_completion_tokens' instead."}, id="by the new name"),
    ],
)
def test_a_server_that_refuses_max_tokens_gets_the_limit_under_its_newer_name(error):
    def reply(path, number, content):
        if content and "max_tokens" in content:
            return 400, {"error": error}
        return plain(path, number, content)

    with answering(reply) as (url, asked):
        sampler = open_sampler("m", url, EngineOptions(concurrency=1))
        assert len(list(sampler.sample(prompts("sum", times=3), SAMPLING))) == 3
    assert [content.get("max_completion_tokens") for *_, content in asked[1:]] == [None] + [SAMPLING.max_tokens] * 3


def test_further_fields_of_requests_replace_ours_and_null_leaves_one_out():
    fields = {"reasoning_effort": "high", "seed": None, "max_completion_tokens": 9}
    with answering(plain) as (url, asked):
        sampler = open_sampler("m", url, EngineOptions(request=RequestOptions(fields)))
        list(sampler.sample(prompts("sum", times=1), SAMPLING))
    sent = asked[1][2]
    assert sent.keys() == {
        "model", "messages", "temperature", "top_p", "reasoning_effort", "max_completion_tokens"
    }  # fmt: skip
    assert sent["max_completion_tokens"] == 9


@pytest.mark.parametrize(("name", "value"), [("stream", True), ("n", None), ("temperature", 1), ("messages", [])])
def test_fields_that_curate_or_other_options_set_are_refused(name, value):
    with pytest.raises(ConfigError, match=f"sets the request field {name}"):
        RequestOptions({name: value})


def test_a_model_in_this_process_takes_no_fields_of_requests():
    with pytest.raises(ConfigError, match=r"only a server takes --request top_k.*--base-url"):
        open_sampler("m", None, EngineOptions(request=RequestOptions({"top_k": 20})))


def test_other_servers_get_a_prefill_as_it_is_and_at_most_four_stops():
    stops = ("1", "2", "3", "4", "\n```")
    with answering(answering_with(message={"content": "x\n```\nThis"}, finish_reason="length")) as (url, asked):
        answer = only_answer(url, PREFILLED, SamplingParams(max_tokens=9, stop=stops))
    assert asked[-1][2]["messages"] == PREFILLED
    assert asked[-1][2]["stop"] == ["1", "2", "3", "4"]
    assert "continue_final_message" not in asked[-1][2]
    assert (answer.text, answer.finish_reason) == ("x", "stop")


def test_plain_text_is_continued_by_any_server():
    with answering(answering_with(text=" return 1", finish_reason="stop")) as (url, asked):
        answer = only_answer(url, "def one():\n   ", SamplingParams(max_tokens=9))
    assert asked[-1][0] == "/v1/completions"
    assert {name: asked[-1][2][name] for name in ("prompt", "max_tokens")} == {
        "prompt": "def one():\n   ",
        "max_tokens": 9,
    }
    assert "messages" not in asked[-1][2]
    assert answer.text == " return 1"


def test_the_server_continues_prefills_and_plain_text_as_the_model_in_this_process_does(sampler, tiny_model):
    from train.sampling.transformers import TransformersSampler

    sampling = SamplingParams(temperature=0, max_tokens=tiny_world.MAX_TOKENS, stop=("\n```",))
    (user,) = tiny_world.chat(tiny_world.statement("sum"))
    prefilled = [user, {"role": "assistant", "content": "Here it is.\n```python\n"}]
    text = f"<|im_start|>user\n{user['content']}<|im_end|>\n<|im_start|>assistant\nHere it is.\n```python\n"
    asked = [(prefilled, 0), (text, 0), (text, 1)]
    answers = dict(sampler.sample(asked, sampling))
    here = dict(TransformersSampler(str(tiny_model)).sample(asked, sampling))
    assert {answer.text for answer in answers.values()} == {"print(sum(map(int, input().split())))"}
    for index in range(3):
        assert (answers[index].text, answers[index].token_ids, answers[index].prompt_ids) == (
            here[index].text,
            here[index].token_ids,
            here[index].prompt_ids,
        )
        assert answers[index].n_prompt_tokens == len(here[index].prompt_ids) == here[index].n_prompt_tokens
        assert answers[index].finish_reason == here[index].finish_reason == "stop"


def test_no_more_requests_are_open_at_once_than_the_engine_option_says():
    lock, together = threading.Lock(), threading.Barrier(3)
    open_now, most = 0, 0

    def counting(path, number, content):
        nonlocal open_now, most
        if path == "/v1/models":
            return plain(path, number, content)
        with lock:
            open_now += 1
            most = max(most, open_now)
        together.wait(60)  # nobody is answered before three ask
        with lock:
            open_now -= 1
        return plain(path, number, content)

    with answering(counting) as (url, _):
        sampler = open_sampler("m", url, EngineOptions.from_table({"concurrency": 3}))
        assert len(list(sampler.sample(prompts("sum", times=12), SAMPLING))) == 12
    assert most == 3


def test_arguments_of_the_chat_template_go_to_the_server():
    with answering(plain) as (url, asked):
        list(open_sampler("m", url, template_arguments={"enable_thinking": False}).sample(prompts("sum"), SAMPLING))
    assert [content["chat_template_kwargs"] for _, _, content in asked[1:]] == [{"enable_thinking": False}] * 4


def test_a_request_is_repeated_after_every_kind_of_hiccup():
    names, met = list(HICCUPS), []

    def stumbling(path, number, content):
        if content is None or content["seed"] in met:
            return plain(path, number, content)
        met.append(content["seed"])
        return HICCUPS[names[content["seed"]]]

    with answering(stumbling) as (url, asked):
        sampler = HttpSampler("m", url, options=RequestOptions(max_seconds=1))
        answers = dict(sampler.sample(prompts("sum", times=len(names)), SAMPLING))
    assert {names[index]: answer.text for index, answer in answers.items()} == dict.fromkeys(names, "Yes.")
    assert len(asked) == 1 + 2 * len(names)


def test_a_server_is_left_alone_for_as_long_as_it_says():
    began = []

    def limiting(handler):
        handler.send_response(429)
        handler.send_header("retry-after", "1.5")
        handler.end_headers()

    def reply(path, number, content):
        if content is None:
            return plain(path, number, content)
        began.append(time.monotonic())
        return limiting if began[-1] - began[0] < 1.4 else (200, ANSWER)

    with answering(reply) as (url, _):
        assert only_answer(url, PREFILLED).text == "Yes."
    assert len(began) == 2


def test_a_server_that_stops_is_reported_with_what_to_do():
    def dying(path, number, content):
        return plain(path, number, content) if number < 4 else None

    with answering(dying) as (url, _):
        stream = HttpSampler("m", url, retry_seconds=1).sample(prompts("sum", times=8), SAMPLING)
        got = [next(stream), next(stream)]
        with pytest.raises(SamplerError, match=r"has failed for 1 s.* attempts with: .* Run the same command again"):
            list(stream)
    assert len(got) == 2


def test_a_rate_limit_is_no_failure_while_the_server_answers_others():
    began = []

    def limiting(path, number, content):
        if content is None:
            return plain(path, number, content)
        if content["seed"] == 0:
            began.append(time.monotonic())
            return (200, ANSWER) if began[-1] - began[0] > 3 else (429, {"error": {"message": "slower"}})
        threading.Event().wait(0.1)
        return 200, ANSWER

    with answering(limiting) as (url, _):
        sampler = HttpSampler("m", url, concurrency=2, retry_seconds=2)
        seeds = ((tiny_world.chat(tiny_world.statement("sum")), seed) for seed in itertools.count())
        assert next(answer.text for index, answer in sampler.sample(seeds, SAMPLING) if index == 0) == "Yes."
        sampler.close()
    assert len(began) > 2


def test_an_answer_of_another_form_is_an_error_at_once():
    odd = answering_with(message={"content": 5}, finish_reason="stop")
    with answering(odd) as (url, asked), pytest.raises(SamplerError, match="cannot decode the response of.*content"):
        only_answer(url, PREFILLED)
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("status", "advice"),
    [(401, "Set OPENAI_API_KEY"), (402, ""), (403, "Set OPENAI_API_KEY"), (404, "have the model"), (501, "")],
)
def test_what_cannot_get_better_ends_at_once_with_the_words_of_the_server(status, advice):
    def forbidding(path, number, content):
        return plain(path, number, content) if path == "/v1/models" else (status, {"error": {"message": "no money"}})

    with answering(forbidding) as (url, asked), pytest.raises(SamplerError, match=f"{status}, no money.*{advice}"):
        list(HttpSampler("m", url, concurrency=1).sample(prompts("sum", times=1), SAMPLING))
    assert len(asked) == 2


@pytest.mark.parametrize("reply", [(400, {"message": "too long"}), (413, b"too long"), (422, {"detail": "too long"})])
def test_a_prompt_that_the_server_refuses_is_not_asked_again(reply):
    with answering(lambda *asked: plain(*asked) if asked[2] is None else reply) as (url, asked):
        refusal = only_answer(url, PREFILLED)
    assert isinstance(refusal, ValueError)
    assert str(refusal) == f"{reply[0]}, too long"
    assert len(asked) == 2


def test_closing_ends_what_another_thread_waits_for():
    silent = threading.Event()
    begun = threading.Event()

    def slow(path, number, content):
        if path == "/v1/models":
            return plain(path, number, content)
        begun.set()
        silent.wait(120)
        return None

    with answering(slow) as (url, _):
        sampler = HttpSampler("m", url)
        ends = []

        def sample():
            try:
                list(sampler.sample(prompts("sum"), SAMPLING))
            except SamplerError as error:
                ends.append(str(error))

        thread = threading.Thread(target=sample)
        thread.start()
        assert begun.wait(60)
        sampler.close()
        thread.join(60)
        silent.set()
    assert ends == ["the sampler was closed while it was sampling"]
