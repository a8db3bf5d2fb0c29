"""TRL can train on an export: a real step of GRPOTrainer, with rewards from the sandbox."""

import pytest
from exported import problems, write
from foreign import needed, tiny_model

needed("trl", "torch", "transformers", "accelerate")

from curate.exports._export import ExportOptions, export  # noqa: E402
from rewards.code import CodeReward  # noqa: E402
from rewards.form import LengthBudgetReward, OverlongPenalty  # noqa: E402
from rewards.process_singletons import get_shared_sandbox  # noqa: E402
from rewards.trl import RewardFunction, code_reward  # noqa: E402
from rewards.weighted import WeightedReward  # noqa: E402
from sandbox import ExecutionLost, Sandbox  # noqa: E402


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    import datasets

    folder = tmp_path_factory.mktemp("trl")
    dataset = write(folder / "built", problems())
    export(dataset, "trl", folder / "out", ExportOptions())
    return datasets.load_dataset(str(folder / "out"), split="train", cache_dir=str(folder / "cache"))


def test_every_verified_problem_is_a_conversation_with_its_tests(rows):
    assert [row["id"].removeprefix("taco/") for row in rows] == "call dict none other referee slow sum".split()
    assert [message["role"] for message in rows[0]["prompt"]] == ["user"]


def test_the_reward_tells_right_from_wrong(rows):
    right = [[{"role": "assistant", "content": f"```python\n{row['reference']}\n```"}] for row in rows]
    tests = rows["tests"]
    assert code_reward(completions=right, tests=tests, prompts=rows["prompt"], id=rows["id"]) == [1.0] * 7
    assert code_reward(completions=["```python\n1 / 0\n```"] * 7, tests=tests) == [0.0] * 7
    assert code_reward(completions=["Pardon?"] * 7, tests=tests) == [0.0] * 7


@pytest.mark.filterwarnings("ignore")  # TRL imports vLLM if it is installed, which causes many warnings
def test_grpo_takes_a_step_on_it_and_leaves_out_completions_that_the_sandbox_lost(rows, tmp_path):
    from trl import GRPOConfig, GRPOTrainer

    seen = []

    class Unsteady(Sandbox):
        """A real sandbox that loses those programs that are marked."""

        def judge(self, program, suite, *, run_all=False):
            if program.source.endswith("# lost\n"):
                raise ExecutionLost("the machine was starved")
            return super().judge(program, suite, run_all=run_all)

    box = Unsteady(workers=2)
    function = RewardFunction(CodeReward(box), name="code")

    def reward(completions, tests, id, **columns):
        """Score answers. Half of them are replaced by the reference, because a random model gives only wrong ones."""
        programs = [f"```python\n{reference}\n```" for reference in columns["reference"]]
        answers = [
            [completion[0]["content"], program, "```python\n1 / 0\n```", program.replace("\n```", "\n# lost\n```")][n]
            for n, (completion, program) in enumerate(zip(completions, programs, strict=True))
        ]
        scores = function(answers, tests=tests, **columns)
        seen.append((id, scores))
        return scores

    arguments = GRPOConfig(
        output_dir=str(tmp_path / "run"),
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=8,
        max_steps=1,
        logging_steps=1,
        learning_rate=0.1,
        report_to="none",
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
    )
    model = str(tiny_model(tmp_path / "model"))
    trainer = GRPOTrainer(model, reward_funcs=reward, args=arguments, train_dataset=rows)
    before = trainer.model.lm_head.weight.detach().clone()
    with box:
        trainer.train()
    ((ids, scores),) = seen
    assert len(set(ids)) == 1
    assert scores == [0.0, 1.0, 0.0, None]
    advantages = trainer._logs["advantages"]
    assert [round(value, 2) for value in advantages] == [-0.58, 1.15, -0.58, 0.0]  # of three, not four, rewards
    assert not (trainer.model.lm_head.weight == before).all()


def test_a_reward_function_gives_our_rewards_the_columns_that_they_need(rows):
    weighted = WeightedReward(
        [(1.0, CodeReward(get_shared_sandbox())), (0.5, OverlongPenalty(50)), (0.25, LengthBudgetReward())]
    )
    function = RewardFunction(weighted, name="all", max_tokens=100)
    (row,) = (row for row in rows if row["id"] == "taco/sum")
    right = f"```python\n{row['reference']}\n```"
    scores = function(
        completions=[right, right, "No."],
        completion_ids=[[1] * 40, [1] * 100, [1] * 75],
        prompts=["?"] * 3,
        tests=[row["tests"]] * 3,
        strongest_tests=[[7, 2]] * 3,
        time_limit_seconds=[None, 1.5, 9.0],
        target_tokens=[40] * 3,
    )
    assert scores == pytest.approx([1.0, 1.0 - 0.5 - 0.25 * 0.06, -0.25 - 0.25 * 0.035])
    with pytest.raises(ValueError, match="target_tokens"):
        function(completions=[right], completion_ids=[[1]], tests=[row["tests"]])
    assert function.__name__ == "all"
