"""An update of LoRA layers: its seconds, its memory against the plan, and the merged weights that engines get."""

from torch import Tensor

from benchmarks.gpu.learner import make_full_rows, report_peak, time_update
from benchmarks.gpu.setup import CheckEnvironment, open_learner
from train.learning.learner import Learner


def main(check: CheckEnvironment) -> None:
    run = check.make_config(lora_rank=8 if check.on_cpu else 32)
    learner = open_learner(run)
    before = _copy_first_layer(learner)
    seconds, metrics = time_update(learner, make_full_rows(check, (1, 8)))
    check.report(update_seconds=seconds, grad_norm=metrics["grad_norm"], skipped=metrics["skipped"])
    check.report(
        changed_weights=sum(not weight.equal(before[name]) for name, weight in _copy_first_layer(learner).items())
    )
    report_peak(check, run)
    learner.close()


def _copy_first_layer(learner: Learner) -> dict[str, Tensor]:
    """Return copies of the first layer's weights as engines get them."""
    return {name: weight.clone() for name, weight in learner.export_weights() if ".layers.0." in name}
