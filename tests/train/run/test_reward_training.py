"""A reward model learns the order that other rewards give, and some of the rankings from before again."""

import json
import random
import shutil
from concurrent.futures import Future
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import reward_models  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from rewards.reward import Completion, Reward, Task  # noqa: E402
from train.errors import ConfigError  # noqa: E402
from train.rollouts.reward_model import RewardModel, check_reward_model  # noqa: E402
from train.run.reward_training import FOLDER, RewardTraining  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other

PROMPTS = [f"Print the sum of {n} numbers." for n in range(18)]


@pytest.fixture(scope="module")
def judge(tmp_path_factory, tiny_model):
    return reward_models.folder(tmp_path_factory.mktemp("model") / "whole", tiny_model, head=0.1)


@pytest.fixture
def training(judge, tmp_path):
    """Return a function that opens a training of every step, in a folder of a run."""
    opened = []

    def open_training(name="run", **options):
        (tmp_path / name).mkdir(exist_ok=True)
        opened.append(RewardModel(judge, "cpu", trainable=True))
        how = {"every_steps": 1, "learning_rate": 1e-3, "seed": 0, **options}
        return RewardTraining(tmp_path / name, opened[-1], **how)

    yield open_training
    for model in opened:
        model.close()


def score(answer, task):
    """Return a reward of 1 for a program that adds; that of one with a question mark is unknown."""
    future = Future()
    if "?" in answer.text:
        parts = (("code", float("nan")), ("model", float("nan")))
        future.set_result(Reward(None, "sandbox_failed", parts=parts))
    else:
        right = float("+" in answer.text)
        parts = (("code", right), ("model", 0.5), ("format", float(len(answer.text))))
        future.set_result(Reward(right, "scored", parts=parts))
    return future


def submit_step(training, step, prompts=PROMPTS):
    submit, rng = training.wrap_submit(score), random.Random(step)
    answers = [f"a, b = {rng.randrange(99)}, 2\nprint(a {sign} b)" for sign in "++--*?"]
    for prompt in prompts:
        for answer in rng.sample(answers, len(answers)):
            submit(Completion(answer, 9), Task(prompt=prompt))


def test_a_model_learns_to_score_answers_in_the_order_of_other_rewards(training):
    trained = training()
    accuracies = []
    for step in range(1, 7):
        submit_step(trained, step)
        accuracies.append(trained.train_if_due(step)["reward_model/accuracy"])
    assert accuracies[0] < 0.8
    assert accuracies[-1] > 0.95
    right, wrong = (trained.model(Completion(f"print(a {sign} b)", 9), Task(prompt=PROMPTS[0])) for sign in "+-")
    assert right.value > wrong.value


def test_a_tenth_of_a_training_are_rankings_from_before(training, tmp_path):
    trained = training(every_steps=2)
    made = []
    for step in range(1, 7):
        submit_step(trained, step, PROMPTS[:9])
        made.append(trained.train_if_due(step))
    assert [metrics.get("reward_model/replayed") for metrics in made] == [None, 0.0, None, 2.0, None, 2.0]
    assert made[3]["reward_model/pairs"] == made[1]["reward_model/pairs"] / 18 * 20
    lines = [json.loads(line) for line in (tmp_path / "run" / FOLDER / "rankings.jsonl").open()]
    assert len(lines) == 6 * 9
    assert all({value for _, value in line["answers"]} == {0.0, 1.0} for line in lines)  # none is unknown
    assert all(len(line["answers"]) == 5 for line in lines)


def test_the_gradient_of_a_ranking_is_that_of_its_pairs(training):
    model = training().model
    answers = [["print(1)", 1.0], ["x\n" * 80, 0.0], ["print(2) # long " * 20, 0.5], ["far too long" * 999, 1.0]]
    loss, _, n_pairs = RewardTraining._accumulate_gradient(training_of(model), PROMPTS[0], answers, scale=0.5)
    found = [weight.grad.clone() for weight in model.parameters()]
    for weight in model.parameters():
        weight.grad = None
    one, two, three = (
        model.compute_outputs(model.make_batches(PROMPTS[0], [text])[0][1])[0] for text, _ in answers[:3]
    )
    pairs = (one - two, one - three, three - two)
    expected = -sum(torch.nn.functional.logsigmoid(margin) for margin in pairs) / 3
    (expected * 0.5).backward()
    assert (loss, n_pairs) == (pytest.approx(expected.item(), abs=1e-5), 3)
    for gradient, weight in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(gradient, weight.grad, atol=1e-5, rtol=1e-3)


def training_of(model):
    return RewardTraining(Path("/nowhere"), model, every_steps=1, learning_rate=1e-3, seed=0)


def test_a_training_that_continues_ends_with_the_same_model(training, tmp_path):
    whole = training("whole")
    for step in (1, 2, 3):
        submit_step(whole, step, PROMPTS[:4])
        whole.train_if_due(step)
    begun = training("begun")
    for step in (1, 2):
        submit_step(begun, step, PROMPTS[:4])
        begun.train_if_due(step)
    shutil.copytree(tmp_path / "begun" / FOLDER / "step-000002", tmp_path / "begun" / FOLDER / ".step-000003.writing")
    continued = training("begun")
    continued.restore(1)  # step 2 is made again
    for step in (2, 3):
        submit_step(continued, step, PROMPTS[:4])
        continued.train_if_due(step)
    models = [load_file(tmp_path / name / FOLDER / "step-000003" / "model.safetensors") for name in ("whole", "begun")]
    assert all(models[0][name].equal(models[1][name]) for name in models[0])
    check_reward_model(str(tmp_path / "begun" / FOLDER / "step-000003"))


def test_models_that_no_checkpoint_needs_are_deleted(training, tmp_path):
    trained = training()
    for step in range(1, 6):
        submit_step(trained, step, PROMPTS[:2])
        trained.train_if_due(step)
        (tmp_path / "run" / "checkpoints" / f"step-{step:06d}").mkdir(parents=True)
        for old in range(step - 1):
            shutil.rmtree(tmp_path / "run" / "checkpoints" / f"step-{old:06d}", ignore_errors=True)
    kept = sorted(path.name for path in (tmp_path / "run" / FOLDER).glob("step-*"))
    assert kept == ["step-000003", "step-000004", "step-000005"]


def test_a_model_that_scores_steps_is_not_trained_on_whole_answers(tmp_path, tiny_model):
    stepwise = reward_models.folder(tmp_path / "steps", tiny_model, "Token")
    with pytest.raises(ConfigError, match="scores steps, but training compares scores of whole completions"):
        check_reward_model(stepwise, trainable=True)
