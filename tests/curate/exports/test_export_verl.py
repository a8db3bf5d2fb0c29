"""An export to verl is read by its loader and scored by its scorer and by ours."""

import os
import threading

import pytest
from exported import SUM, SUMS, problem, problems, write
from foreign import needed, tiny_tokenizer
from source_rows import read_parquet

needed("verl", "torch", "transformers", "orjson")

from curate.exports._export import ExportOptions, export  # noqa: E402
from rewards import process_singletons  # noqa: E402
from rewards.code import CodeReward  # noqa: E402
from rewards.reward import Reward  # noqa: E402
from sandbox import Sandbox, SandboxError, Suite  # noqa: E402


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write(tmp_path_factory.mktemp("dataset") / "built", problems())


@pytest.fixture(scope="module")
def rows(dataset, tmp_path_factory):
    """Return the rows by name, as verl's loader gives them to its trainer."""
    from omegaconf import OmegaConf
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    folder = tmp_path_factory.mktemp("verl")
    export(dataset, "verl", folder / "out", ExportOptions())
    config = OmegaConf.create({"cache_dir": str(folder / "cache"), "filter_overlong_prompts_workers": 1})
    loaded = RLHFDataset(str(folder / "out" / "train.parquet"), tiny_tokenizer(), config)
    batch = collate_fn([loaded[index] for index in range(len(loaded))])
    return {
        extra["id"].removeprefix("taco/"): {name: column[place] for name, column in batch.items()}
        for place, extra in enumerate(batch["extra_info"])
    }


def test_its_loader_reads_prompts_and_keeps_what_scorers_need(rows):
    assert rows.keys() == {"call", "sum"}
    assert [message["role"] for message in rows["sum"]["raw_prompt"]] == ["user"]
    assert "Statement of sum." in rows["sum"]["raw_prompt"][0]["content"]
    assert [row["index"] for row in rows.values()] == [0, 1]
    assert rows["sum"]["reward_model"]["style"] == "rule"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        pytest.param("sum", "print(sum(map(int, input().split())) + 1)", id="stdin"),
        pytest.param("call", "class Solution:\n    def join(self, words, mark):\n        return []", id="call"),
    ],
)
def test_its_scorer_gives_one_to_the_reference_and_zero_to_a_wrong_program(rows, name, wrong):
    from verl.utils.reward_score import default_compute_score

    row = rows[name]

    def score(source):
        answer = f"Look:\n```python\n{source}\n```\n"
        return default_compute_score(row["data_source"], answer, row["reward_model"]["ground_truth"])

    assert score(row["extra_info"]["reference"]) == 1.0
    assert score(wrong) == 0.0


def test_its_scorer_gives_full_marks_to_a_program_that_fails_the_eleventh_test(tmp_path):
    """This is why only ten tests are exported. If this test fails, verl has been repaired."""
    from verl.utils.reward_score import default_compute_score

    export(
        write(tmp_path / "built", [problem("sum", Suite(SUMS[:11]), SUM)]),
        "verl",
        tmp_path / "out",
        ExportOptions(select="all", verl_data_source="curate"),
    )
    (row,) = read_parquet(tmp_path / "out" / "train.parquet")
    nearly = "a, b = map(int, input().split())\nprint(a + b if a < 10 else 0)"
    assert default_compute_score("taco", f"```python\n{nearly}\n```", row["reward_model"]["ground_truth"]) == 1.0


def test_our_reward_is_loaded_by_verl_and_runs_every_row_in_the_sandbox(dataset, tmp_path):
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn

    export(dataset, "verl", tmp_path / "out", ExportOptions(select="all", verl_data_source="curate"))
    custom = {"path": "pkg://rewards.verl", "name": "compute_score"}
    compute_score = get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": custom}}))
    rows = read_parquet(tmp_path / "out" / "train.parquet")
    assert len(rows) == 6
    for row in rows:
        asked = {"data_source": "curate", "ground_truth": row["reward_model"]["ground_truth"], "extra_info": {}}
        right = compute_score(solution_str=f"```python\n{row['extra_info']['reference']}\n```", **asked)
        assert (row["extra_info"]["id"], right) == (row["extra_info"]["id"], 1.0)
        assert compute_score(solution_str="I do not know.", **asked) == 0.0
        assert compute_score(solution_str="```python\n1 / 0\n```", **asked) == 0.0


def batch_of(rows, answers, tokenizer):
    """Return a batch as verl's agent loop builds it: prompts padded on the left, answers on the right."""
    import numpy as np
    import torch
    from tensordict import TensorDict
    from verl import DataProto

    ids = [tokenizer.encode(answer, add_special_tokens=False) for answer in answers]
    longest = max(map(len, ids))
    responses = torch.tensor([[*row, *[tokenizer.pad_token_id] * (longest - len(row))] for row in ids])
    answered = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in ids])
    prompts = torch.ones(len(ids), 3, dtype=torch.long)
    tensors = {
        "prompts": prompts,
        "responses": responses,
        "attention_mask": torch.cat([torch.tensor([[0, 1, 1]] * len(ids)), answered], dim=1),
    }
    columns = {
        "data_source": np.array(["curate"] * len(ids), dtype=object),
        "reward_model": np.array([row["reward_model"] for row in rows], dtype=object),
    }
    return DataProto(batch=TensorDict(tensors, batch_size=len(ids)), non_tensor_batch=columns)


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    tiny_tokenizer().save_pretrained(folder)
    return folder


def worker_of(folder):
    """Return verl's own worker, which loads our manager from its configuration."""
    from omegaconf import OmegaConf
    from verl.experimental.reward_loop.reward_loop import RewardLoopWorker

    manager = {
        "source": "importlib",
        "name": "RewardManager",
        "module": {"path": "pkg://rewards.verl_manager", "name": "custom_reward_manager"},
    }
    reward = {"reward_manager": manager, "reward_model": {"enable": False}, "custom_reward_function": {"path": None}}
    model = {"tokenizer_path": str(folder), "path": str(folder)}
    return RewardLoopWorker(OmegaConf.create({"reward": reward, "actor_rollout_ref": {"model": model}}))


def scored_by(worker, rows, answers):
    batch = batch_of(rows, answers, worker.input_tokenizer)
    return batch, worker.loop.run_until_complete(worker.compute_score_batch(batch))


def replace_shared_reward(monkeypatch, reward):
    """Use this reward in place of the shared one."""
    monkeypatch.setattr(process_singletons, "_singletons", {(os.getpid(), "reward"): reward})


@pytest.fixture
def curated(dataset, tmp_path):

    export(dataset, "verl", tmp_path / "out", ExportOptions(select="all", verl_data_source="curate"))
    return read_parquet(tmp_path / "out" / "train.parquet")


@pytest.mark.filterwarnings("ignore")  # importing ray causes warnings, and verl leaves an asyncio loop open
def test_our_manager_is_loaded_by_verl_and_scores_every_row_of_a_batch(curated, tokenizer_folder):
    rows = [row for row in curated for _ in range(3)]
    answers = [
        answer
        for row in curated
        for answer in (f"```python\n{row['extra_info']['reference']}\n```", "```python\n1 / 0\n```", "No.")
    ]
    worker = worker_of(tokenizer_folder)
    batch, results = scored_by(worker, rows, answers)
    assert [result["reward_score"] for result in results] == [1.0, 0.0, 0.0] * len(curated)
    assert all(result["reward_extra_info"]["acc"] == result["reward_score"] for result in results)
    scores = worker.reward_manager.assemble_rm_scores(batch, [result["reward_score"] for result in results])
    assert scores.sum(dim=1).tolist() == [1.0, 0.0, 0.0] * len(curated)


@pytest.mark.filterwarnings("ignore")
def test_the_whole_batch_is_being_scored_before_the_first_reward_is_known(curated, tokenizer_folder, monkeypatch):
    everybody = threading.Barrier(40)

    class Meeting(CodeReward):
        def __call__(self, answer, task):
            everybody.wait(60)  # until all forty are here
            return Reward(float(answer.n_tokens), "counted")

    replace_shared_reward(monkeypatch, Meeting(process_singletons.get_shared_sandbox()))
    answers = ["x" * n for n in range(1, 41)]
    _, results = scored_by(worker_of(tokenizer_folder), [curated[0]] * 40, answers)
    assert [result["reward_score"] for result in results] == [float(n) for n in range(1, 41)]


@pytest.mark.filterwarnings("ignore")
def test_unknown_rewards_are_marked_for_verl_and_many_of_them_end_the_run(curated, tokenizer_folder, monkeypatch):
    box = Sandbox(workers=1)
    box.close()
    replace_shared_reward(monkeypatch, CodeReward(box))
    worker = worker_of(tokenizer_folder)
    answers = ["```python\nprint(1)\n```", "No."]
    _, results = scored_by(worker, curated[:1] * 2, answers)
    assert [result["reward_score"] for result in results] == [0.0, 0.0]
    assert [result["reward_extra_info"]["unknown"] for result in results] == [1.0, 0.0]
    with pytest.raises(SandboxError, match="curate doctor"):
        scored_by(worker, curated[:1] * 60, [f"```python\nprint({n})\n```" for n in range(60)])
