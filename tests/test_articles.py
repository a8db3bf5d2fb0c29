"""The commands for the articles, in the README and on their page, can be typed, and the page names what exists."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import click
import pytest
from canned_server import answering
from curate_command import curate
from documents import ROOT, blocks, commands
from source_rows import SUM, livecodebench_row, numinamath_row, taco_row, words, write_jsonl

from curate.commands.main import list_command_modules, load_command, main
from curate.recipes.reader import read_recipe
from train.config import Config, from_table, list_presets
from train.config.read import read_preset
from train.evaluation.exercises import parse_suite
from train.evaluation.protocols.settings import PROTOCOLS

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other

README, ARTICLES = ROOT / "README.md", ROOT / "docs" / "from-the-articles.md"
STATUSES = ("reproduced", "simulated", "implemented", "differs", "left out")
SECTIONS = ("DeepCoder", "AReaL", "INTELLECT-2", "GRPO")
ONE_ANSWER = f"```python\n{SUM}\n```"


def in_text(page: Path) -> list[str]:
    """Return what a page shows as code between its words, without its blocks."""
    outside = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", outside)


def table_of_articles() -> list[str]:
    """Return the commands in the README's table of articles."""
    lines = [line for line in README.read_text().splitlines() if line.startswith("| [") and "docs/from-the-art" in line]
    assert [line.partition("]")[0] for line in lines if ".md#" in line] == [f"| [{name}" for name in SECTIONS]
    return [command for line in lines for command in re.findall(r"`([^`]+)`", line)]


def in_blocks(page: Path) -> list[str]:
    return [command for block in blocks(page) if block.language == "console" for command, _ in commands(block)]


def split(command: str) -> list[str]:
    return shlex.split(command.replace("\\\n", " "), comments=True)


TYPED = [
    command
    for command in dict.fromkeys([*table_of_articles(), *in_blocks(README), *in_blocks(ARTICLES)])
    if split(command)[0] == "curate"
]
MENTIONED = [
    text for page in (README, ARTICLES) for text in in_text(page) if text.startswith("curate ") and text not in TYPED
]


def command_of(typed: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command, and the words after its name: commands of groups have two names."""
    command: click.Command = main
    while isinstance(command, click.Group) and len(typed) > 1 and not typed[1].startswith("-"):
        found = command.get_command(click.Context(command), typed[1])
        assert found is not None, f"{typed[0]} has no command {typed[1]}"
        command, typed = found, typed[1:]
    return command, typed[1:]


@pytest.mark.parametrize("typed", TYPED)
def test_a_command_that_is_shown_has_its_arguments_and_only_options_that_exist(typed: str) -> None:
    command, rest = command_of(split(typed))
    command.make_context(command.name, rest, resilient_parsing=False)


@pytest.mark.parametrize("text", MENTIONED)
def test_a_command_that_is_mentioned_exists_with_its_options(text: str) -> None:
    command, rest = command_of(split(text))
    known = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in rest if word.startswith("--")} <= known


def test_options_that_are_mentioned_without_a_command_exist() -> None:
    parameters = [parameter for command in list_command_modules() for parameter in load_command(command).params]
    known = {name for parameter in parameters for name in parameter.opts}
    mentioned = {text.split()[0] for page in (README, ARTICLES) for text in in_text(page) if text.startswith("--")}
    assert mentioned <= known


def test_suites_that_are_shown_have_a_place_and_are_part_of_their_protocol() -> None:
    checked = 0
    for typed in map(split, TYPED):
        suites = [value for option, value in zip(typed, typed[1:], strict=False) if option == "--suite"]
        protocols = [value for option, value in zip(typed, typed[1:], strict=False) if option == "--protocol"]
        for suite in suites:
            name, _ = parse_suite(suite)
            assert all(name in PROTOCOLS[protocol].settings for protocol in protocols), typed
            checked += 1
    assert checked >= 8


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a small part of everything that the commands download: sources, a dataset, a model.

    In LiveCodeBench, one day is the last of DeepCoder's training data, the other the first of its evaluation.
    """
    from curate.pipeline import BuildOptions, build
    from sandbox import SandboxOptions

    folder = tmp_path_factory.mktemp("stand_ins")
    rows = write_jsonl(folder / "raw" / "taco.jsonl", [taco_row(words(n)) for n in range(3)])
    build([("taco", str(rows))], folder / "dataset", BuildOptions(mutants=0), sandbox=SandboxOptions(workers=2))
    write_jsonl(folder / "gsm8k.jsonl", [{"prompt": "What is 3 + 4?", "answer": "7"}])
    for number, name in enumerate(["test.jsonl", *(f"test{n}.jsonl" for n in range(2, 6))]):
        days = {f"train{number}": "2024-07-31", f"test{number}": "2024-08-01"}
        dated = [livecodebench_row(id, words(id), contest_date=f"{day}T00:00:00") for id, day in days.items()]
        write_jsonl(folder / "livecodebench" / name, dated)
    write_jsonl(folder / "codeforces.jsonl", [{"problem": words("a problem of Codeforces")}])
    (folder / "model").mkdir()
    model = {"model_type": "qwen2", "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2}
    model |= {"num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 640, "tie_word_embeddings": True}
    (folder / "model" / "config.json").write_text(json.dumps(model | {"architectures": ["Qwen2ForCausalLM"]}))
    (folder / "model" / "tokenizer_config.json").write_text("{}")
    return folder


def run(typed: list[str]) -> str:
    """Run a command, and return its output."""
    done = curate(*typed[1:])
    assert done.exit_code == 0, f"{shlex.join(typed)}\n{done.output}"
    return done.output


def configuration(preset: str) -> Config:
    """Return the configuration that a preset makes of any model and dataset."""
    table = read_preset(preset)
    for section, key in (("model", "path"), ("data", "dataset")):
        table.setdefault(section, {})[key] = "any"
    return from_table(table)


def with_values(typed: list[str], values: dict[str, str]) -> list[str]:
    """Return the command with other values of these options, all of which it must have."""
    assert values.keys() <= set(typed), typed
    return [values.get(before, word) for before, word in zip(["", *typed], typed, strict=False)]


@pytest.mark.parametrize("typed", [command for command in table_of_articles() if "build-dataset" in command])
def test_a_recipe_of_the_table_reads_and_filters_rows_of_its_sources(
    typed: str, stand_ins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = read_recipe(split(typed)[2])
    places = {name: ROOT / "examples" / "raw" / name for name in ("taco", "synthetic1")}
    places["livecodebench"] = stand_ins / "livecodebench"
    questions = write_jsonl(tmp_path / "questions.jsonl", [numinamath_row("What is the sum of $1$ and $3$?", "4")])
    places |= {"numinamath": questions, "deepscaler": questions}
    here = [word for source in recipe.sources for word in ("--source", f"{source.name}={places[source.name]}")]
    places |= {"lcb": stand_ins / "livecodebench", "codeforces": stand_ins / "codeforces.jsonl"}
    places |= dict.fromkeys(("aime24", "aime25", "math500"), stand_ins / "codeforces.jsonl")
    sets = [word for one in recipe.against for word in ("--against", f"{one.name}={places[one.name]}")]
    printed = run([*split(typed), "--dry-run", *here, *sets])
    kept = {name: int(n) for name, n in re.findall(r"^(\w+) .* (\d+) +0$", printed, re.MULTILINE)}
    assert kept.keys() == {source.name for source in recipe.sources}, printed
    assert all(kept.values()), printed
    assert list(tmp_path.iterdir()) == [questions]


@pytest.mark.parametrize("typed", [command for command in table_of_articles() if command.startswith("curate train")])
def test_a_training_run_of_the_table_is_planned_with_the_numbers_of_its_preset(
    typed: str, stand_ins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    preset = configuration(split(typed)[split(typed).index("--preset") + 1])
    data = "gsm8k.jsonl" if "gsm8k.jsonl" in typed else "dataset"
    changed = with_values(split(typed), {"--model": str(stand_ins / "model"), "--data": str(stand_ins / data)})
    printed = run([*changed, "--dry-run"])
    assert f"{preset.rollout.prompts} prompts x {preset.rollout.completions} completions = " in printed
    assert f"{preset.optimizer.minibatches * preset.optimizer.epochs} updates with each" in printed
    assert f"completions of at most {preset.stages[0].max_tokens:,} tokens" in printed
    assert "1 prompts" in printed if data == "gsm8k.jsonl" else "3 of 3 problems" in printed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("typed", [command for command in table_of_articles() if "curate evaluate" in command])
def test_an_evaluation_of_the_table_is_made_by_its_protocol(
    typed: str, stand_ins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with answering(ONE_ANSWER) as (url, asked):
        changed = with_values(split(typed), {"--model": "m", "--suite": f"lcb={stand_ins / 'livecodebench'}"})
        printed = run([*changed, "--base-url", url, "--workers", "2"])
    assert "5 problems x 1" in printed
    assert "protocol deepcoder, form deepcoder" in printed
    assert {request["max_tokens"] for _, request in asked} == {65536}


@pytest.mark.parametrize("typed", [command for command in table_of_articles() if "curate plan" in command])
def test_a_plan_of_the_table_compares_the_pipelines(typed: str, stand_ins: Path) -> None:
    values = {"--model": str(stand_ins / "model"), "--data": str(stand_ins / "dataset"), "--gpus": "2"}
    small = ["--set", "rollout.prompts=4", "--set", "rollout.completions=2"]
    printed = run([*with_values(split(typed), values), *small])
    assert "on 2 x H100 SXM; 4 x 2 completions" in printed
    assert re.search(r"^async, staleness 4 ", printed, re.MULTILINE)


TARGETS = {
    target
    for page in (README, ARTICLES)
    for command in (*in_text(page), *in_blocks(page))
    for target in re.findall(r"\bmake (\w+)", command)
}


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_a_target_that_is_shown_exists_and_so_do_the_scripts_that_it_runs(target: str) -> None:
    shown = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert all((ROOT / script).is_file() for script in re.findall(r"\bexamples/[\w/]+\.(?:sh|py)\b", shown))


def rows() -> Iterator[list[str]]:
    """Yield the cells of each row about an article."""
    for section in re.split(r"^## ", ARTICLES.read_text(), flags=re.MULTILINE)[1:]:
        for line in section.splitlines():
            if line.startswith("| ") and not line.startswith("| the article |"):
                yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_every_row_has_one_status() -> None:
    found = [re.findall(r"\*\*([^*]+)\*\*", status) for _, _, status in rows()]
    assert [status for status in found if len(status) != 1 or status[0] not in STATUSES] == []
    assert len(found) > 80


def test_every_section_begins_with_commands() -> None:
    text = ARTICLES.read_text()
    for name in SECTIONS:
        section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert "```console\n$ curate " in section.partition("| the article |")[0], name


def test_keys_and_presets_that_are_named_exist() -> None:
    sections = {field.name: field.type for field in fields(Config) if is_dataclass(field.type)}
    texts = [text for page in (README, ARTICLES) for text in in_text(page)]
    keys = {found[0] for text in texts if (found := re.match(r"([a-z]+)\.(\w+)", text)) and found[1] in sections}
    known = {f"{name}.{key.name}" for name, section in sections.items() for key in fields(section)}
    assert keys <= known
    assert len(keys) > 20
    shown = README.read_text() + ARTICLES.read_text()
    assert set(re.findall(r"(?:preset `|--preset )([\w-]+)", shown)) <= set(list_presets())


def test_names_of_functions_classes_and_metrics_are_those_of_the_code() -> None:
    files = [path for package in ("sandbox", "rewards", "curate", "train") for path in (ROOT / package).rglob("*.py")]
    code = {name for path in files for name in re.findall(r"\w+(?:/\w+)*", path.read_text())}
    names = {text for text in in_text(ARTICLES) if re.fullmatch(r"[A-Za-z][\w./-]*", text)} - set(list_presets())
    assert {name for name in names if name.rpartition(".")[2] not in code} == set()
