"""A run is continued only with the prompt that it began with."""

import pytest

from curate.prompt import Prompt
from train.config import Config, Data, Engine, Model
from train.errors import ConfigError
from train.run.folder import open_run


def config(**sections):
    return Config(Model("m"), Data("d"), **sections)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        pytest.param(Prompt("Be brief."), "another prompt.system: '', not 'Be brief.'", id="system"),
        pytest.param(
            Prompt(template="{{ statement }}" * 99), "another prompt.template: '', not '{{ statement", id="long"
        ),
        pytest.param(
            Prompt(template_arguments={"enable_thinking": False}),
            "another prompt.template_arguments.enable_thinking: None, not False",
            id="argument",
        ),
    ],
)
def test_another_prompt_is_refused(prompt, words, tmp_path):
    with open_run(tmp_path / "run", config()):
        pass
    with pytest.raises(ConfigError) as error, open_run(tmp_path / "run", config(prompt=prompt), resume=True):
        pass
    assert words in str(error.value)
    assert len(str(error.value)) < 600


def test_other_options_of_the_engine_are_taken(tmp_path):
    with open_run(tmp_path / "run", config()):
        pass
    with open_run(tmp_path / "run", config(engine=Engine(options={"enforce_eager": True})), resume=True):
        pass
