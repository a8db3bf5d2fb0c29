"""Small runs whose rewards come from a model, too."""

import shutil

import pytest
import reward_models
from described_metrics import metric_description
from safetensors.torch import load_file
from small_runs import same, trained, weights

from train.errors import RolloutError
from train.run.metrics_log import read_metrics
from train.run.reward_training import FOLDER

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other


def test_a_run_with_a_reward_model_continues_to_the_same_weights(small, tmp_path, tiny_model):
    model = reward_models.folder(tmp_path / "model", tiny_model, head=0.1)
    changes = [f"reward.model={model}", "reward.model_weight=0.1", "reward.model_device=cpu", "run.steps=3"]
    undisturbed = trained(small, tmp_path / "undisturbed", *changes)

    def fail(step, metrics):
        if step == 2:
            raise KeyboardInterrupt

    run = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        trained(small, run, *changes, report=fail)
    assert same(weights(trained(small, run, *changes, resume=True)), weights(undisturbed))
    _, *steps = read_metrics(run)
    assert all({"rewards/code/mean", "rewards/model/mean"} < set(line) for line in steps)
    assert all(line["reward"] == pytest.approx(line["rewards/code/mean"] + 0.1 * line["rewards/model/mean"])
               for line in steps)  # fmt: skip
    assert f"Reward, weight 0.1: the score of the reward model `{model}`." in (run / "model" / "README.md").read_text()


def test_a_run_that_trains_its_reward_model_continues_to_the_same_weights(small, tmp_path, tiny_model):
    model = reward_models.folder(tmp_path / "model", tiny_model, head=0.1)
    changes = [f"reward.model={model}", "reward.model_weight=0.1", "reward.model_device=cpu", "run.steps=5"]
    changes += ["reward.model_train_steps=2", "reward.model_learning_rate=1e-3", "run.checkpoint_steps=3"]
    changes += ["objective.kl=0.1", "objective.reference_steps=2", "objective.reference_mix=0.6"]
    undisturbed = trained(small, tmp_path / "undisturbed", *changes)

    def judges(run):
        return {path.name: load_file(path / "model.safetensors") for path in (run / FOLDER).glob("step-*")}

    for last in (1, 3, 4):
        run = tmp_path / f"ended-{last}"

        def fail(step, metrics, last=last):
            if step == last:
                raise OSError("a fault")  # after which the last whole step is saved

        with pytest.raises(OSError, match="a fault"):
            trained(small, run, *changes, report=fail)
        for checkpoint in (run / "checkpoints").glob("step-000004"):
            shutil.rmtree(checkpoint)  # as after a kill: what was made since step 3 is made again
        trained(small, run, *changes, resume=True)
        assert same(weights(run), weights(undisturbed))
        assert (run / FOLDER / "rankings.jsonl").read_text() == (undisturbed / FOLDER / "rankings.jsonl").read_text()
        assert judges(run).keys() == judges(undisturbed).keys() == {"step-000002", "step-000004"}
        assert not same(*judges(run).values())
        assert all(same(judge, judges(undisturbed)[name]) for name, judge in judges(run).items())
    figures = [{name for name in line if name.startswith("reward_model/")} for line in read_metrics(undisturbed)]
    assert [len(each) for each in figures] == [0, 0, 4, 0, 4, 0]
    assert all(metric_description(name) for each in figures for name in each)
    assert read_metrics(undisturbed)[4]["reward_model/replayed"] == 0  # of few rankings, a tenth is none


def test_the_steps_of_answers_are_trained_on_by_their_values(small, tmp_path, tiny_model):
    model = reward_models.folder(tmp_path / "model", tiny_model, "Token", head=0.1)
    changes = [f"reward.model={model}", "reward.model_device=cpu", "reward.code=0", "run.steps=1"]
    outcome = trained(small, tmp_path / "outcome", *changes)
    process = trained(small, tmp_path / "process", *changes, "objective.supervision=process")
    assert not same(weights(outcome), weights(process))
    assert read_metrics(outcome)[-1]["reward"] == read_metrics(process)[-1]["reward"]


def test_a_model_that_fails_ends_the_run_with_a_reason(small, tmp_path, tiny_model):
    model = reward_models.folder(tmp_path / "model", tiny_model, head=float("inf"))
    with pytest.raises(
        RolloutError, match="without any reward; .* Rewards are missing if the sandbox or reward.model fails"
    ):
        trained(small, tmp_path / "run", f"reward.model={model}", "reward.model_device=cpu")
