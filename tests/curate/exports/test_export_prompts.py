"""An export has the prompts that its options ask for, and records what rows cannot hold."""

import json

import pytest
from curate_command import curate
from exported import problems, write
from source_rows import read_parquet

OPTIONS = ["--system", "Be brief.", "--template-arg", "enable_thinking=false", "--template"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prompts")
    write(folder / "built", problems()[-2:-1])
    (folder / "form.jinja").write_text("Solve: {{ statement }}")
    for to in ("jsonl", "trl", "verifiers", "verl"):
        words = ["export", str(folder / "built"), "--to", to, "--out", str(folder / to), *OPTIONS]
        curate(*words, folder / "form.jinja", check=True)
    return folder


@pytest.mark.parametrize("to", ["trl", "verl"])
def test_conversations_begin_with_the_system_prompt(to, folder):
    (row,) = read_parquet(folder / to / "train.parquet")
    system, question = row["prompt"]
    assert system == {"role": "system", "content": "Be brief."}
    assert question == {"role": "user", "content": "Solve: Statement of sum."}


def test_texts_have_the_system_prompt_beside_them(folder):
    (path,) = folder.glob("verifiers/*/problems.parquet")
    (row,) = read_parquet(path)
    record = json.loads((folder / "jsonl" / "problems.jsonl").read_text())
    for columns in (row, record):
        assert (columns["system_prompt"], columns["prompt"]) == ("Be brief.", "Solve: Statement of sum.")


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("trl", "GRPOConfig(chat_template_kwargs={'enable_thinking': False})"),
        ("verl", "+data.apply_chat_template_kwargs.enable_thinking=false"),
        ("verifiers", "`chat_template_kwargs`"),
        ("jsonl", "with enable_thinking = false"),
    ],
)
def test_arguments_of_the_chat_template_are_recorded_and_explained(to, words, folder):
    assert words in (folder / to / "README.md").read_text()
    recorded = json.loads((folder / to / "manifest.json").read_text())["export"]["prompt"]
    assert recorded == {
        "system": "Be brief.",
        "template": "Solve: {{ statement }}",
        "template_arguments": {"enable_thinking": False},
    }


def test_verifiers_takes_the_system_prompt(folder, monkeypatch):
    vf = pytest.importorskip("verifiers.v1", reason="verifiers is not installed")
    monkeypatch.syspath_prepend(folder / "verifiers")
    environment = vf.load_environment(vf.resolve_env_config({"taskset": {"id": "curate-verifiers"}}))
    (task,) = environment.taskset
    assert task.data.system_prompt == "Be brief."
