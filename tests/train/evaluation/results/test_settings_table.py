"""A sentence says in which settings results differ, and there is none if they were measured alike."""

import pytest
from made_results import of_bits

from curate.prompt import PromptFormat
from train.evaluation.protocols.settings import resolve_settings
from train.evaluation.results.result import read_result
from train.evaluation.results.settings_table import build_settings_table, describe_differences

SAMPLING = {"k": 1, "temperature": 0.6, "top_p": 0.95, "max_tokens": 1024}
SUITE = {"name": "lcb", "given": "lcb", "location": "rows", "window": {"asked": ""}, "exercises_sha256": "a" * 64}
NO_PROTOCOL = {"table": {"name": None}, "overrides": {}}


@pytest.fixture
def difference(tmp_path):
    """Return the sentence for a usual result and another one, whose file has other values under these keys."""

    def difference(*bits, **changes):
        written = {
            "a": of_bits(tmp_path / "a.json", "1", "0", content={"suite": SUITE}),
            "b": of_bits(tmp_path / "b.json", *(bits or "10"), content={"suite": SUITE} | changes),
        }
        return describe_differences({name: read_result(path) for name, path in written.items()})

    return difference


def test_results_that_were_measured_alike_do_not_differ(difference):
    assert difference() == ""
    assert difference(seed=7, model={"name": "m", "base_url": "http://x"}) == ""
    assert difference(protocol=NO_PROTOCOL) == ""


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sampling": SAMPLING | {"temperature": 0.0}}, "temperature: 0.6 (a), 0.0 (b)"),
        ({"sampling": SAMPLING | {"top_p": 1.0}}, "top_p: 0.95 (a), 1.0 (b)"),
        ({"sampling": SAMPLING | {"max_tokens": 32768}}, "max_tokens: 1024 (a), 32768 (b)"),
        ({"sampling": SAMPLING | {"stop": ["###"]}}, "stop: none (a), ['###'] (b)"),
        ({"protocol": NO_PROTOCOL | {"overrides": {"extraction": "lcb"}}}, "extraction: curate (a), lcb (b)"),
        ({"protocol": NO_PROTOCOL | {"overrides": {"test_seconds": 6.0}}}, "test_seconds: none (a), 6.0 (b)"),
        ({"protocol": NO_PROTOCOL | {"overrides": {"form": "lcb"}}}, "form: curate (a), lcb (b)"),
        ({"prompt": {"system": "Think."}}, "system: none (a), Think. (b)"),
        ({"prompt": {"template_arguments": {"t": 1}}}, "template_arguments: none (a), {'t': 1} (b)"),
        ({"languages": ["cpp", "python"]}, "languages: ['python'] (a), ['cpp', 'python'] (b)"),
        ({"engine": {"max_model_len": 4096, "max_num_seqs": 8}}, "max_model_len: none (a), 4096 (b)"),
        ({"engine": {"dtype": "float16"}}, "dtype: none (a), float16 (b)"),
        ({"suite": SUITE | {"location": "rows?errata=leave-out"}}, "suite options: none (a), errata=leave-out (b)"),
        ({"suite": SUITE | {"tests": "examples"}}, "tests: none (a), examples (b)"),
    ],
)  # fmt: skip
def test_each_setting_that_differs_is_named_with_both_values(difference, changes, sentence):
    assert difference(**changes) == f"Settings differ: {sentence}."


def test_the_number_of_samples_is_a_setting(difference):
    assert difference("11", "01") == "Settings differ: k: 1 (a), 2 (b)."


def test_a_protocol_is_named_with_what_it_changes(difference):
    settings = resolve_settings("lcb", "lcb", {"k": 1}, PromptFormat())
    sentence = difference(protocol=settings.as_table())
    assert "protocol: none (a), lcb (b); protocol version: none (a), LiveCodeBench@28fef95 (b)" in sentence
    assert "form: curate (a), lcb (b)" in sentence
    assert "window" not in sentence


def test_other_statements_of_the_same_problems_are_named_unless_a_setting_explains_them(difference):
    other = SUITE | {"exercises_sha256": "b" * 64}
    assert difference(suite=other) == "Settings differ: exercises: aaaaaaaaaaaa (a), bbbbbbbbbbbb (b)."
    assert "exercises" in difference(suite=other, sampling=SAMPLING | {"temperature": 1.0})
    assert "exercises" not in difference(suite=other, prompt={"system": "Think."})


def test_many_results_are_named_by_their_number(tmp_path):
    files = {name: of_bits(tmp_path / f"{name}.json", "1") for name in "abcdef"}
    of_bits(files["f"], "1", content={"sampling": SAMPLING | {"temperature": 1.0}})
    results = {name: read_result(path) for name, path in files.items()}
    assert describe_differences(results) == "Settings differ: temperature: 0.6 (a and 4 more), 1.0 (f)."


def test_a_result_without_the_later_facts_has_a_table(tmp_path):
    result = read_result(
        of_bits(tmp_path / "a.json", "1", content={"sampling": {"temperature": 0.6}, "curate": "0.0.9"})
    )
    table = build_settings_table(result)
    assert (table["k"], table["top_p"], table["exercises"], table["curate"]) == (1, 0.95, None, "0.0.9")
