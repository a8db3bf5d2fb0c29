"""What is exported to TRL trains: a real step of GRPOTrainer, with rewards from the sandbox."""

import pytest
from exported import problems, write
from foreign import needed, tiny_model

needed("trl", "torch", "transformers", "accelerate")

from curate.export import export  # noqa: E402
from curate.export_options import ExportOptions  # noqa: E402
from rewards.trl import code_reward  # noqa: E402


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


@pytest.mark.filterwarnings("ignore")  # TRL imports vLLM where there is one, and that has much to warn of
def test_grpo_takes_a_step_on_it(rows, tmp_path):
    from trl import GRPOConfig, GRPOTrainer

    seen = []

    def reward(completions, tests, id, **columns):
        """The answers of a random model are wrong, so half of them are replaced by the reference."""
        answers = [
            f"```python\n{reference}\n```" if place % 2 else completion[0]["content"]
            for place, (completion, reference) in enumerate(zip(completions, columns["reference"], strict=True))
        ]
        scores = code_reward(answers, tests=tests, **columns)
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
    trainer.train()
    ((ids, scores),) = seen
    assert len(set(ids)) == 1
    assert scores == [0.0, 1.0, 0.0, 1.0]
    (logged,) = (entry for entry in trainer.state.log_history if "reward" in entry)
    assert logged["reward"] == 0.5
    assert not (trainer.model.lm_head.weight == before).all()
