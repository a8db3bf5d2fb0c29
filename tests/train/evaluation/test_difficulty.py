"""Difficulty is measured with a real sandbox, problems and files; the model's answers depend on prompt and seed."""

import itertools
import json
import shutil
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny_world
from source_rows import read_parquet, write_jsonl
from waiting import becomes

from curate.difficulty import table as solve_rates
from curate.difficulty.band import SolveRateBand, filter_by_solve_rate
from curate.errors import CurateError
from curate.pipeline import BuildOptions, build
from curate.prompt import PromptFormat
from curate.trust import ONLY_TRUSTED, TrustPolicy
from sandbox import ExecutionLost, RefereeError, Sandbox, SandboxOptions
from train.errors import SamplerError
from train.evaluation.difficulty import DifficultySettings, _compute_samples_digest, measure_difficulty
from train.sampling.protocol import SampledCompletion

NAMES = sorted(tiny_world.PROBLEMS)


class Model:
    """A model that answers each problem with one of its texts, chosen by the seed, and remembers the prompts."""

    def __init__(self, stop_after=None, before=lambda number: None):
        self.asked = []
        self.roles = set()
        self.right = Counter()
        self._stop_after = stop_after
        self._before = before

    @contextmanager
    def __call__(self, settings):
        yield self.sample

    def sample(self, prompts):
        for index, (chat, seed) in enumerate(prompts):
            if len(self.asked) == self._stop_after:
                raise ConnectionError("the server has gone")
            self._before(index)
            self.roles.add(tuple(message["role"] for message in chat))
            statement = chat[-1]["content"].split("\n")[0]
            name = next(name for name in NAMES if tiny_world.statement(name) == statement)
            self.asked.append((name, seed))
            texts = tiny_world.PROBLEMS[name][1]
            text = texts[seed % len(texts)]
            self.right[name] += text is texts[0] and name in ("sum", "double", "product")
            yield index, SampledCompletion(text, "length" if name == "larger" else "stop", 10)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    rows = tiny_world.rows()
    raw = write_jsonl(folder / "raw" / "test.jsonl", [*rows, rows[0] | {"question_id": "zz"}])
    build([("livecodebench", str(raw))], folder / "out", BuildOptions(), sandbox=SandboxOptions(workers=2))
    return folder / "out"


@pytest.fixture
def dataset(built, tmp_path):
    return shutil.copytree(built, tmp_path / "dataset")


def machine():
    return Sandbox(workers=2)


def never(*_):
    raise AssertionError("there is nothing to do for it")


def run(dataset, model, name="m", machine=machine, **options):
    asked = {"k": 4, **options.pop("asked", {})}
    options = {"trust": TrustPolicy(include_unverified=True), **options}  # LiveCodeBench publishes no references
    return measure_difficulty(dataset, name, asked, model, machine, **options)


def table(dataset, model="m"):
    return {row["id"].partition("/")[2]: row for row in solve_rates.read(dataset) if row["model"] == model}


def test_the_answers_of_the_model_are_counted(dataset):
    model = Model()
    measured = run(dataset, model, asked={"k": 2, "n": 8, "seed": 3, "max_tokens": 99})
    assert (measured.n_sampled, measured.n_judged, measured.n_unjudged) == (48, 48, 0)
    rows = table(dataset)
    assert sorted(rows) == NAMES
    assert {name: row["n_correct"] for name, row in rows.items()} == {name: model.right[name] for name in NAMES}
    assert rows["sum"]["n_correct"] == rows["double"]["n_correct"] == 8
    assert 0 < rows["product"]["n_correct"] < 8
    assert rows["product"]["pass_at_1"] == rows["product"]["n_correct"] / 8
    assert rows["product"]["pass_at_1"] < rows["product"]["pass_at_k"] < 1
    assert {row["n"] for row in rows.values()} == {row["n_sampled"] for row in rows.values()} == {8}
    assert (rows["larger"]["n_truncated"], rows["larger"]["n_correct"]) == (8, 0)
    assert (rows["smaller"]["n_no_code"], rows["smaller"]["n_correct"]) == (8, 0)
    settings = {name: rows["sum"][name] for name in ("k", "temperature", "top_p", "max_tokens", "seed", "mean_tokens")}
    assert settings == {"k": 2, "temperature": 0.6, "top_p": 0.95, "max_tokens": 99, "seed": 3, "mean_tokens": 10.0}
    assert len(set(model.asked)) == 48  # every sample has a seed of its own


def test_datasets_opens_the_table_beside_the_problems(dataset, tmp_path):
    run(dataset, Model())
    for config, n_rows in (("default", 6), ("difficulty", 6), ("rejected", 1)):
        read = datasets.load_dataset(str(dataset), config, split="train", cache_dir=str(tmp_path / "cache"))
        assert len(read) == n_rows
    card = (dataset / "README.md").read_text()
    assert card.count("- config_name: difficulty") == 1
    assert "| m | 6 | 4 | " in card


def test_existing_samples_are_not_drawn_again(dataset):
    run(dataset, Model())
    before = {path: path.stat().st_mtime_ns for path in (dataset / "difficulty").glob("train-*")}
    card = (dataset / "README.md").read_text()
    assert run(dataset, never, machine=never).n_sampled == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (dataset / "README.md").read_text() == card


def test_more_samples_are_added_to_the_existing_ones(dataset, built, tmp_path):
    run(dataset, Model())
    added = Model()
    run(dataset, added, asked={"n": 10})
    assert len(added.asked) == 6 * 6
    at_once = shutil.copytree(built, tmp_path / "at once")
    run(at_once, Model(), asked={"n": 10})
    assert table(dataset) == table(at_once)


def test_an_interrupted_run_continues_where_it_stopped(dataset, built, tmp_path):
    broken = Model(stop_after=11)
    with pytest.raises(ConnectionError):
        run(dataset, broken)
    assert table(dataset) == {}
    rest = Model()
    measured = run(dataset, rest)
    assert len(rest.asked) == measured.n_sampled == 24 - 11
    assert not set(rest.asked) & set(broken.asked)
    undisturbed = shutil.copytree(built, tmp_path / "undisturbed")
    run(undisturbed, Model())
    assert table(dataset) == table(undisturbed)
    assert not list((dataset / "difficulty" / ".work").glob("*.answers.jsonl"))


def test_answers_are_judged_while_others_are_still_being_sampled(dataset):
    """The model withholds its last answer until an earlier one is judged; judging must not wait for the last answer."""

    def wait(number):
        if number == 23:
            journals = [path for path in (dataset / "difficulty" / ".work").iterdir() if path.suffix == ".jsonl"]
            (journal,) = [path for path in journals if not path.name.endswith(".answers.jsonl")]
            assert becomes(lambda: b"accepted" in journal.read_bytes()), "no answer was judged"

    run(dataset, Model(before=wait))
    assert table(dataset)["sum"]["n_correct"] == 4


class Flaky(Sandbox):
    """A sandbox that raises an error for every third program."""

    error = ExecutionLost("the worker died")

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._numbers = itertools.count()

    def judge(self, program, suite, *, run_all=False):
        if next(self._numbers) % 3 == 2:
            raise self.error
        return super().judge(program, suite, run_all=run_all)


class FlakyReferee(Flaky):
    error = RefereeError("the referee failed")


def test_a_program_whose_run_is_lost_is_judged_again(dataset, built, tmp_path):
    measured = run(dataset, Model(), machine=lambda: Flaky(workers=1))
    assert (measured.n_judged, measured.n_unjudged) == (24, 0)
    undisturbed = shutil.copytree(built, tmp_path / "undisturbed")
    run(undisturbed, Model())
    assert table(dataset) == table(undisturbed)


def test_a_sample_whose_checker_failed_is_neither_right_nor_wrong_and_is_judged_later(dataset, built, tmp_path):
    measured = run(dataset, Model(), machine=lambda: FlakyReferee(workers=2))
    n_lost = measured.n_unjudged
    assert n_lost >= 5  # a third of the programs
    rows = table(dataset)
    assert sum(row["n_sampled"] - row["n"] for row in rows.values()) == n_lost
    assert all(row["n_correct"] == row["n"] for row in (rows["sum"], rows["double"]))
    assert any(row["pass_at_k"] is None for row in rows.values())
    assert run(dataset, never).n_judged == n_lost
    undisturbed = shutil.copytree(built, tmp_path / "undisturbed")
    run(undisturbed, Model())
    assert table(dataset) == table(undisturbed)


class Broken(Sandbox):
    def judge(self, program, suite, *, run_all=False):
        raise ExecutionLost("the worker died")


def test_a_sandbox_that_is_broken_for_good_ends_the_run_and_no_answer_is_lost(dataset):
    broken = Model()
    with pytest.raises(CurateError, match="the sandbox failed 3 times in a row: the worker died.*curate doctor"):
        run(dataset, broken, machine=lambda: Broken(workers=1))
    rest = Model()
    run(dataset, rest)
    assert not set(rest.asked) & set(broken.asked)
    assert {row["n"] for row in table(dataset).values()} == {4}


def test_an_answer_that_was_cut_off_is_judged_by_the_program_in_it(dataset):
    class Short(Model):
        """A model whose answers are cut off after the program."""

        def sample(self, prompts):
            for index, answer in super().sample(prompts):
                yield index, replace(answer, finish_reason="length")

    model = Short()
    run(dataset, model)
    rows = table(dataset)
    assert {row["n_truncated"] for row in rows.values()} == {4}
    assert {name: row["n_truncated_correct"] for name, row in rows.items()} == {
        name: model.right[name] for name in NAMES
    }
    assert rows["sum"]["n_correct"] == 4


def test_samples_with_other_settings_are_not_mixed_with_existing_ones(dataset):
    run(dataset, Model(), asked={"temperature": 1.0})
    with pytest.raises(CurateError, match=r"have temperature 1.0, not 0.6.*--resample"):
        run(dataset, never, asked={"temperature": 0.6})
    assert run(dataset, never, machine=never).settings.temperature == 1.0
    again = Model()
    run(dataset, again, asked={"temperature": 0.6}, resample=True)
    assert len(again.asked) == 24
    assert {row["temperature"] for row in table(dataset).values()} == {0.6}


def test_settings_are_fixed_by_the_first_sample(dataset):
    with pytest.raises(ConnectionError):
        run(dataset, Model(stop_after=3), asked={"temperature": 1.0})
    with pytest.raises(CurateError, match="have temperature 1.0"):
        run(dataset, never, asked={"temperature": 0.6})
    assert run(dataset, Model()).settings.temperature == 1.0


def test_samples_of_the_default_prompt_have_the_names_that_they_always_had():
    """Existing samples continue."""
    problem = {"id": "a", "statement": "s", "starter_code": "", "tests": "t"}
    ways = [
        DifficultySettings("m"),
        DifficultySettings("m", prompt=PromptFormat("s")),
        DifficultySettings("m", engine={"dtype": "half"}),
    ]
    names = [_compute_samples_digest(problem, settings, ()) for settings in ways]
    assert names[0] == "9e0566a444da0f62feb12c7a51b33a89"
    assert len(set(names)) == 3


def test_the_prompt_is_one_of_the_settings(dataset, tmp_path):
    model = Model()
    prompt = {"system": "Be brief.", "template_arguments": {"enable_thinking": False}}
    run(dataset, model, asked={"prompt": prompt, "engine": {"dtype": "bfloat16"}})
    assert model.roles == {("system", "user")}
    assert {json.loads(row["prompt"])["system"] for row in table(dataset).values()} == {"Be brief."}
    for asked in ({"prompt": {"system": ""}}, {"engine": {"dtype": "half"}}, {"prompt": {"template": "{{statement}}"}}):
        with pytest.raises(CurateError, match=r"have (prompt|engine) .*--resample"):
            run(dataset, never, asked=asked)
    assert run(dataset, never, machine=never).settings.prompt == PromptFormat(**prompt)
    filter_by_solve_rate(dataset, tmp_path / "out", SolveRateBand(0.1, 1.0), ["m"])
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    settings = manifest["plan"]["solve_rate"][0]["models"]["m"]
    assert (settings["prompt"], settings["engine"]) == (prompt, {"dtype": "bfloat16"})
    assert run(tmp_path / "out", never, machine=never).settings.engine == {"dtype": "bfloat16"}


def test_several_models_can_be_measured_on_one_dataset(dataset):
    run(dataset, Model(), name="a")
    run(dataset, Model(), name="b/b", asked={"seed": 7})
    assert table(dataset, "a").keys() == table(dataset, "b/b").keys()
    rows = solve_rates.read(dataset)
    assert [(row["id"], row["model"]) for row in rows] == sorted((row["id"], row["model"]) for row in rows)
    card = (dataset / "README.md").read_text()
    assert "| a | 6 |" in card
    assert "| b/b | 6 |" in card


def test_prompts_that_the_model_refuses_leave_the_problem_unmeasured(dataset):
    class Choosy(Model):
        def sample(self, prompts):
            for index, answer in super().sample(prompts):
                yield index, ValueError("too long") if self.asked[-1][0] == "sum" else answer

    measured = run(dataset, Choosy())
    assert measured.n_refused == 4
    row = table(dataset)["sum"]
    assert (row["n"], row["n_sampled"], row["pass_at_1"], row["pass_at_k"]) == (0, 0, None, None)
    later = Model()
    run(dataset, later)
    assert {name for name, _ in later.asked} == {"sum"}


def test_a_model_that_refuses_every_prompt_soon_ends_the_run(dataset):
    class Refusing(Model):
        def sample(self, prompts):
            for index, _ in super().sample(prompts):
                yield index, ValueError("max_tokens is too large")

    refusing = Refusing()
    with pytest.raises(SamplerError, match="refuses every prompt: max_tokens is too large"):
        run(dataset, refusing)
    assert len(refusing.asked) < 24


def test_only_problems_that_changed_are_sampled_again(dataset):
    run(dataset, Model())
    (path,) = (dataset / "data").iterdir()
    read = pq.read_table(path)
    rows = read.to_pylist()
    changed = next(row for row in rows if row["id"].endswith("/sum"))
    suite = json.loads(changed["tests"])
    suite["cases"].pop()
    changed["tests"] = json.dumps(suite)
    pq.write_table(type(read).from_pylist(rows, schema=read.schema), path)
    model = Model()
    run(dataset, model, trust=TrustPolicy(include_unverified=True, include_altered=True))
    assert Counter(name for name, _ in model.asked) == {"sum": 4}


def test_k_can_change_without_new_samples(dataset):
    run(dataset, Model())
    assert run(dataset, never, machine=never, asked={"k": 2}).settings.k == 2
    assert {row["k"] for row in table(dataset).values()} == {2}


def test_too_few_samples_for_k_are_refused(dataset):
    with pytest.raises(CurateError, match=r"pass@4 needs at least 4 samples, not 2.*--n"):
        run(dataset, never, asked={"n": 2})


def test_two_processes_do_not_sample_the_same_model(dataset):
    with (
        solve_rates.lock_samples(dataset, "m"),
        pytest.raises(CurateError, match="another process is sampling .* for "),
    ):
        run(dataset, never)


@pytest.mark.parametrize(("line", "n_asked"), [("\0", 0), ('["key", 3]', 6)])
def test_a_damaged_verdict_is_refused_and_once_deleted_costs_one_sample(dataset, line, n_asked):
    run(dataset, Model())
    (path,) = (dataset / "difficulty" / ".work").glob("*.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    line = line.replace("key", json.loads(lines[2])[0])
    path.write_text("".join([*lines[:2], f"{line}\n", *lines[3:]]))
    model = Model()
    with pytest.raises(CurateError, match=r"no record at line 3.* sed -i '3d' "):
        run(dataset, model, asked={"n": 5})
    assert len(model.asked) == n_asked
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], *lines[3:]]))
    run(dataset, model, asked={"n": 5})
    assert len(model.asked) == 7  # six more, and the one that was damaged
    assert {row["n"] for row in table(dataset).values()} == {5}


def test_a_folder_that_is_not_a_dataset_is_left_alone(tmp_path):
    with pytest.raises(CurateError, match="Pass the folder of a dataset"):
        run(tmp_path, never)
    assert not list(tmp_path.iterdir())


def test_unverified_rows_are_not_sampled(dataset):
    with pytest.raises(CurateError, match="left out: unverified 6 .*; --include unverified adds these rows"):
        run(dataset, never, trust=ONLY_TRUSTED)
    (file,) = (dataset / "data").iterdir()
    rows = read_parquet(file)
    for row in rows:
        row["verified"] = row["id"].endswith(("sum", "double"))
    pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(file)), file)
    with pytest.raises(CurateError, match=r"data: 2 rows were changed \(livecodebench/double, livecodebench/sum\)"):
        run(dataset, never)
    measured = run(dataset, Model(), trust=TrustPolicy(include_altered=True))
    assert dict(measured.exclusions) == {"unverified": 4}
    assert table(dataset).keys() == {"sum", "double"}
