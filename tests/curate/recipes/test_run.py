import os
import shutil
import sys
from pathlib import Path

import forked
import pytest
from curate_command import curate
from solve_rates import write_solve_rates
from source_rows import (
    livecodebench_row,
    numinamath_row,
    read_parquet,
    synthetic1_row,
    taco_row,
    words,
    write_jsonl,
    write_parquet,
)

from curate.dataset.output_folder import read_manifest
from curate.decontamination.clean_copy import write_clean_copy
from curate.errors import CurateError
from curate.operations.row_filter import write_filtered
from curate.operations.splitting import split
from curate.pipeline import BuildOptions, build
from curate.recipe import SplitConfig, from_table
from curate.recipes.reader import read_recipe
from curate.recipes.runner import run
from sandbox import SandboxOptions

ROOT = Path(__file__).parents[3]
RECIPE = """
[[sources]]
name = "livecodebench"
location = "raw"
to = "2024-12-31"

[[against]]
name = "humaneval"
location = "eval.jsonl"

[difficulty]
models = ["m"]
band = "0.125:0.9"

[filter]
where = ["n_tests >= 6"]

[split]
validation = 3

[[exports]]
to = "jsonl"
include = ["unverified"]
"""
TESTS = [(f"{n}\n", f"{n}\n") for n in range(12)]


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a recipe, 12 rows of LiveCodeBench, 1 of which is too new, and an evaluation set."""
    rows = [livecodebench_row(str(n), words(n), TESTS[: 5 + n % 3], question_title=f"Title {n}") for n in range(12)]
    rows[11]["contest_date"] = "2025-03-01T00:00:00"
    write_jsonl(tmp_path / "raw" / "test.jsonl", rows)
    write_jsonl(tmp_path / "eval.jsonl", [{"task_id": "E", "prompt": words(3)}])
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return tmp_path


def sampled(dataset, section, sandbox):
    """Record solve rates, as the models would give them."""
    for model in section.models:
        write_solve_rates(dataset, model, {id: min(int(id.rpartition("/")[2]), 8) for id in ids(dataset)})


def steps(folder, sample_models=sampled, **options):
    recipe = read_recipe(str(folder / "recipe.toml"))
    return [
        (step.name, str(step.folder.relative_to(folder / "out")))
        for step in run(recipe, folder / "out", sandbox=SandboxOptions(), sample_models=sample_models, **options)
    ]


def ids(dataset):
    return [row["id"] for row in read_parquet(dataset / "data")]


def numbers(dataset):
    return [int(id.rpartition("/")[2]) for id in ids(dataset)]


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and ".work" not in path.parts}


def test_one_file_goes_from_raw_rows_to_exports(folder):
    assert steps(folder) == [
        ("build", "dataset"),
        ("difficulty", "dataset"),
        ("band", "band"),
        ("filter", "filtered"),
        ("split, train", "parts/train"),
        ("split, validation", "parts/validation"),
        ("export to jsonl", "exports/jsonl/train"),
        ("export to jsonl", "exports/jsonl/validation"),
    ]
    out = folder / "out"
    assert sorted(numbers(out / "dataset")) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]
    assert sorted(numbers(out / "band")) == [1, 2, 4, 5, 6, 7]
    assert sorted(numbers(out / "filtered")) == [1, 2, 4, 5, 7]
    parts = [numbers(out / "parts" / name) for name in ("train", "validation")]
    assert sorted(sum(parts, [])) == [1, 2, 4, 5, 7]
    assert [len(part) for part in parts] == [2, 3]
    exported = (out / "exports" / "jsonl" / "validation").glob("*.jsonl")
    assert any(len(path.read_text().splitlines()) == 3 for path in exported)


def test_the_manifest_of_each_step_has_the_recipe_up_to_it(folder):
    steps(folder)
    out = folder / "out"
    sections = {name: list(read_manifest(out / name).recipe) for name in ("dataset", "band", "filtered", "parts/train")}
    assert sections == {
        "dataset": ["sources", "build", "against"],
        "band": ["sources", "build", "against", "difficulty"],
        "filtered": ["sources", "build", "against", "difficulty", "filter"],
        "parts/train": ["sources", "build", "against", "difficulty", "filter", "split"],
    }
    again = read_recipe(str(out / "parts" / "train" / "manifest.json"))
    for step in run(again, folder / "again", sandbox=SandboxOptions(), sample_models=sampled):
        before = out / step.folder.relative_to(folder / "again")
        assert read_manifest(step.folder).content_hash == read_manifest(before).content_hash


def test_a_finished_recipe_is_left_as_it_is_and_a_change_makes_only_what_follows(folder):
    out = folder / "out"
    steps(folder)
    before = times(out)
    steps(folder, sample_models=lambda *arguments: None)
    assert times(out) == before
    (folder / "recipe.toml").write_text(RECIPE.replace("n_tests >= 6", "n_tests >= 7"))
    with pytest.raises(CurateError, match="filtered holds a dataset made from another plan.*add --overwrite"):
        steps(folder, sample_models=lambda *arguments: None)
    assert times(out) == before
    (folder / "recipe.toml").write_text(RECIPE.replace("n_tests >= 6", "n_tests <= 6"))
    steps(folder, sample_models=lambda *arguments: None, overwrite=True)
    changed = {path.relative_to(out).parts[0] for path, time in times(out).items() if before.get(path) != time}
    assert changed == {"filtered", "parts", "exports"}
    assert sorted(numbers(out / "filtered")) == [1, 4, 6, 7]


def test_a_recipe_that_was_stopped_goes_on_with_the_step_that_is_missing(folder):
    class Stop(Exception):
        pass

    def stopping(*arguments):
        raise Stop

    with pytest.raises(Stop):
        steps(folder, sample_models=stopping)
    built = times(folder / "out" / "dataset")
    assert not (folder / "out" / "band").exists()
    steps(folder)
    after = times(folder / "out" / "dataset")
    kept = ("manifest.json", ".parquet")
    assert all(after[path] == time for path, time in built.items() if path.name.endswith(kept))
    shutil.rmtree(folder / "out" / "parts" / "validation")
    shutil.rmtree(folder / "out" / "exports")
    before = times(folder / "out" / "parts" / "train")
    steps(folder, sample_models=lambda *arguments: None)
    assert times(folder / "out" / "parts" / "train") == before
    assert len(numbers(folder / "out" / "parts" / "validation")) == 3


def test_without_further_steps_the_output_folder_is_the_dataset(folder):
    short = RECIPE.partition("[difficulty]")[0]
    (folder / "recipe.toml").write_text(short)
    assert steps(folder) == [("build", ".")]
    assert len(numbers(folder / "out")) == 10
    (folder / "recipe.toml").write_text(RECIPE)
    with pytest.raises(CurateError, match=r"is a dataset, but this recipe.*mv .*/out .*/out\.built && mkdir"):
        steps(folder)


def test_the_recipe_of_a_build_with_options_gives_the_same_dataset(folder, tmp_path):
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(
        'location = "own.jsonl"\nlicence = "mit"\n[fields]\nstatement = "q"\ninputs = "i"\noutputs = "o"\n'
    )
    own = [{"q": words(f"own {n}"), "i": [i for i, _ in TESTS], "o": [o for _, o in TESTS]} for n in range(2)]
    write_jsonl(tmp_path / "own.jsonl", own)
    options = ["--source", f"livecodebench={folder / 'raw'}?from=2023-01-01", "--source", f"mine={mapping}"]
    options += ["--against", f"humaneval={folder / 'eval.jsonl'}", "--min-tests", "6", "--seed", "3"]
    curate("build-dataset", *options, "--out", tmp_path / "one", check=True)
    first = read_manifest(tmp_path / "one")
    for name, given in (("two", tmp_path / "one"), ("three", tmp_path / "one" / "manifest.json")):
        assert curate("build-dataset", given, "--out", tmp_path / name).exit_code == 0
        again = read_manifest(tmp_path / name)
        assert (again.content_hash, again.plan, again.recipe) == (first.content_hash, first.plan, first.recipe)
    shown = curate("build-dataset", tmp_path / "one", "--show-recipe").stdout
    (tmp_path / "shown.toml").write_text(shown)
    assert curate("build-dataset", *options, "--show-recipe").stdout == shown
    assert curate("build-dataset", tmp_path / "shown.toml", "--out", tmp_path / "four").exit_code == 0
    assert read_manifest(tmp_path / "four").content_hash == first.content_hash


def test_datasets_made_by_commands_have_a_recipe_where_one_can_say_how(folder, tmp_path):
    build([("livecodebench", str(folder / "raw"))], tmp_path / "built", BuildOptions())
    against = f"humaneval={folder / 'eval.jsonl'}"
    cleaned = write_clean_copy(str(tmp_path / "built"), [against], tmp_path / "clean")
    whole = build([("livecodebench", str(folder / "raw"))], tmp_path / "whole", BuildOptions(), against=[against])
    assert cleaned.recipe == whole.recipe
    assert cleaned.content_hash == whole.content_hash
    filtered, _ = write_filtered(tmp_path / "clean", ["n_tests > 5"], tmp_path / "filtered")
    assert from_table(filtered.recipe).filter.where == ("n_tests > 5",)
    parts = split(tmp_path / "filtered", tmp_path / "parts", SplitConfig(validation=2))
    assert from_table(parts["train"].recipe).split.validation == 2
    later, _ = write_filtered(tmp_path / "parts" / "train", ["n_tests > 6"], tmp_path / "later")
    assert later.recipe is None  # no recipe has a filter behind a split
    with pytest.raises(CurateError, match="its manifest has no recipe"):
        read_recipe(str(tmp_path / "later"))


def test_options_that_belong_into_the_recipe_are_refused_beside_it(folder):
    refused = curate("build-dataset", folder / "recipe.toml", "--out", folder / "out", "--min-tests", "3")
    assert refused.exit_code == 2
    assert "--min-tests conflicts with the recipe. Write it into the recipe: [build] min_tests" in refused.stderr
    unknown = curate("build-dataset", folder / "recipe.toml", "--out", folder / "out", "--source", "taco=x")
    assert "the recipe has no source taco, only livecodebench" in unknown.stderr
    assert "pass a RECIPE, or at least one --source" in curate("build-dataset", "--out", folder / "out").stderr
    assert "Missing option '--out'" in curate("build-dataset", folder / "recipe.toml").stderr


def test_a_dry_run_counts_and_names_the_steps(folder):
    shown = curate(
        "build-dataset", folder / "recipe.toml", "--out", folder / "out", "--dry-run", "--limit", "5", check=True
    )
    assert "livecodebench          5" in shown.stdout
    assert f"band        {folder / 'out' / 'band'}" in shown.stdout
    assert not (folder / "out").exists()


@pytest.mark.thorough
def test_a_killed_recipe_is_continued_by_the_same_command(folder):
    short = RECIPE.replace('[difficulty]\nmodels = ["m"]\nband = "0.125:0.9"\n', "")
    (folder / "recipe.toml").write_text(short)
    command = [sys.executable, "-m", "cli", "build-dataset", str(folder / "recipe.toml"), "--out", str(folder / "out")]
    dying = (
        "import os, sys, curate.recipes.runner as run\n"
        "run.split = lambda *arguments, **options: os.kill(os.getpid(), 9)\n"
        f"sys.argv = {command[2:]!r}\n"
        "from cli import main\nmain()"
    )
    killed = forked.run([sys.executable, "-c", dying], cwd=ROOT, capture_output=True)
    assert killed.returncode == -9, killed.stderr
    before = times(folder / "out")
    assert {path.relative_to(folder / "out").parts[0] for path in before} == {"dataset", "filtered"}
    done = forked.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    assert {path: time for path, time in times(folder / "out").items() if path in before} == before
    assert "export to jsonl: 3 of 3 problems" in done.stdout


def test_shipped_recipes_read_local_copies_of_their_sources(tmp_path):
    write_parquet(tmp_path / "taco.parquet", [taco_row(words(0)), taco_row(words(1), TESTS[:3])])
    write_parquet(tmp_path / "synthetic1.parquet", [synthetic1_row("a", words(2), TESTS[:2])])
    for part in ("test", "test2", "test3", "test4", "test5"):
        rows = [livecodebench_row(f"{part}{n}", words(part), contest_date=f"2024-0{n}-01T00:00:00") for n in (7, 8)]
        write_jsonl(tmp_path / "lcb" / f"{part}.jsonl", rows)
    write_jsonl(tmp_path / "codeforces.jsonl", [{"problem": words(9)}])
    shown = curate(
        "build-dataset",
        "deepcoder",
        *("--source", f"taco={tmp_path / 'taco.parquet'}"),
        *("--source", f"synthetic1={tmp_path / 'synthetic1.parquet'}"),
        *("--source", f"livecodebench={tmp_path / 'lcb'}"),
        *("--against", f"lcb={tmp_path / 'lcb' / 'test5.jsonl'}"),
        *("--against", f"codeforces={tmp_path / 'codeforces.jsonl'}"),
        *("--out", tmp_path / "out", "--dry-run"),
    )
    assert shown.exit_code == 0, shown.output
    table = {line.split()[0]: line.split() for line in shown.stdout.splitlines()[1:4]}
    assert table["taco"][1:] == ["2", "-1", "1", "0"]
    assert table["synthetic1"][1:] == ["1", "-1", "0", "0"]
    assert table["livecodebench"][1] == "5"  # contests until July 2024
    assert f"export      {tmp_path / 'out' / 'exports' / 'verl'}" in shown.stdout
    write_jsonl(tmp_path / "questions.jsonl", [numinamath_row("What is the sum of $1$ and $3$?", "4")])
    places = [("--source", "synthetic1", "synthetic1.parquet")]
    places += [("--source", name, "questions.jsonl") for name in ("numinamath", "deepscaler")]
    places += [("--against", name, "codeforces.jsonl") for name in ("aime24", "aime25", "math500")]
    local = [word for option, name, file in places for word in (option, f"{name}={tmp_path / file}")]
    shown = curate("build-dataset", "intellect2", *local, "--out", tmp_path / "out", "--dry-run", check=True)
    assert [line.split()[0] for line in shown.stdout.splitlines()[-4:]] == ["build", "difficulty", "band", "export"]


def test_a_shipped_recipe_is_not_mistaken_for_a_folder_of_its_name(tmp_path, monkeypatch):
    (tmp_path / "deepcoder").mkdir()
    monkeypatch.chdir(tmp_path)
    assert read_recipe("deepcoder").sources[0].location == "likaixin/TACO-verified"
