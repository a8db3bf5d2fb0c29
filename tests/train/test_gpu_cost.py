"""What GPUs cost is told per problem, per sample and in all, and is unknown where nothing was sampled."""

import json

import pytest

from train.commands.train import write_cost
from train.engine_options import EngineOptions
from train.gpu_cost import GpuCost, GpuPrice
from train.run.folder import read_stored_config
from train.run.metrics_log import read_metrics


def test_all_gpus_are_paid_for_the_whole_time():
    cost = GpuCost(GpuPrice(gpus=32, gpu_hour=2.5), seconds=1800, n_samples=1024, samples_per_problem=16)
    assert cost.total_cost == 40
    assert (cost.cost_per_problem, cost.cost_per_sample) == (0.625, 0.0390625)
    assert str(cost) == "0.625 a problem, 0.03906 a sample, 40.00 for 32 GPUs in 0.50 hours"


def test_the_run_of_deepcoder_costs_what_a_gpu_hour_makes_of_it():
    # 32 H100 for two and a half weeks; 45,000 dollars are 3.35 an hour.
    assert GpuCost(GpuPrice(32, 3.35), 17.5 * 86400, 1, 1).total_cost == pytest.approx(45_000, rel=0.01)


def test_without_samples_there_is_no_cost_of_a_sample():
    cost = GpuCost(GpuPrice(1, 3.0), 3600, 0, 8)
    assert (cost.total_cost, cost.cost_per_problem, cost.cost_per_sample) == (3.0, None, None)
    assert str(cost) == "nothing was sampled, 3.00 for 1 GPUs in 1.00 hours"


def test_a_cost_is_read_as_it_was_written():
    cost = GpuCost(GpuPrice(8, 2.0), 123.5, 64, 8)
    table = json.loads(json.dumps(cost.as_table()))
    assert GpuCost.from_table(table) == cost
    assert (table["total"], table["per_sample"]) == (cost.total_cost, cost.cost_per_sample)


def test_an_engine_has_the_gpus_of_all_its_parallel_parts():
    assert EngineOptions.from_table({}).n_gpus == 1
    assert EngineOptions.from_table({"tensor_parallel": 2, "data_parallel_size": 4}).n_gpus == 8


def test_a_run_pays_for_its_steps(whole):
    run = whole("sync")
    cost = write_cost(run, read_stored_config(run), GpuPrice(8, 2.0))
    assert cost.seconds == sum(metrics.get("step_time", 0) for metrics in read_metrics(run)) > 0
    assert (cost.n_samples, cost.samples_per_problem) == (4 * 3 * 6, 6)
    assert json.loads((run / "cost.json").read_text()) == cost.as_table()
