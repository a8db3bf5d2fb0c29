"""Prompts come from datasets that curate built and from files of prompts and answers, also mixed."""

import json

import pytest

pytest.importorskip("transformers", reason="transformers is not installed")

from curate.prompt import PromptFormat
from train.config import DataConfig, MixedDataset
from train.errors import ConfigError
from train.rollouts.prompt_dataset import ProblemKinds, PromptDataset


@pytest.fixture
def questions(tmp_path, tokenizer):
    def make(data, prompt=None):
        return PromptDataset(data, prompt or PromptFormat(), tokenizer, seed=0, cache=tmp_path / "cache.jsonl")

    return make


@pytest.fixture
def sums(tmp_path):
    path = tmp_path / "sums.jsonl"
    rows = [{"prompt": f"What is {n} + {n}? Put it into \\boxed{{}}.", "answer": str(2 * n)} for n in range(5)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_the_rows_of_a_file_are_prompts_with_expected_answers(questions, sums):
    made = questions(DataConfig(sums))
    assert len(made) == 5
    assert made.kinds == ProblemKinds(answers=True)
    epochs = [{made.get_prompt(position).task.expected for position in range(first, first + 5)} for first in (0, 5)]
    assert epochs == [{"0", "2", "4", "6", "8"}] * 2
    question = next(
        made.get_prompt(position) for position in range(5) if made.get_prompt(position).task.expected == "8"
    )
    assert (question.id, question.source, question.task.tests) == ("sums/5", "sums", None)
    assert question.task.prompt == "What is 4 + 4? Put it into \\boxed{}."
    assert question.task.prompt in made.decode(question.prompt_ids)


def test_a_file_can_have_names_sources_and_whole_chats(questions, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 1?"}]
    rows = [{"prompt": chat, "answer": 2, "id": "s/1", "source": "school"}]
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    question = questions(DataConfig(str(tmp_path / "rows.parquet")), PromptFormat(system="Think.")).get_prompt(0)
    assert (question.id, question.source, question.task.expected) == ("s/1", "school", "2")


def test_the_system_prompt_of_the_run_comes_before_texts(questions, sums):
    made = questions(DataConfig(sums), PromptFormat(system="Think."))
    assert "Think." in made.decode(made.get_prompt(0).prompt_ids)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param('{"question": "1 + 1?"}', "row 1 has no prompt", id="no column"),
        pytest.param('{"prompt": 3}', "must be a text, or a list of messages", id="no text"),
        pytest.param('{"prompt": [{"role": "user"}]}', "must be a text, or a list of messages", id="no content"),
        pytest.param('{"prompt": [{"role": "robot", "content": "x"}]}', "must be a text, or", id="no role"),
        pytest.param('{"prompt": " "}', "must be a text, or", id="empty"),
        pytest.param('{"prompt": "1 + 1?", "answer": [2]}', "the answer of row 1 must be a text", id="answer"),
        pytest.param('{"prompt": "1 + 1?"}\n{', "bad.jsonl:2", id="no JSON"),
    ],
)
def test_rows_that_are_no_prompts_are_explained(questions, tmp_path, line, words):
    (tmp_path / "bad.jsonl").write_text(line + "\n")
    with pytest.raises(ConfigError) as error:
        questions(DataConfig(str(tmp_path / "bad.jsonl")))
    assert words in str(error.value)


def test_datasets_are_mixed_each_with_epochs_of_its_own(questions, sums, six_problems):
    data = DataConfig(str(six_problems), mixture=(MixedDataset(sums, 3.0),), include=("unverified",))
    made = questions(data)
    assert made.kinds == ProblemKinds(tests=True, answers=True)
    assert len(made) == 6 + 5
    found = [made.get_prompt(position) for position in range(128)]
    assert sum(question.source == "sums" for question in found) == 96
    for source, size in (("sums", 5), ("livecodebench", 6)):
        of_source = [question.id for question in found if question.source == source]
        for epoch in range(len(of_source) // size):
            assert len(set(of_source[epoch * size :][:size])) == size
    again = questions(data)
    assert again.digest == made.digest
    assert [again.get_prompt(position).id for position in (127, 3, 64)] == [found[place].id for place in (127, 3, 64)]
    assert questions(DataConfig(str(six_problems), include=("unverified",))).digest != made.digest
