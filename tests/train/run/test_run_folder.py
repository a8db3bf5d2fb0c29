"""A run is continued only with the prompt that it began with."""

from contextlib import closing

import pytest

from curate.prompt import PromptFormat
from train.asynchronous.events import GroupDispatched, SegmentStarted
from train.asynchronous.journal import RunJournal
from train.config import Config, DataConfig, EngineConfig, ModelConfig
from train.errors import ConfigError
from train.run.folder import open_run


def config(**sections):
    return Config(ModelConfig("m"), DataConfig("d"), **sections)


def begin(folder):
    """Begin a run in the folder and end it after the first line of metrics."""
    with open_run(folder, config()):
        (folder / "metrics.jsonl").write_text('{"step": 0}\n')


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        pytest.param(PromptFormat("Be brief."), "prompt.system = '', not 'Be brief.'", id="system"),
        pytest.param(
            PromptFormat(template="{{ statement }}" * 99), "prompt.template = '', not '{{ statement", id="long"
        ),
        pytest.param(
            PromptFormat(template_arguments={"enable_thinking": False}),
            "prompt.template_arguments.enable_thinking = None, not False",
            id="argument",
        ),
    ],
)
def test_another_prompt_is_refused(prompt, words, tmp_path):
    begin(tmp_path / "run")
    with pytest.raises(ConfigError) as error, open_run(tmp_path / "run", config(prompt=prompt), resume=True):
        pass
    assert words in str(error.value)
    assert len(str(error.value)) < 600


def test_other_options_of_the_engine_are_taken(tmp_path):
    begin(tmp_path / "run")
    with open_run(tmp_path / "run", config(engine=EngineConfig(options={"enforce_eager": True})), resume=True):
        pass


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_that_was_refused_before_it_sampled_does_not_stand_in_the_way(resume, tmp_path):
    folder = tmp_path / "run"
    with open_run(folder, config()), closing(RunJournal.open(folder / "journal")) as journal:
        journal.append(SegmentStarted(0, 0, 0))
        (folder / "prompts.jsonl").write_text("{}\n")
    with open_run(folder, config(prompt=PromptFormat("Be brief.")), resume=resume):
        assert not (folder / "journal").exists()


def test_a_journal_with_questions_that_were_asked_is_a_run(tmp_path):
    folder = tmp_path / "run" / "journal"
    with open_run(tmp_path / "run", config()), closing(RunJournal.open(folder)) as journal:
        journal.append(GroupDispatched(0, 0, 0, 0, "worker", 2, 9, "a", b"", ""))
    with pytest.raises(ConfigError, match="holds a run"), open_run(tmp_path / "run", config()):
        pass
