"""Small but complete runs, from a configuration file to a trained model, some of them killed on the way."""

import os
import random
import resource
import shutil
import signal
import subprocess
import time
from concurrent.futures import Future, wait
from contextlib import contextmanager, nullcontext

import forked
import pyarrow.parquet
import pytest
import random_models
import small_runs
from curate_command import curate
from described_metrics import metric_description
from safetensors.torch import load_file
from small_runs import same, trained, weights
from transformers import AutoTokenizer

from rewards.async_rewards import AsyncRewards
from rewards.reward import Reward
from train import loop
from train.asynchronous.events import ResultReceived, ResultScored, SegmentStarted
from train.asynchronous.messages import SampleResult, pack_logprobs, pack_tokens
from train.config import ModelConfig, list_presets
from train.errors import CheckpointError, ConfigError, RolloutError, RunError
from train.learning.learner import Learner
from train.run import checkpoint
from train.run.checkpoint import RunProgress
from train.run.folder import open_run, read_stored_config
from train.run.metrics_log import read_metrics

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other


def steps_of(run, name="samples.jsonl"):
    return [(line["step"], line["problem"], line["text"]) for line in small_runs.lines(run / name)]


@pytest.mark.parametrize("way", ["sync", pytest.param("one-off", marks=pytest.mark.thorough)])
def test_a_run_that_is_killed_ends_with_the_same_weights_as_one_that_is_not(way, whole, small, tmp_path):
    undisturbed, run = whole(way), tmp_path / "run"
    rng = random.Random(way)
    for _ in range(2):
        with (tmp_path / "log").open("wb") as log:
            pipeline = ["--set", f"rollout.pipeline={way}"]
            process = forked.Popen(small_runs.command(small, run, "--resume", *pipeline), stdout=log, stderr=log)
            lines = len(small_runs.lines(run / "metrics.jsonl")) if (run / "metrics.jsonl").exists() else 0
            end = time.monotonic() + 120
            while process.poll() is None and time.monotonic() < end:
                if (run / "metrics.jsonl").exists() and (run / "metrics.jsonl").read_text().count("\n") > lines + 1:
                    time.sleep(rng.random() * 0.5)
                    break
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
            process.wait()
    trained(small, run, f"rollout.pipeline={way}", resume=True)
    assert same(weights(run), weights(undisturbed))
    assert steps_of(run) == steps_of(undisturbed)
    told = [line["step"] for line in small_runs.lines(run / "metrics.jsonl")]
    assert told == sorted(set(told))


def test_the_pipelines_ask_the_same_prompts_in_the_same_order(whole):
    asked = [[(step, problem) for step, problem, _ in steps_of(whole(way))] for way in ("sync", "minibatch", "one-off")]
    assert asked[0] == asked[1] == asked[2]
    assert len(asked[0]) == 12
    for epoch in (asked[0][:6], asked[0][6:]):
        assert len({problem for _, problem in epoch}) == 6


@pytest.mark.parametrize(("way", "age"), [("sync", 0), ("minibatch", 0), ("one-off", 1)])
def test_tokens_have_the_staleness_that_the_pipeline_implies(way, age, whole):
    found = small_runs.lines(whole(way) / "metrics.jsonl")
    assert [line["staleness/max"] for line in found if line["step"]] == [0, *[age] * 3]


def test_every_figure_of_a_run_has_a_meaning(whole):
    for line in small_runs.lines(whole("one-off") / "metrics.jsonl"):
        assert [name for name in line if metric_description(name) is None] == []
    assert {"rewards/code/mean", "sources/livecodebench/solve_rate", "perf/tokens_per_second"} < line.keys()


def test_several_epochs_over_a_batch_move_ratios_out_of_their_bounds(small, tmp_path):
    figures = []
    passes = ["run.steps=1", "optimizer.minibatches=1", "optimizer.epochs=3", "optimizer.learning_rate=0.01"]
    trained(small, tmp_path / "run", *passes, report=lambda step, found: figures.append(found))
    assert figures[0]["clip_ratio/region_mean"] > 0  # in the first pass the policy is the sampler's


@pytest.mark.parametrize("overlong", ["mask", "unknown"])
def test_nothing_is_learned_from_answers_that_were_cut_off(overlong, small, tmp_path):
    figures = []
    changes = ["run.steps=1", "optimizer.minibatches=1", "stages.0.max_tokens=20", f"objective.overlong={overlong}"]
    trained(small, tmp_path / "run", *changes, report=lambda step, found: figures.append(found))
    cut, length = figures[0]["completions/clipped_ratio"], figures[0]["completions/mean_terminated_length"]
    assert 0 < cut < 1
    assert figures[0]["counted_tokens"] == pytest.approx(3 * 6 * (1 - cut) * length)


def test_stages_lengthen_answers(small, tmp_path):
    small.write_text(
        small.read_text().replace("max_tokens = 36", "max_tokens = 8\nuntil_clipped = 0.1\nover_steps = 2")
    )
    small.write_text(small.read_text() + "[[stages]]\nmax_tokens = 20\n")
    longest = []
    trained(small, tmp_path / "run", report=lambda step, found: longest.append(found["completions/max_length"]))
    assert longest == [8, 8, 20, 20]


def test_a_base_model_is_trained_and_evaluated_as_deepseek_r1_zero_was(small, tmp_path, tiny_model, six_problems):
    base = shutil.copytree(tiny_model, tmp_path / "base")
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.chat_template = None
    (base / "chat_template.jinja").unlink(missing_ok=True)
    tokenizer.save_pretrained(base)
    changes = f"model.path={base}", "run.steps=1", f"evaluation.dataset={six_problems}", "evaluation.k=1"
    with pytest.raises(ConfigError, match="it is a base model.*--prompt-format base"):
        trained(small, tmp_path / "refused", *changes)
    run = trained(small, tmp_path / "run", *changes, "prompt.format=base", 'evaluation.include=["unverified"]')
    assert "eval/pass@1" in read_metrics(run)[-1]


def test_a_batch_without_a_signal_ends_the_run_with_an_explanation(small, tmp_path):
    with pytest.raises(RolloutError, match=r"no group with a signal in 1 rounds: \d groups solved by no completion"):
        trained(small, tmp_path / "run", "rollout.online_filter=true", "rollout.max_rounds=1", "rollout.prompts=2")


def test_a_run_whose_answers_are_all_cut_off_ends_with_an_explanation(small, tmp_path):
    with pytest.raises(RolloutError, match="100% of the completions are truncated. 5 successive steps"):
        trained(small, tmp_path / "run", "stages.0.max_tokens=3", "run.steps=9", "objective.overlong=none")


@pytest.mark.parametrize("preset", list_presets())
def test_an_update_with_the_objective_and_optimizer_of_a_preset_changes_the_weights(preset, small, tmp_path):
    small.write_text(f"preset = '{preset}'\n[model]\npath = 'x'\n[data]\ndataset = 'x'\n")
    settings = small_runs.read(small, "optimizer.row_tokens=256")
    model = ModelConfig(random_models.folder(tmp_path / "model"), head_dtype=settings.model.head_dtype)
    learner = Learner(model, settings.objective, settings.optimizer, temperature=1.0, total_updates=50, seed=0)
    before, batch = {name: each.clone() for name, each in learner.export_weights()}, random_models.sequences()
    learner.begin_batch(batch)
    assert learner.update(batch, max_tokens=14)["skipped"] == 0
    learner.update(batch, max_tokens=14)  # the first may be a warm-up with a learning rate of 0
    assert not same(dict(learner.export_weights()), before)
    learner.close()


@pytest.mark.parametrize(
    "preset", ["areal", *(pytest.param(name, marks=pytest.mark.thorough) for name in list_presets() if name != "areal")]
)
def test_a_preset_trains_once_its_sizes_are_small(preset, small, tmp_path, tiny_model, six_problems):
    paths = f"[model]\npath = '{tiny_model}'\n[data]\ndataset = '{six_problems}'\ninclude = ['unverified']\n"
    small.write_text(f"preset = '{preset}'\n{paths}")
    skipped = []
    trained(
        small,
        tmp_path / "run",
        *small_runs.SMALL_SIZES,
        "run.steps=2",
        *(["stages.0.until_step=1", "stages.1.max_tokens=40"] if preset == "deepcoder-32k" else []),
        *(["data.target_tokens=[10, 20]"] if preset == "intellect2" else []),
        report=lambda step, found: skipped.append(found["skipped"]),
    )
    assert len(skipped) == 2
    assert 0 in skipped
    assert not same(weights(tmp_path / "run"), load_file(tiny_model / "model.safetensors"))


def test_a_run_that_ends_early_keeps_its_last_step(small, tmp_path, whole):
    def interrupt(step, found):
        if step == 3:
            raise KeyboardInterrupt

    changes = ["rollout.pipeline=one-off", "run.checkpoint_steps=100"]
    with pytest.raises(KeyboardInterrupt):
        trained(small, tmp_path / "run", *changes, report=interrupt)
    assert checkpoint.list_checkpoints(tmp_path / "run")[-1].name == "step-000003"
    trained(small, tmp_path / "run", *changes, resume=True)
    assert same(weights(tmp_path / "run"), weights(whole("one-off")))


@pytest.mark.thorough
def test_a_run_ended_by_sigterm_says_how_to_continue(small, tmp_path):
    run = tmp_path / "run"
    endless = small_runs.command(small, run, "--set", "run.steps=1000")
    process = forked.Popen(endless, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        process.stdout.readline()  # a step
        process.terminate()
        words, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1
    assert words.decode().splitlines()[-1].startswith("Error: interrupted; --resume continues"), words


def test_a_run_does_not_continue_with_other_problems_under_the_same_name(small, tmp_path, six_problems):
    dataset = shutil.copytree(six_problems, tmp_path / "problems")
    # An altered dataset is refused whether a run continues or begins, unless it is included.
    small.write_text(small.read_text().replace('["unverified"]', '["unverified", "altered"]'))
    changes = [f"data.dataset={dataset}", "run.steps=1"]
    trained(small, tmp_path / "run", *changes)
    (table,) = (dataset / "data").glob("*.parquet")
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(table).slice(1), table)
    with pytest.raises(ConfigError, match="has other training problems"):
        trained(small, tmp_path / "run", *changes, resume=True)


def test_groups_without_any_signal_are_not_trained_on(small, tmp_path, monkeypatch):
    """A batch without any reward ends the run, even with the filter off, and earlier steps are kept."""

    @contextmanager
    def lost(settings, programs, most, *, seed, kinds, model):
        def reward(answer, task):
            return Reward(None, "sandbox_failed")

        with AsyncRewards(reward) as rewards:
            yield rewards

    monkeypatch.setattr(loop, "open_scorer", lost)
    with pytest.raises(
        RolloutError, match="without any reward; .* Rewards are missing if the sandbox .* with --resume"
    ):
        trained(small, tmp_path / "run", "run.steps=2")


def test_a_lost_sandbox_teaches_nothing_and_is_named(small, tmp_path):
    with pytest.raises(Exception, match=r"127\.0\.0\.1:9") as error:
        trained(small, tmp_path / "run", "sandbox.backend=http", "sandbox.address=http://127.0.0.1:9", "run.steps=1")
    assert type(error.value).__module__.startswith("sandbox") or isinstance(error.value, RunError)


def writer(value, n=1):
    """Return what writes a learner's state of n equal values, as Learner.save_state does."""
    import torch

    from train.learning.sharded_state import write_in_background

    return lambda folder: write_in_background({"w": torch.full((n,), float(value))}, folder, None)


def load(folder):
    """Return the progress and the value of such a checkpoint."""
    import torch

    from train.learning import sharded_state

    w = torch.zeros(1)
    return checkpoint.load(folder, lambda learner: sharded_state.read_shards({"w": w}, learner, None)), w.item()


def test_a_checkpoint_is_complete_and_old_ones_are_deleted(tmp_path):
    answer = SampleResult(7, 0, 0, pack_tokens((1, 2)), pack_logprobs((-0.5, -0.25)), ((1, 0, 2),), "stop")
    scored = ResultScored(7, 0, 0, 1 / 3, "accepted", 0.1, (("code", 1 / 7),), ((1, 0.3), (2, -0.1)))
    ahead = (SegmentStarted(3, 8, 8), ResultReceived(answer, "one two"), scored)
    for step in (1, 2, 3):
        progress = RunProgress(step, 7 * step, 12.0, 1.5, 1, (0.25, 0.5), signal_share=0.5, sampled_ahead=ahead)
        saving = checkpoint.save(tmp_path, progress, writer(step), keep=2)
        assert saving.result() == tmp_path / "checkpoints" / f"step-00000{step}"
    assert load(checkpoint.list_checkpoints(tmp_path)[-1]) == (progress, 3.0)
    assert [path.name for path in checkpoint.list_checkpoints(tmp_path)] == ["step-000002", "step-000003"]


def test_a_checkpoint_does_not_exist_before_the_learner_has_written(tmp_path):
    learner = Future()
    saving = checkpoint.save(tmp_path, RunProgress(step=1), lambda folder: learner, keep=2)
    assert not saving.done()
    assert checkpoint.list_checkpoints(tmp_path) == []
    learner.set_result(None)
    assert checkpoint.list_checkpoints(tmp_path) == [saving.result()]


@contextmanager
def full_disk():
    """Allow no file of more than 10 kB meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_named_and_harms_no_earlier_checkpoint(tmp_path):
    checkpoint.save(tmp_path, RunProgress(step=1), writer(1), keep=2).result()
    with full_disk(), pytest.raises(CheckpointError, match="Make room; the same command with --resume"):
        checkpoint.save(tmp_path, RunProgress(step=2), writer(2, n=1_000_000), keep=2).result()
    (left,) = checkpoint.list_checkpoints(tmp_path)
    assert load(left) == (RunProgress(step=1), 1.0)
    assert [path.name for path in left.parent.iterdir()] == ["step-000001"]


def test_a_run_whose_disk_fills_up_ends_at_the_next_step(small, tmp_path, monkeypatch):
    save = checkpoint.save

    def save_when_the_disk_is_full_at_step_2(run, progress, learner, *, keep):
        with full_disk() if progress.step == 2 else nullcontext():
            saving = save(run, progress, learner, keep=keep)
            wait([saving])
        return saving

    monkeypatch.setattr(checkpoint, "save", save_when_the_disk_is_full_at_step_2)
    with pytest.raises(CheckpointError, match=r"step-000002: .* from the checkpoint before"):
        trained(small, tmp_path / "run", "run.checkpoint_steps=1")
    assert [path.name for path in checkpoint.list_checkpoints(tmp_path / "run")] == ["step-000001"]
    assert [line["step"] for line in small_runs.lines(tmp_path / "run" / "metrics.jsonl")] == [0, 1, 2]


@pytest.mark.parametrize("part", ["learner/.metadata", "learner/__0_0.distcp", "progress.json"])
def test_a_damaged_checkpoint_is_named(part, tmp_path):
    folder = checkpoint.save(tmp_path, RunProgress(step=1), writer(1), keep=1).result()
    (folder / part).write_bytes(b"torn")
    with pytest.raises(CheckpointError, match=r"step-000001: a damaged checkpoint .* Delete that folder"):
        load(folder)


def test_a_folder_holds_one_run_and_one_process(small, tmp_path):
    config, folder = small_runs.read(small), tmp_path / "run"
    with (
        open_run(folder, config),
        pytest.raises(ConfigError, match="another command is writing to .*/run. Wait for it"),
        open_run(folder, config, resume=True),
    ):
        pass
    (folder / "config.json").unlink()  # as if the process had been killed before it wrote its configuration
    with open_run(folder, config):
        (folder / "metrics.jsonl").write_text("{}\n")
    with pytest.raises(ConfigError, match="holds a run. Add --resume"), open_run(folder, config):
        pass
    other = small_runs.read(small, "optimizer.learning_rate=0.5")
    with (
        pytest.raises(ConfigError, match=r"optimizer\.learning_rate = 0\.001, not 0\.5"),
        open_run(folder, other, resume=True),
    ):
        pass
    other_order = small_runs.read(small, "run.seed=1")
    with pytest.raises(ConfigError, match=r"started with run\.seed = "), open_run(folder, other_order, resume=True):
        pass
    longer = small_runs.read(small, "run.steps=9")
    with open_run(folder, longer, resume=True):
        assert read_stored_config(folder) == longer
    with open_run(folder, other, overwrite=True):
        assert sorted(path.name for path in folder.iterdir()) == [".lock", "config.json"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(ConfigError, match="exists and is not a training run"), open_run(tmp_path / "mine", config):
        pass


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(["--set", "rollout.prompt=3"], "unknown key rollout.prompt", id="unknown key"),
        pytest.param(["--set", "data.dataset=/nowhere"], "/nowhere", id="no dataset"),
        pytest.param(["--set", "evaluation.dataset=/nowhere"], "/nowhere", id="nothing to evaluate on"),
        pytest.param(["--set", "model.path=/nowhere"], "/nowhere", id="no model"),
        pytest.param(["--set", "reward.code=0"], "all weights are 0", id="no reward"),
        pytest.param(["--dry-run", "--set", "reward.code=0"], "all weights are 0", id="no reward in a plan"),
        pytest.param(["--set", "data.max_prompt_tokens=2"], "no problem to train on (6 prompts", id="no prompt"),
        pytest.param(["--set", "stages.0.max_tokens=1024"], "a context of 1024 tokens", id="no room"),
    ],
)
def test_mistakes_are_explained(options, words, small, tmp_path):
    result = curate("train", small, "--out", tmp_path / "run", *options)
    assert result.exit_code == 1, result.output
    assert words in result.output
    assert "Traceback" not in result.output


def test_a_dry_run_shows_the_plan_and_writes_nothing(small, tmp_path):
    result = curate("train", small, "--out", tmp_path / "run", "--dry-run", check=True)
    assert "3 prompts x 6 completions = 18" in result.output
    assert not (tmp_path / "run").exists()


def test_a_run_leaves_out_unverified_rows_unless_it_is_told_to_include_them(small, tmp_path):
    small.write_text(small.read_text().replace('include = ["unverified"]\n', ""))
    plan = curate("train", small, "--dry-run")
    assert ", 0 of 6 problems\n           left out: unverified 6 (no reference" in plan.output
    words = ["train", str(small), "--out", str(tmp_path / "run")]
    result = curate(*words)
    assert result.exit_code == 1
    assert "no problem to train on (left out: unverified 6" in result.output
    assert "--include unverified adds these rows" in result.output
    plan = curate(*words, "--dry-run", "--include", "unverified")
    assert ", 6 of 6 problems\nwarning    trains on 6 unverified rows (livecodebench 6)" in plan.output


def engine_processes():
    """Return the processes of engines that descend from this one."""
    import psutil

    return [each for each in psutil.Process().children() if "spawn_main" in " ".join(each.cmdline())]


@pytest.mark.thorough
def test_an_engine_that_dies_is_started_again_and_nothing_is_lost(small, tmp_path, monkeypatch):
    import tiny_world

    for name, value in tiny_world.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    killed = []

    def kill_once(step, found):
        if step == 1:
            for each in engine_processes():
                killed.append(each.pid)
                os.kill(each.pid, signal.SIGKILL)

    changes = ["engine.kind=vllm", "run.steps=2"]
    trained(small, tmp_path / "disturbed", *changes, "engine.gpus=[0]", report=kill_once)
    assert len(killed) >= 1
    assert engine_processes() == []
    trained(small, tmp_path / "here", *changes)  # in this process, which starts faster
    assert steps_of(tmp_path / "disturbed") == steps_of(tmp_path / "here")


def test_programs_answers_and_a_function_of_ones_own_are_trained_on_together(small, tmp_path, monkeypatch):
    pytest.importorskip("math_verify", reason="math-verify is not installed")
    (tmp_path / "sums.jsonl").write_text('{"prompt": "1 + 1?", "answer": "2"}\n{"prompt": "2 + 2?", "answer": "4"}\n')
    (tmp_path / "short.py").write_text(
        "from rewards import Reward\n\n"
        "def brief(answer, task):\n"
        "    half = len(answer.text) // 2\n"
        "    return Reward(-answer.n_tokens / 10, 'brief', steps=((half, -0.1), (len(answer.text), 0.1)))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    mixture = f'data.mixture=[{{dataset = "{tmp_path}/sums.jsonl", weight = 1.0}}]'
    reward = ["reward.math=1.0", "reward.function=short:brief", "reward.function_weight=0.1"]
    process = ["objective.supervision=process", "rollout.prompts=8", "rollout.completions=2", "run.steps=2"]
    run = tmp_path / "run"
    trained(small, run, mixture, *reward, *process)
    steps = [line for line in small_runs.lines(run / "metrics.jsonl") if line["step"]]
    names = {name for line in steps for name in line}
    assert {f"rewards/{name}/mean" for name in ("code", "math", "brief")} < names
    assert {f"sources/{name}/solve_rate" for name in ("livecodebench", "sums")} < names
    assert all(line["grad_norm"] > 0 for line in steps)
    card = (run / "model" / "README.md").read_text()
    assert "the function `short:brief`" in card
    assert "a file of prompts, which curate has not checked" in card
