"""The numbers of each protocol, and what the user gives in their place."""

import pytest

from curate.errors import CurateError
from curate.prompt import PromptFormat
from train.evaluation.exercises import NAMES
from train.evaluation.protocols.forms import OWN
from train.evaluation.protocols.settings import (
    PROTOCOLS,
    EvaluationSettings,
    SuiteSettings,
    resolve_settings,
    restore_settings,
)
from train.sampling.protocol import SamplingParams

EVALPLUS_STOPS = ("\n```\n", "\nif __name__", "\ndef main(", "\nprint(", "<|endoftext|>", "</s>")


@pytest.mark.parametrize(
    ("protocol", "suite", "temperature", "top_p", "max_tokens", "k", "stop", "extraction"),
    [
        ("deepcoder", "lcb", 0.6, 0.95, 65536, 1, (), "rllm"),
        ("deepcoder", "codeforces", 0.6, 0.95, 65536, 8, (), "rllm"),
        ("deepcoder", "humaneval+", 0.6, 0.95, 65536, 1, (), "rllm"),
        ("deepcoder", "aime24", 0.6, 0.95, 32768, 16, (), "curate"),
        ("lcb", "lcb", 0.2, 0.95, 2000, 10, ("###",), "lcb"),
        ("evalplus", "humaneval+", 0.0, 0.95, 768, 1, EVALPLUS_STOPS, "evalplus"),
        ("evalplus", "mbpp+", 0.0, 0.95, 768, 1, EVALPLUS_STOPS, "evalplus"),
        ("lighteval-0.10", "aime24", 0.6, 0.95, 32768, 64, (), "curate"),
        ("lighteval-0.10", "math500", 0.6, 0.95, 32768, 4, (), "curate"),
        ("lighteval-0.10", "lcb", 0.6, 0.95, 32768, 16, (), "lcb"),
        ("lighteval-0.13", "aime24", 0.0, 1.0, 32768, 1, (), "curate"),
        ("lighteval-0.13", "math500", 0.0, 1.0, 32768, 1, (), "curate"),
        ("lighteval-0.13", "lcb", 0.6, 0.95, 32768, 16, (), "lcb"),
        ("evalchemy", "aime24", 0.7, 1.0, 32768, 10, (), "curate"),
        ("evalchemy", "aime25", 0.7, 1.0, 32768, 10, (), "curate"),
        ("evalchemy", "lcb", 0.7, 1.0, 32768, 3, (), "evalchemy"),
    ],
)
def test_the_numbers_of_a_protocol(protocol, suite, temperature, top_p, max_tokens, k, stop, extraction):
    settled = resolve_settings(protocol, suite, {}, PromptFormat())
    assert settled.sampling == SamplingParams(temperature, top_p, max_tokens, stop=stop)
    assert (settled.suite_settings.k, settled.suite_settings.extraction) == (k, extraction)
    assert settled.overrides == {}


def test_limits_and_windows_of_protocols():
    windows = {
        (protocol.name, suite): setting.window
        for protocol in PROTOCOLS.values()
        for suite, setting in protocol.settings.items()
        if setting.window
    }
    assert windows == {("deepcoder", "lcb"): "2024-08-01..2025-01-31"}
    seconds = {
        name: protocol.settings["lcb"].test_seconds for name, protocol in PROTOCOLS.items() if name != "evalplus"
    }
    assert seconds == dict.fromkeys(("deepcoder", "lcb", "lighteval-0.10", "lighteval-0.13", "evalchemy"), 6.0)


def test_stops_of_completions():
    ends = ("<|endoftext|>", "</s>", "\nif __name__", "\ndef main(", "\nprint(")
    humaneval = resolve_settings("evalplus", "humaneval+", {"mode": "complete"}, PromptFormat())
    begins = ("\ndef ", "\nclass ", "\nimport ", "\nfrom ", "\nassert ")
    assert humaneval.sampling.stop == (*begins, *ends)
    mbpp = resolve_settings("evalplus", "mbpp+", {"mode": "complete"}, PromptFormat())
    assert mbpp.sampling.stop == ('\n"""', "\nassert", *ends)
    assert (humaneval.suite_settings.mode, humaneval.suite_settings.extraction) == ("complete", "evalplus")
    for protocol in (None, "deepcoder"):  # a rule for fences finds nothing in what a base model continues
        other = resolve_settings(protocol, "humaneval+", {"mode": "complete"}, PromptFormat())
        assert other.suite_settings.extraction == "whole"


def test_without_a_protocol_everything_is_as_usual():
    settled = resolve_settings(None, "", {}, PromptFormat())
    assert (settled.sampling, settled.suite_settings.k, settled.suite_settings) == (
        SamplingParams(),
        8,
        SuiteSettings(),
    )
    assert (settled.as_table(), settled.format_summary_line()) == ({}, "")


def test_what_the_user_gives_is_recorded_beside_the_table():
    settled = resolve_settings(
        "deepcoder", "lcb", {"k": 8, "max_tokens": 100, "temperature": 0.6}, PromptFormat("Be brief.")
    )
    assert (settled.suite_settings.k, settled.sampling.max_tokens) == (8, 100)
    assert settled.overrides == {"max_tokens": 100, "k": 8, "system": "Be brief."}
    table = settled.as_table()["table"]
    assert (table["name"], table["source"], table["form"]) == (
        "deepcoder",
        "agentica-project/rllm@874daa4",
        "deepcoder",
    )
    assert (table["k"], table["max_tokens"], table["temperature"]) == (1, 65536, 0.6)
    assert settled.format_summary_line() == (
        "protocol deepcoder, form deepcoder; max_tokens 100 instead of 65536; k 8 instead of 1; system Be brief."
    )


def test_another_form_brings_its_stops_and_its_extraction():
    thinking = resolve_settings(
        "evalplus", "humaneval+", {"form": "evalplus-thinking", "max_tokens": 32768}, PromptFormat()
    )
    assert thinking.sampling.stop == ()
    assert thinking.overrides == {
        "form": "evalplus-thinking", "max_tokens": 32768, "stop": [], "extraction": "evalplus-thinking",
    }  # fmt: skip
    assert resolve_settings("lcb", "lcb", {"stop": ("",)}, PromptFormat()).sampling.stop == ()
    own = resolve_settings("lcb", "lcb", {"form": "curate", "window": "2024-08-01..2024-08-31"}, PromptFormat())
    assert own.suite_settings.form is OWN
    assert own.overrides == {"form": "curate", "window": "2024-08-01..2024-08-31"}


def test_a_form_without_a_protocol_is_recorded():
    table = resolve_settings(None, "lcb", {"form": "lcb-deepseek-r1"}, PromptFormat()).as_table()
    assert (table["table"]["name"], table["table"]["form"], table["overrides"]) == (None, "lcb-deepseek-r1", {})


@pytest.mark.parametrize(
    ("protocol", "suite", "wishes", "template"),
    [
        (None, "humaneval", {}, ""),
        ("lcb", "lcb", {}, ""),
        ("deepcoder", "lcb", {"form": "lcb", "extraction": "lcb", "stop": ("###",)}, ""),
        ("evalplus", "humaneval+", {"form": "evalplus-thinking"}, ""),
        ("evalplus", "humaneval+", {"mode": "complete"}, ""),
        ("evalplus", "humaneval+", {"mode": "complete"}, "# {{ statement }}"),
        (None, "lcb", {"mode": "complete"}, "# {{ statement }}"),
        (None, "lcb", {"prefill": "```python\n", "stop": ("\n```",)}, ""),
    ],
)
def test_what_a_result_records_gives_the_same_settings_again(protocol, suite, wishes, template):
    settled = resolve_settings(protocol, suite, wishes, PromptFormat(template=template))
    assert restore_settings(settled.as_table(), suite) == settled.suite_settings


@pytest.mark.parametrize(
    ("protocol", "suite", "wishes", "prompt", "said"),
    [
        ("lcb", "humaneval+", {}, {}, "the protocol lcb does not cover humaneval.; it is for lcb. Leave --protocol "
         "out for humaneval., or choose deepcoder or evalplus"),
        ("lcb", "", {}, {}, "needs a named suite: --suite NAME=PATH"),
        (None, "lcb", {"form": "evalplus"}, {}, "not for lcb. Choose --form lcb or lcb-deepseek-r1 or deepcoder or "
         "evalchemy-code or curate"),
        (None, "humaneval", {"mode": "complete"}, {"system": "Be brief."}, "--system is for chats"),
        (None, "humaneval", {"mode": "complete", "prefill": "x"}, {}, "--prefill is for chats"),
        (None, "humaneval", {"mode": "complete"}, {"template_arguments": {"a": 1}}, "--template-arg is for chats"),
        (None, "humaneval", {"mode": "complete", "form": "evalplus"}, {}, "--form is for chats"),
        (None, "lcb", {"mode": "complete"}, {}, "but not for lcb. Give the text that the model continues: --template"),
        (None, "lcb", {"form": "lcb"}, {"template": "{{ statement }}"}, "--form and --template both"),
        ("evalplus", "humaneval", {"prefill": ""}, {}, "give --form evalplus-thinking"),
    ],
)  # fmt: skip
def test_combinations_without_sense_are_explained(protocol, suite, wishes, prompt, said):
    with pytest.raises(CurateError, match=said):
        resolve_settings(protocol, suite, wishes, PromptFormat(**prompt))


def test_protocols_are_for_suites_that_there_are():
    named = {suite for protocol in PROTOCOLS.values() for suite in protocol.settings}
    assert named - {*NAMES, "codeforces"} == set()
    assert isinstance(resolve_settings("evalplus", "mbpp", {}, PromptFormat()), EvaluationSettings)
