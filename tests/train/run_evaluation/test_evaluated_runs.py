"""Small runs that are evaluated within the step, with the idle engine, and in a process of its own."""

import json
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import forked
import pytest
import small_runs
from curate_command import curate
from described_metrics import metric_description
from safetensors.torch import load_file
from small_runs import same, trained, weights
from waiting import becomes

from train import child
from train.run.metrics_log import read_metrics

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other

STEPS = 2
WHERE = ("inside", "idle", "own")


def changes(dataset, *more):
    """Return the settings of a run that is evaluated before and after it."""
    return [
        f"run.steps={STEPS}",
        f"evaluation.dataset={dataset}",
        'evaluation.include=["unverified"]',
        "evaluation.problems=3",
        "evaluation.every_steps=0",
        *more,
    ]


def evaluated(run, name="eval/pass@1"):
    return {line["step"]: line[name] for line in read_metrics(run) if name in line}


def result(run, step, suite="out"):
    return run / "evaluations" / suite / f"step-{step:06d}.json"


def evaluators(parent):
    """Return the ids of the processes that evaluate for a run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            parent_id = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent_id == parent and b"train.run.pending_evaluation" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


@pytest.fixture(scope="module", autouse=True)
def forking_python():
    """Let the processes that evaluate be forks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(child, "sys", SimpleNamespace(executable=forked.python()))
        yield


@pytest.fixture(scope="module")
def killed(tmp_path_factory, tiny_model, six_problems):
    """Return the folder of a run with a process that evaluates beside it, what the run was told, what was not over when
    it was killed, and the ids of the processes that evaluated then."""
    folder = tmp_path_factory.mktemp("own")
    small, run = small_runs.written(folder, tiny_model, six_problems), folder / "run"
    wanted = changes(six_problems, "evaluation.where=own", "evaluation.keep_best=out")
    words = [word for change in wanted for word in ("--set", change)]
    command = small_runs.command(small, run, *words)
    process = forked.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    becomes(lambda: list((run / "checkpoints").glob("step-*")) or process.poll() is not None, 300)
    beside = evaluators(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return run, small, wanted, [path.name for path in (run / "evaluations" / ".pending").iterdir()], beside


@pytest.fixture(scope="module")
def made(tmp_path_factory, tiny_model, six_problems, killed):
    """Return a function that makes a run, evaluated in one of the places or nowhere. The one that is evaluated beside
    it is killed on the way."""
    runs = {}

    def run(where):
        if where not in runs and where == "own":
            runs[where], small, wanted, _, _ = killed
            trained(small, runs[where], *wanted, resume=True)
        if where not in runs:
            folder = tmp_path_factory.mktemp(where)
            small = small_runs.written(folder, tiny_model, six_problems)
            wanted = changes(six_problems, f"evaluation.where={where}", "evaluation.keep_best=out")
            trained(small, folder / "run", *(wanted if where != "nowhere" else wanted[:1]))
            runs[where] = folder / "run"
        return runs[where]

    return run


@pytest.mark.thorough
def test_an_evaluation_ends_with_its_run_and_can_go_on(killed):
    _, _, _, pending, beside = killed
    assert pending == ["step-000000"]
    assert len(beside) == 1
    assert becomes(lambda: not Path(f"/proc/{beside[0]}").exists())


@pytest.mark.parametrize(
    "where", ["inside", *(pytest.param(where, marks=pytest.mark.thorough) for where in WHERE if where != "inside")]
)
def test_training_does_not_depend_on_evaluation(where, made):
    assert same(weights(made(where)), weights(made("nowhere")))


@pytest.mark.thorough
def test_all_places_find_the_same(made):
    results = [[result(made(where), step).read_bytes() for step in (0, STEPS)] for where in WHERE]
    assert results[0] == results[1] == results[2]
    assert results[0][0] != results[0][1]
    assert list(evaluated(made("own"))) == [0, STEPS]
    assert evaluated(made("own")) == evaluated(made("idle")) == evaluated(made("inside"))


@pytest.mark.parametrize(
    "where", ["inside", *(pytest.param(where, marks=pytest.mark.thorough) for where in WHERE if where != "inside")]
)
def test_the_best_weights_are_kept(where, made, tiny_model):
    run = made(where)
    found = evaluated(run)
    note = json.loads((run / "best" / "best.json").read_text())
    assert note["pass@1"] == found[note["step"]] == max(found.values())
    assert note["step"] == (STEPS if found[STEPS] > found[0] else 0)
    folders = run / "best", run / "model" if note["step"] else tiny_model
    assert same(*(load_file(folder / "model.safetensors") for folder in folders))
    assert list((run / "evaluations").glob(".pending/*")) == []


@pytest.mark.thorough
def test_an_evaluation_that_is_killed_does_not_end_the_run(made, small, six_problems, tmp_path, caplog):
    run = tmp_path / "run"

    def kill(step, found):
        if step != 1:
            return
        pids = []
        assert becomes(lambda: pids.extend(evaluators(os.getpid())) or pids)  # it may not have started yet
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    settings = changes(six_problems, "evaluation.where=own", "evaluation.every_steps=1")
    trained(small, run, *settings, report=kill)
    assert "step 1 is not evaluated: the evaluation of step 0 still runs" in caplog.text
    assert "step 0 is not evaluated on out: its process was killed by signal 9" in caplog.text
    assert evaluated(run) == {STEPS: evaluated(made("own"))[STEPS]}
    assert same(weights(run), weights(made("nowhere")))


@pytest.fixture(scope="module")
def several(tmp_path_factory, tiny_model, six_problems):
    """Return a run that the idle engine evaluates on two suites, by time and so after every step. It is interrupted
    when the evaluation of step 1 waits for the engine."""
    folder = tmp_path_factory.mktemp("several")
    shutil.copytree(six_problems, folder / "held")
    small = small_runs.written(folder, tiny_model, six_problems)
    suites = [f'evaluation.suites=["dataset={folder / "held"}"]', "evaluation.every_minutes=1e-9"]
    settings = changes(six_problems, *suites, "evaluation.where=idle")

    def interrupt(step, found):
        if step == 1 and "step_time" in found:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(small, folder / "run", *settings, report=interrupt)
    trained(small, folder / "run", *settings, resume=True)
    return folder / "run"


@pytest.mark.thorough
def test_an_interrupted_run_is_evaluated_by_the_idle_engine_later(several, made):
    assert [result(several, step).read_bytes() for step in (0, STEPS)] == [
        result(made("inside"), step).read_bytes() for step in (0, STEPS)
    ]


def test_several_suites_have_metrics_of_their_own(several):
    assert evaluated(several, "eval/out/pass@1") == evaluated(several, "eval/held/pass@1")
    assert list(evaluated(several, "eval/out/pass@1")) == [0, 1, 2]
    assert [name for line in read_metrics(several) for name in line if metric_description(name) is None] == []
    card = (several / "model" / "README.md").read_text()
    assert card.count("| step | pass@1 |") == 2


def test_the_steps_of_a_run_are_compared_with_the_first(several):
    done = curate("compare", several, check=True)
    tables = done.stdout.split("\n\n")
    assert [table.splitlines()[0] for table in tables if "differences" in table] == [
        f"{suite}: differences from step 0, the first" for suite in ("held", "out")
    ]
    assert [line.split()[:2] for line in tables[0].splitlines()[2:]] == [["step", str(step)] for step in range(3)]
    assert "p (Holm)" in tables[0]


def test_the_evaluations_of_runs_are_drawn(several, made, tmp_path):
    out = tmp_path / "evaluations.svg"
    runs = [f"two={several}", f"one={made('inside')}"]
    curate("plot", *runs, "--evaluations", "--out", out, check=True)
    drawn = out.read_text()
    assert [words in drawn for words in ("pass@1 on held", "pass@1 on out", "Difference from the first step")] == [
        True
    ] * 3
    nothing = curate("plot", made("nowhere"), "--evaluations")
    assert (nothing.exit_code, "no evaluation is finished" in nothing.output) == (1, True)
