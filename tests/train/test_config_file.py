"""The configuration explains itself: as a file with every key, in the help, and in its errors."""

import re
from dataclasses import fields

import pytest
from curate_command import curate

from curate.prompt import PromptFormat
from curate.recipes.toml_writer import format_toml_value
from train import config
from train.config import DataConfig, ModelConfig
from train.config.describe import describe_sections, format_template
from train.errors import ConfigError

SMALL = '[model]\npath = "m"\n[data]\ndataset = "d"\n'
REQUIRED = ["model.path=m", "data.dataset=d"]


@pytest.mark.parametrize("preset", [None, *config.list_presets()])
def test_a_printed_configuration_gives_the_same_run(preset, file):
    words = [] if preset is None else ["--preset", preset]
    printed = curate("config", "train", *words, check=True)
    head = "" if preset is None else f"preset = {preset!r}\n"
    assert config.read_config(file(printed.output), REQUIRED) == config.read_config(file(head + SMALL))


def test_the_keys_that_must_be_filled_in_are_comments(file):
    with pytest.raises(ConfigError, match=r"model\.path is missing"):
        config.read_config(file("\n".join(format_template())))
    assert '# path = ""  # required: a folder, or the name of a model on the Hub' in format_template()


def test_an_unknown_preset_is_explained():
    result = curate("config", "train", "--preset", "grpo")
    assert result.exit_code == 1
    assert "unknown preset 'grpo'; known are areal, areal-boba2" in result.stderr


def test_every_key_says_what_it_means():
    assert [
        f"{section.name}.{key.name}" for section in describe_sections() for key in section.keys if not key.meaning
    ] == []
    assert [section.name for section in describe_sections()] == [field.name for field in fields(config.Config)]


def test_the_help_of_train_lists_every_key_with_its_default():
    words = curate("train", "--help", terminal_width=200).output
    for section in describe_sections():
        part = words.partition(f"\n{section.heading}:\n")[2].partition("\n[")[0]
        for key in section.keys:
            shown = key.name if key.required else f"{key.name} = {format_toml_value(key.default)}"
            assert re.search(rf"^  {re.escape(shown)}(\s|$)", part, re.MULTILINE), shown


def test_the_prompt_of_a_run_is_kept_as_text(file, tmp_path):
    (tmp_path / "form.jinja").write_text("Solve: {{ statement }}")
    text = SMALL + f"[prompt]\nsystem = 'Think.'\ntemplate = '{tmp_path}/form.jinja'\n"
    text += "[prompt.template_arguments]\nenable_thinking = false\n"
    read = config.read_config(file(text))
    assert read.prompt == PromptFormat("Think.", "Solve: {{ statement }}", {"enable_thinking": False})
    assert config.from_table(config.as_table(read)) == read
    assert config.read_config(file(text), prompt={"system": ""}).prompt.system == ""


def test_options_of_vllm_stand_in_the_section_of_the_engine(file):
    text = SMALL + "[engine]\ntensor_parallel = 2\ngpus = [0, 1]\nenforce_eager = true\n"
    read = config.read_config(file(text), ["engine.block_size=32"])
    assert read.engine.options == {"enforce_eager": True, "block_size": 32}
    assert read.engine.tensor_parallel == 2
    assert config.read_config(file(SMALL), engine={"concurrency": 8}).engine.concurrency == 8
    assert config.read_config(file(SMALL)) == config.Config(ModelConfig("m"), DataConfig("d"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param("engine.dtype=half", "the engine option dtype is set by model.dtype", id="elsewhere"),
        pytest.param("engine.max_num_seqs=8", "is set by engine.concurrency", id="another name"),
        pytest.param("engine.worker_extension_cls=x", "is set by curate itself", id="reserved"),
        pytest.param("engine.hf_token=x", "Set the variable HF_TOKEN instead", id="secret"),
    ],
)
def test_mistakes_in_engine_options_are_explained(change, words, file):
    with pytest.raises(ConfigError) as error:
        config.read_config(file(SMALL), [change])
    assert words in str(error.value)


def test_options_of_vllm_are_refused_for_another_engine(file):
    with pytest.raises(ConfigError, match="are for vLLM, not for engine.kind"):
        config.read_config(file(SMALL), ["engine.kind=transformers", "engine.enforce_eager=true"])


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        pytest.param({"template": "{{ statment }}"}, "Did you mean statement?", id="template"),
        pytest.param({"sytem": "x"}, "unknown key prompt.sytem", id="key"),
    ],
)
def test_mistakes_in_prompts_are_explained(prompt, words, file):
    with pytest.raises(ConfigError) as error:
        config.read_config(file(SMALL), prompt=prompt)
    assert words in str(error.value)
