"""Asynchronous runs, from a configuration file to a trained model: exact, repeatable, complete."""

import pytest
import small_runs
import tiny_world
from curate_command import curate
from described_metrics import metric_description
from journal_audit import audit_journal
from small_runs import same, trained, weights

from train.asynchronous import async_pipeline, journal
from train.asynchronous.messages import LeaseRequest, SubmitRequest
from train.asynchronous.rollout_worker import encode_result
from train.errors import SamplerError
from train.run import checkpoint
from train.sampling.protocol import SamplingParams
from train.sampling.transformers import TransformersSampler

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other

ASYNC = [
    "rollout.pipeline=async",
    "objective.old=learner",
    "objective.truncation=2.0",
    "run.keep_journal=true",
]


def replayed(run, *options):
    """Return the words of `curate train RUN --replay` after it has succeeded."""
    result = curate("train", run, "--replay", *options, check=True)
    return result.output


def test_without_staleness_an_asynchronous_run_is_a_synchronous_one_to_the_last_bit(small, tmp_path):
    correction = ASYNC[1:3]
    synchronous = trained(small, tmp_path / "sync", "run.steps=5", *correction)
    asynchronous = trained(small, tmp_path / "async", "run.steps=5", *ASYNC, "rollout.staleness=0")
    assert same(weights(asynchronous), weights(synchronous))
    told = [small_runs.lines(run / "samples.jsonl") for run in (asynchronous, synchronous)]
    assert told[0] == told[1]


@pytest.mark.thorough
def test_without_staleness_the_same_holds_for_vllm(small, tmp_path, monkeypatch):
    for name, value in tiny_world.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    changes = ["run.steps=5", "engine.kind=vllm", *ASYNC[1:3]]
    synchronous = trained(small, tmp_path / "sync", *changes)
    asynchronous = trained(small, tmp_path / "async", *changes, *ASYNC, "rollout.staleness=0")
    assert same(weights(asynchronous), weights(synchronous))


@pytest.fixture(scope="module")
def stale(tmp_path_factory, tiny_model, six_problems):
    """Return a finished run with a staleness of at most 2, and its figures."""
    folder = tmp_path_factory.mktemp("stale")
    figures = []
    small = small_runs.written(folder, tiny_model, six_problems)
    evaluation = [f"evaluation.dataset={six_problems}", 'evaluation.include=["unverified"]', "evaluation.every_steps=3"]
    changes = [*ASYNC, "rollout.staleness=2", "run.steps=6", *evaluation]
    trained(small, folder / "run", *changes, report=lambda step, found: figures.append(found))
    return folder / "run", figures


def test_no_token_is_older_than_the_bound_and_some_are_old(stale):
    run, figures = stale
    assert max(found["staleness/max"] for found in figures) == 2
    assert max(found["groups/age_max"] for found in figures) == 2
    assert audit_journal(journal.read_events(run / journal.FOLDER), staleness=2).findings == []


def test_the_workers_answer_the_evaluation_with_the_newest_weights(stale):
    assert [step for step, found in enumerate(stale[1], 1) if 0 <= found.get("eval/pass@1", -1) <= 1] == [3, 6]


def test_every_figure_of_an_asynchronous_run_has_a_meaning(stale):
    assert [name for name in stale[1][-1] if metric_description(name) is None] == []


def test_a_finished_run_is_trained_again_from_its_journal_to_the_same_weights(stale):
    run, _ = stale
    words = replayed(run)
    assert "journal    6 batches, 18 groups, none trained on twice" in words
    assert "the same weights as" in words
    again = run.with_name("run-replay")
    assert same(weights(again), weights(run))
    assert [line["problem"] for line in small_runs.lines(again / "samples.jsonl")] == [
        line["problem"] for line in small_runs.lines(run / "samples.jsonl")
    ]


def test_answers_that_are_not_interrupted_are_drawn_with_one_version_of_the_weights(small, tmp_path):
    def versions(run):
        taken = (group for _, groups in journal.read_batches(run / journal.FOLDER, 0) for group in groups)
        return [set(rollout.versions) for group in taken for rollout in group]

    whole = trained(small, tmp_path / "whole", *ASYNC, "rollout.staleness=2", "run.steps=6", "rollout.interrupt=false")
    assert {len(of_answer) for of_answer in versions(whole)} == {1}
    assert len(set().union(*versions(whole))) > 1


def test_another_objective_is_trained_on_the_same_samples(stale, tmp_path):
    run, _ = stale
    words = replayed(run, "--set", "objective.entropy=0.1", "--out", str(tmp_path / "other"))
    assert "other weights than" in words
    assert len(small_runs.lines(tmp_path / "other" / "samples.jsonl")) == len(small_runs.lines(run / "samples.jsonl"))


@pytest.mark.parametrize("engine", ["transformers", pytest.param("vllm", marks=pytest.mark.thorough)])
def test_a_run_that_is_resumed_trains_the_recorded_batches_again(engine, small, tmp_path, monkeypatch):
    for name, value in tiny_world.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)

    def interrupt(step, found):
        if step == 5:
            raise KeyboardInterrupt

    run = tmp_path / "run"
    changes = [*ASYNC, "rollout.staleness=2", "run.steps=7", "run.checkpoint_steps=3", f"engine.kind={engine}"]
    with pytest.raises(KeyboardInterrupt):
        trained(small, run, *changes, report=interrupt)
    newest = checkpoint.list_checkpoints(run)[-1]
    newest.rename(tmp_path / "away")  # as if the run had been killed, so that only the checkpoint of step 3 is there
    before = [line for line in small_runs.lines(run / "samples.jsonl") if line["step"] <= 5]
    trained(small, run, *changes, resume=True)
    assert [line for line in small_runs.lines(run / "samples.jsonl") if line["step"] <= 5] == before
    assert "the same weights as" in replayed(run)


def test_an_engine_that_fails_ends_the_run_with_its_words(small, tmp_path, monkeypatch):
    def step(self):
        raise SamplerError("a kernel has failed")

    monkeypatch.setattr(TransformersSampler, "step", step)
    with pytest.raises(SamplerError, match="a kernel has failed"):
        trained(small, tmp_path / "run", *ASYNC)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param([], "has no journal: only runs with rollout.pipeline", id="no journal"),
        pytest.param(["--out", "RUN", "--overwrite"], "would be replaced by its own replay", id="onto itself"),
    ],
)
def test_what_cannot_be_replayed_is_explained(options, words, small, tmp_path):
    run = trained(small, tmp_path / "run", "run.steps=1")
    options = [str(run) if option == "RUN" else option for option in options]
    result = curate("train", run, "--replay", *options)
    assert result.exit_code == 1, result.output
    assert words in result.output
    assert "Traceback" not in result.output
    assert (run / "model" / "model.safetensors").exists()


class Lockstep:
    """A worker as slow as one-off: it samples one batch ahead, each to its end, and never skips a version."""

    def __init__(self, controller, engine, source, *, name, whole_leases, on_loaded):
        self.controller, self.engine, self.source, self.name = controller, engine, source, name

    def run(self):
        version, tensors = self.fetch_newest_manifest(-1)
        self.engine.load(tensors, version)
        self.send(self.sample(version))
        while answers := self.sample(version):
            # Fetch before the trainer gets the completions for the next version.
            version, tensors = self.fetch_newest_manifest(version)
            self.send(answers)
            self.engine.load(tensors, version)

    def fetch_newest_manifest(self, after):
        manifest = self.controller.wait_for_weights(after, 300.0)
        return manifest.version, self.source.fetch(manifest)

    def sample(self, version):
        leases = self.controller.request_leases(LeaseRequest(self.name, version, slots=18)).leases
        compared = [lease for lease in leases if lease.group < 0]  # the prompts with which a run compares both models
        if compared:
            self.send(self.answers(compared))
        return self.answers([lease for lease in leases if lease.group >= 0])

    def answers(self, leases):
        running = {f"{lease.group}.{n}": (lease, n) for lease in leases for n in range(len(lease.seeds))}
        for key, (lease, number) in running.items():
            sampling = SamplingParams(
                lease.sampling_params.temperature, 1.0, lease.sampling_params.max_tokens, logprobs=True
            )
            self.engine.add(key, lease.prompt, lease.seeds[number], sampling)
        answers = []
        while len(answers) < len(running):
            answers += [encode_result(*running[key], completion) for key, completion in self.engine.step()]
        return tuple(answers)

    def send(self, answers):
        self.controller.submit_results(SubmitRequest(self.name, answers))

    def leave(self): ...


@pytest.mark.thorough
def test_with_a_staleness_of_one_a_run_in_lockstep_is_a_one_off_run_to_the_last_bit(small, tmp_path, monkeypatch):
    one_off = trained(small, tmp_path / "one-off", "run.steps=5", "rollout.pipeline=one-off", *ASYNC[1:3])
    monkeypatch.setattr(async_pipeline, "RolloutWorker", Lockstep)
    asynchronous = trained(small, tmp_path / "async", "run.steps=5", *ASYNC, "rollout.staleness=1")
    assert same(weights(asynchronous), weights(one_off))
