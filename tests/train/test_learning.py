"""With vLLM and the sandbox, a tiny model learns from rewards to solve more problems that it has never seen."""

from pathlib import Path

import pytest
import tiny_world

pytestmark = pytest.mark.filterwarnings("ignore")  # of vLLM, torch and transformers about each other

EXAMPLE = Path(__file__).parents[2] / "examples" / "learn"
KINDS = ("tail", "weighted")  # of the thirteen: short programs
RUN = """
[model]
path = "{folder}/model"
[data]
dataset = "{folder}/train"
max_prompt_tokens = 64
[rollout]
prompts = 8
[optimizer]
learning_rate = 1e-3
[evaluation]
dataset = "{folder}/held_out"
every_steps = 100
k = 6
[run]
steps = 10
checkpoint_steps = 100
[[stages]]
max_tokens = 48
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with training problems, held-out problems, and a model that was shown partly right answers."""
    pytest.importorskip("vllm", reason="vLLM is not installed; `make test` installs it")
    folder = tmp_path_factory.mktemp("learning")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**tiny_world.ENVIRONMENT, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}.items():
            patch.setenv(name, value)
        patch.syspath_prepend(EXAMPLE)
        import problems
        from warm_up import warm_up

        from curate.pipeline import BuildOptions, build
        from sandbox import SandboxOptions

        learnt, held_out = (
            [problem for problem in some if problem.task.name.startswith(KINDS)] for some in problems.make_problems()
        )
        problems.write(
            folder, train=map(problems.make_row, learnt[:64]), held_out=map(problems.make_row, held_out[:30])
        )
        for name in ("train", "held_out"):
            where = [("generic", f"{folder}/{name}.toml")]
            build(where, folder / name, BuildOptions(mutants=0), sandbox=SandboxOptions(workers=2))
        warm_up(learnt, folder / "model", steps=320, seed=0, hidden=64, layers=3)
        (folder / "run.toml").write_text(RUN.format(folder=folder))
        yield folder


def passed(folder, name, *changes):
    """Train, and return pass@1 on the held-out problems before and after."""
    from train import config
    from train.loop import train
    from train.run.folder import open_run
    from train.run.metrics_log import read_metrics

    settings = config.read_config(folder / "run.toml", changes)
    with open_run(folder / name, settings):
        train(settings, folder / name)
    return [line["eval/pass@1"] for line in read_metrics(folder / name) if line.get("eval/pass@1") is not None]


@pytest.fixture(scope="module")
def learned(folder):
    """Return pass@1 before and after training with the rewards of the sandbox."""
    return passed(folder, "code")


def test_rewards_of_the_sandbox_teach(learned):
    before, after = learned
    assert 0.1 < before < 0.6
    assert after > before + 0.15


@pytest.mark.thorough
def test_random_rewards_do_not_teach(folder, learned):
    before, after = learned
    same, by_chance = passed(folder, "random", "reward.random=true", "run.steps=6")
    assert same == pytest.approx(before, abs=0.01)  # the same model
    assert by_chance < before + 0.1
    assert by_chance < after - 0.15
