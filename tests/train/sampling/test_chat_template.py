"""Arguments of the chat template reach every sampler, and one that the template does not know is reported."""

import logging
from types import SimpleNamespace

import pytest

from curate.prompt import PromptFormat
from train.errors import SamplerError
from train.sampling.model_check import check_chat_template
from train.sampling.text import tokenize_prompt, warn_unknown_arguments

TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
)
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Add."}]


@pytest.fixture
def tokenizer(tiny_model):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def test_the_template_sees_the_arguments_and_the_system_prompt(tokenizer):
    text = tokenizer.decode(tokenize_prompt(tokenizer, CHAT, {"enable_thinking": False}))
    assert text == "system: Be brief.\nuser: Add.\n<think></think>"
    assert "<think>" not in tokenizer.decode(tokenize_prompt(tokenizer, CHAT, {}))


def test_a_chat_that_the_template_refuses_is_a_refused_prompt(tokenizer):
    tokenizer.chat_template = "{{ raise_exception('System role not supported') }}"
    with pytest.raises(ValueError, match="chat template refuses the messages: System role not supported"):
        tokenize_prompt(tokenizer, CHAT, {})


def test_a_base_model_takes_text_and_no_chats(tokenizer):
    tokenizer.chat_template = None
    assert tokenize_prompt(tokenizer, "Add.", {}) == tokenizer.encode("Add.")
    with pytest.raises(SamplerError, match="has no chat template: it is a base model"):
        tokenize_prompt(tokenizer, CHAT, {})


def test_a_base_model_can_be_asked_as_deepseek_r1_zero_was(tokenizer, caplog):
    tokenizer.chat_template, tokenizer.bos_token = None, None
    arguments = PromptFormat(format="base").chat_arguments
    warn_unknown_arguments(tokenizer, arguments, "m")
    assert caplog.messages == []

    def text(chat):
        return tokenizer.decode(tokenize_prompt(tokenizer, chat, arguments))

    assert text(CHAT) == "Be brief.\n\nUser: Add.\n\nAssistant:"
    assert text(CHAT[1:]).startswith("A conversation between User and Assistant. The user asks a question, and")
    assert text(CHAT[1:]).endswith("provides the answer.\n\nUser: Add.\n\nAssistant:")
    prefilled = [*CHAT, {"role": "assistant", "content": "```python\n"}]
    assert text(prefilled).endswith("User: Add.\n\nAssistant: ```python\n")


def test_a_prefill_is_left_open_and_a_text_is_taken_as_it_is(tokenizer):
    prefilled = [*CHAT, {"role": "assistant", "content": "```python\n"}]
    assert tokenizer.decode(tokenize_prompt(tokenizer, prefilled, {})).endswith("user: Add.\nassistant: ```python\n")
    assert tokenizer.decode(tokenize_prompt(tokenizer, "def one():\n", {})) == "def one():\n"


@pytest.mark.parametrize("template", [TEMPLATE, {"default": "", "thinking": TEMPLATE}], ids=["one", "several"])
def test_an_argument_that_the_template_does_not_know_is_reported(template, caplog):
    with caplog.at_level(logging.WARNING):
        warn_unknown_arguments(
            SimpleNamespace(chat_template=template), {"enable_thinking": False, "thinking": True}, "m"
        )
    assert caplog.messages == ["the chat template of m does not use thinking; the argument has no effect"]


def test_a_folder_without_a_tokenizer_is_not_called_a_base_model(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SamplerError, match="has no tokenizer: none of tokenizer.json, "):
        check_chat_template(str(tmp_path))
