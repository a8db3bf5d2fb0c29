"""The cost of a training run on GPUs that are paid by the hour."""

import json
from pathlib import Path

from curate.dataset.output_folder import write_atomic
from train.config import Config
from train.gpu_cost import GpuCost, GpuPrice
from train.run.metrics_log import read_metrics

COST = "cost.json"


def write_cost(run: Path, config: Config, price: GpuPrice) -> GpuCost:
    """Write the cost of all steps so far, also of earlier calls, to RUN/cost.json, and return it.

    The samples are the answers of the batches, without those that the online filter replaced. Evaluations of the run
    and starts of engines are not part of a step, and cost nothing here.
    """
    seconds = [metrics["step_time"] for metrics in read_metrics(run) if metrics.get("step_time") is not None]
    n_samples = len(seconds) * config.rollout.prompts * config.rollout.completions
    cost = GpuCost(price, sum(seconds), n_samples, config.rollout.completions)
    write_atomic(run / COST, json.dumps(cost.as_table(), indent=1) + "\n")
    return cost
