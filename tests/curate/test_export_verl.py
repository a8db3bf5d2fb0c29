"""What is exported to verl is read by its loader and scored by its scorer; and by ours."""

import pytest
from exported import SUM, SUMS, problem, problems, write
from foreign import needed, tiny_tokenizer

needed("verl", "torch", "transformers")

from curate.export import export  # noqa: E402
from curate.export_options import ExportOptions  # noqa: E402
from sandbox import Suite  # noqa: E402


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write(tmp_path_factory.mktemp("dataset") / "built", problems())


@pytest.fixture(scope="module")
def rows(dataset, tmp_path_factory):
    """As verl's loader gives them to its trainer, by name."""
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
def test_its_scorer_gives_the_reference_one_and_a_wrong_program_nothing(rows, name, wrong):
    from verl.utils.reward_score import default_compute_score

    row = rows[name]

    def score(source):
        answer = f"Look:\n```python\n{source}\n```\n"
        return default_compute_score(row["data_source"], answer, row["reward_model"]["ground_truth"])

    assert score(row["extra_info"]["reference"]) == 1.0
    assert score(wrong) == 0.0


def test_its_scorer_gives_full_marks_to_what_fails_the_eleventh_test(tmp_path):
    """Which is why ten go out; when this fails, verl has been mended."""
    import pyarrow.parquet as pq
    from verl.utils.reward_score import default_compute_score

    export(
        write(tmp_path / "built", [problem("sum", Suite(SUMS[:11]), SUM)]),
        "verl",
        tmp_path / "out",
        ExportOptions(select="all", verl_data_source="curate"),
    )
    (row,) = pq.read_table(tmp_path / "out" / "train.parquet").to_pylist()
    nearly = "a, b = map(int, input().split())\nprint(a + b if a < 10 else 0)"
    assert default_compute_score("taco", f"```python\n{nearly}\n```", row["reward_model"]["ground_truth"]) == 1.0


def test_our_reward_is_loaded_by_verl_and_runs_every_row_in_the_sandbox(dataset, tmp_path):
    import pyarrow.parquet as pq
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn

    export(dataset, "verl", tmp_path / "out", ExportOptions(select="all", verl_data_source="curate"))
    custom = {"path": "pkg://rewards.verl", "name": "compute_score"}
    compute_score = get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": custom}}))
    rows = pq.read_table(tmp_path / "out" / "train.parquet").to_pylist()
    assert len(rows) == 6
    for row in rows:
        asked = {"data_source": "curate", "ground_truth": row["reward_model"]["ground_truth"], "extra_info": {}}
        right = compute_score(solution_str=f"```python\n{row['extra_info']['reference']}\n```", **asked)
        assert (row["extra_info"]["id"], right) == (row["extra_info"]["id"], 1.0)
        assert compute_score(solution_str="I do not know.", **asked) == 0.0
        assert compute_score(solution_str="```python\n1 / 0\n```", **asked) == 0.0
