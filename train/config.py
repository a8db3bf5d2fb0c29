"""What a run is: a TOML file becomes one frozen Config, or an error that says which line of it is wrong.

    preset = "deepcoder-16k"         # every value of it stands in train/presets/deepcoder-16k.toml
    [model]
    path = "Qwen/Qwen3-0.6B"
    [data]
    dataset = "datasets/taco"

What the file says replaces what its preset says, and `--set section.key=value` replaces both. The defaults below are
those of a run that was made: the tiny one of `make learn`.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from math import inf
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from train.errors import ConfigError

PRESETS = Path(__file__).parent / "presets"


@dataclass(frozen=True, slots=True)
class Model:
    path: str  # a folder, or a name on the Hub
    dtype: Literal["float32", "bfloat16"] = "float32"  # of the computation; the weights that are updated are float32
    lora_rank: int = 0  # 0 trains all weights
    lora_alpha: float = 32.0
    activation_checkpointing: bool = False  # a third more computation for memory that does not grow with depth


@dataclass(frozen=True, slots=True)
class Data:
    dataset: str  # a folder that curate wrote
    max_prompt_tokens: int = 2048  # longer prompts are left out, and counted
    target_tokens: tuple[int, ...] = ()  # lengths asked for in the prompt, one drawn for each (INTELLECT-2)


@dataclass(frozen=True, slots=True)
class Rollout:
    prompts: int = 16  # groups in a batch
    completions: int = 16  # in a group
    temperature: float = 1.0
    pipeline: Literal["sync", "minibatch", "one-off"] = "sync"
    online_filter: bool = True  # sample further prompts for groups whose advantages are all zero
    max_rounds: int = 4  # of sampling for one batch; then it is trained on as it is, or the run ends if it is empty
    max_seconds: float = 7200.0  # for one batch: what takes longer hangs


@dataclass(frozen=True, slots=True)
class Engine:
    kind: Literal["vllm", "transformers"] = "vllm"  # transformers: slow and simple, for tests
    gpus: tuple[int, ...] = ()  # a process of its own on these; empty: in the trainer's process
    tensor_parallel: int = 1  # GPUs of one engine; with more `gpus` there are several engines
    memory_share: float = 0.5  # of a GPU; more where the trainer uses others, or sleeps meanwhile
    max_model_len: int = 0  # tokens of prompt and answer; 0: as the stages need
    load_seconds: float = 1200.0  # until the engine must have started
    sync_seconds: float = 600.0  # until it must have taken new weights
    # Most of the mean of exp |difference| of log-probabilities between it and the trainer: NeMo-RL allows 1.05 in half
    # precision; in float32 they hardly differ.
    parity: float = 1.001


@dataclass(frozen=True, slots=True)
class Reward:
    code: float = 1.0  # weights; 0: not asked for
    format: float = 0.0
    length_budget: float = 0.0  # times -|target - length| / 1000 tokens
    overlong: float = 0.0  # DAPO's soft penalty, -1 to 0
    overlong_buffer_tokens: int = 4096
    select: Literal["longest", "strongest", "all"] = "longest"  # which tests
    tests: int = 15  # at most
    least_wall_seconds: float = 6.0  # bounds of a test's limit; within them it is the problem's own
    most_wall_seconds: float = 12.0
    workers: int = 0  # of the sandbox, or of each node of a Ray cluster; 0: one for each core
    sandbox: str = "local"  # or ray://ADDRESS, or the URL of a `curate serve`
    random: bool = False  # the control: rewards that know nothing of the answer


@dataclass(frozen=True, slots=True)
class Most:
    """What one run of a program gets at most, whatever its problem asks for; 0: as much as there is."""

    memory_mb: int = 0  # of the machine that it runs on, or of the cgroup that we live in
    wall_seconds: float = 0.0  # in training reward.most_wall_seconds holds, too
    processes: int = 0  # there are 4096 for one run
    output_kb: int = 0
    disk_mb: int = 0  # of /tmp, which is memory


@dataclass(frozen=True, slots=True)
class Objective:
    by_std: bool = False  # divide advantages by their group's standard deviation (GRPO); not: Dr.GRPO
    clip_low: float = 0.2
    clip_high: float = 0.28  # above clip_low: clip-higher (DAPO, DeepCoder)
    delta: float | None = None  # bound of the ratio where the advantage is negative (INTELLECT-2: 4); none: no bound
    kl: float = 0.0  # coefficient of k3 against the reference
    reference_steps: int = 0  # steps after which the policy becomes the reference (DeepSeekMath); 0: never
    entropy: float = 0.0  # coefficient of the entropy bonus
    aggregation: Literal["token_mean", "sequence_mean", "constant_length"] = "token_mean"
    # What becomes of answers that were cut off: they leave the loss, but count in the mean of their group (DAPO,
    # DeepCoder); that too, as if nothing were known of them; only the wrong ones lose their advantage; nothing.
    overlong: Literal["mask", "unknown", "zero_advantage", "none"] = "mask"
    old: Literal["sampler", "learner"] = "sampler"  # whose log-probabilities the ratio starts from
    truncation: float = 0.0  # most weight for the sampler's mismatch where old is the learner; 0: no weights
    mismatch_low: float = 0.0  # completions whose geometric mean of learner by sampler leaves these bounds are left
    mismatch_high: float = 0.0  # out; 0: no bounds


@dataclass(frozen=True, slots=True)
class Optimizer:
    learning_rate: float = 3e-4
    schedule: Literal["constant", "cosine"] = "constant"
    warmup_steps: int = 0  # updates, of which a batch has minibatches * epochs
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0
    clip_norm: float = 1.0
    minibatches: int = 2  # updates in one pass over a batch
    epochs: int = 1  # passes over a batch: DeepSeekMath's mu, TRL's num_iterations
    row_tokens: int = 4096  # of one forward pass; several sequences share a row


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the run with its own answer length. It ends at a step, or once so many answers are cut off."""

    max_tokens: int = 96
    until_step: int = 0  # 0: not by step
    until_clipped: float = 0.0  # mean share of cut-off answers over `over_steps`; 0: not by them
    over_steps: int = 5


@dataclass(frozen=True, slots=True)
class Evaluation:
    dataset: str = ""  # folder of a dataset, or a file of HumanEval or LiveCodeBench; empty: no evaluation in training
    window: str = ""  # of contest dates, 2024-08-01..2025-02-01
    every_steps: int = 10
    k: int = 1  # samples of each problem
    problems: int = 0  # 0: all
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 0  # 0: as in training; more shows what was learnt beyond it


@dataclass(frozen=True, slots=True)
class Run:
    steps: int = 50  # batches trained on
    seed: int = 0
    checkpoint_steps: int = 10
    keep: int = 2  # checkpoints; the last always stays
    wandb: str = ""  # project; empty: not logged there
    tensorboard: bool = False
    most_truncated: float = 0.95  # share of cut-off answers at which there is nothing to learn from, five steps long
    save_samples: int = 4  # completions of each step, with their verdicts


_ABOVE_ZERO = {  # for others 0 has a meaning
    "rollout": "prompts max_rounds max_seconds",
    "engine": "tensor_parallel memory_share load_seconds sync_seconds parity",
    "reward": "overlong_buffer_tokens tests least_wall_seconds",
    "optimizer": "learning_rate clip_norm minibatches epochs row_tokens",
    "evaluation": "every_steps k top_p",
    "run": "steps checkpoint_steps",
}


@dataclass(frozen=True, slots=True)
class Config:
    model: Model
    data: Data
    rollout: Rollout = field(default_factory=Rollout)
    engine: Engine = field(default_factory=Engine)
    reward: Reward = field(default_factory=Reward)
    most: Most = field(default_factory=Most)
    objective: Objective = field(default_factory=Objective)
    optimizer: Optimizer = field(default_factory=Optimizer)
    evaluation: Evaluation = field(default_factory=Evaluation)
    run: Run = field(default_factory=Run)
    stages: tuple[Stage, ...] = (Stage(),)

    def __post_init__(self) -> None:
        shortest = min((stage.max_tokens for stage in self.stages), default=0)
        for wrong, words in (
            (not self.stages, "give at least one [[stages]]"),
            *((value <= 0, f"{name}: give more than 0") for name, value in self._above_zero()),
            (self.rollout.completions < 2, "rollout.completions: a group of one has no advantage; give at least 2"),
            (
                self.optimizer.minibatches > self.rollout.prompts,
                "optimizer.minibatches: more than there are groups (rollout.prompts)",
            ),
            (
                self.objective.delta is not None and self.objective.delta < 1 + self.objective.clip_high,
                "objective.delta: below 1 + clip_high it would clip what is meant to learn",
            ),
            (
                self.rollout.temperature <= 0,
                "rollout.temperature: without chance all answers of a group are the same; give more than 0",
            ),
            (
                max(self.rollout.temperature, self.evaluation.temperature) > 2,
                "rollout.temperature and evaluation.temperature are at most 2",
            ),
            (self.evaluation.top_p > 1, "evaluation.top_p is at most 1"),
            (max(self.optimizer.betas) >= 1, "optimizer.betas are below 1"),
            (
                self.reward.least_wall_seconds > self.reward.most_wall_seconds,
                "reward.least_wall_seconds is more than reward.most_wall_seconds",
            ),
            (
                self.reward.length_budget > 0 and not self.data.target_tokens,
                "reward.length_budget: give the lengths that prompts ask for in data.target_tokens",
            ),
            (
                self.reward.overlong > 0 and self.reward.overlong_buffer_tokens >= shortest,
                "reward.overlong_buffer_tokens: every answer would be punished; give fewer than a stage's max_tokens",
            ),
            (
                self.objective.reference_steps > 0 and not self.objective.kl,
                "objective.reference_steps: there is no reference without objective.kl",
            ),
            (
                self.objective.mismatch_high < self.objective.mismatch_low,
                "objective.mismatch_high is below mismatch_low: no completion would be left",
            ),
            (
                self.objective.mismatch_high > 0 and self.objective.old == "sampler",
                'objective.mismatch_high compares the learner with the sampler: it needs objective.old = "learner"',
            ),
            (
                self.objective.truncation > 0 and self.objective.old == "sampler",
                'objective.truncation weighs the learner against the sampler: it needs objective.old = "learner"',
            ),
            (
                self.rollout.pipeline == "one-off" and not self.engine.gpus and self.engine.memory_share > 0.6,
                "rollout.pipeline one-off: trainer and engine work at the same time and share the memory of one GPU; "
                "name others in engine.gpus, or lower engine.memory_share to 0.6",
            ),
            (
                self.engine.tensor_parallel > 1 and not self.engine.gpus,
                "engine.tensor_parallel: name the GPUs in engine.gpus; in the trainer's process an engine has one",
            ),
            (
                self.rollout.pipeline == "minibatch" and self.objective.old == "learner",
                "rollout.pipeline minibatch: the weights that a later minibatch was sampled with are gone when it is "
                'learnt from; give objective.old = "sampler"',
            ),
            (
                self.rollout.pipeline == "minibatch" and self.optimizer.epochs > 1,
                "optimizer.epochs: under rollout.pipeline minibatch there is no whole batch to pass over again",
            ),
            (
                any(stage.until_step == 0 and stage.until_clipped == 0 for stage in self.stages[:-1]),
                "stages: all but the last need until_step or until_clipped",
            ),
        ):
            if wrong:
                raise ConfigError(words)

    def _above_zero(self) -> Iterator[tuple[str, float]]:
        for section, names in _ABOVE_ZERO.items():
            for name in names.split():
                yield f"{section}.{name}", getattr(getattr(self, section), name)
        for number, stage in enumerate(self.stages):
            yield f"stages.{number}.max_tokens", stage.max_tokens
            yield f"stages.{number}.over_steps", stage.over_steps


def read(path: Path, changes: Sequence[str] = ()) -> Config:
    """The configuration in a TOML file, with `section.key=value` changes. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {getattr(error, 'strerror', 'no text')}. Give the path of a TOML file.") from error
    given = _toml(text, str(path))
    preset = given.pop("preset", None)
    table = {} if preset is None else _preset(preset)
    _merge(table, given)
    for change in changes:
        _change(table, change)
    config: Config = _parsed(Config, table, "")
    return config


def as_table(value: Any) -> Any:
    """The configuration as plain dictionaries, lists and values, as JSON and TOML have them; without what is None."""
    if hasattr(value, "__dataclass_fields__"):
        pairs = ((each.name, as_table(getattr(value, each.name))) for each in fields(value))
        return {name: one for name, one in pairs if one is not None}
    return [as_table(one) for one in value] if isinstance(value, tuple) else value


def from_table(table: Mapping[str, Any]) -> Config:
    """What as_table made."""
    config: Config = _parsed(Config, table, "")
    return config


def presets() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def _preset(name: object) -> dict[str, Any]:
    if name not in presets():
        raise ConfigError(f"preset {name!r} is none of {', '.join(presets())}")
    return _toml((PRESETS / f"{name}.toml").read_text(encoding="utf-8"), f"preset {name}")


def _toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: not TOML: {error}") from error


def _merge(table: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(table.get(key), dict):
            _merge(table[key], value)
        else:
            table[key] = value


def _change(table: dict[str, Any], change: str) -> None:
    name, equals, text = change.partition("=")
    *sections, key = name.strip().split(".")
    if not equals or len(sections) not in (1, 2):
        raise ConfigError(f"--set {change}: give section.key=value, or stages.0.key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string, so that nobody has to quote twice in a shell
    place: Any = table
    for section in sections:
        if isinstance(place, list):
            if not section.isdecimal() or int(section) >= len(place):
                raise ConfigError(f"--set {change}: there are only {len(place)} stages, from 0 on")
            place = place[int(section)]
        else:
            place = place.setdefault(section, [{}] if section == "stages" else {})
    if not isinstance(place, dict):
        raise ConfigError(f"--set {change}: {'.'.join(sections)} has no keys of its own; give stages.0.{key}=value")
    place[key] = value


def _parsed(kind: Any, value: Any, where: str) -> Any:
    """The value as this type. Raises ConfigError with the key's whole name."""
    origin, inner = get_origin(kind), get_args(kind)
    if hasattr(kind, "__dataclass_fields__"):
        return _parsed_section(kind, value, where)
    if origin is Literal:
        if value in inner:
            return value
        raise ConfigError(f"{where}: {value!r} is none of {', '.join(map(repr, inner))}")
    if origin in (Union, UnionType):
        return None if value is None or value == "none" else _parsed(inner[0], value, where)
    if origin is tuple:
        of_any_length = inner[-1] is Ellipsis
        if not isinstance(value, list) or not (of_any_length or len(value) == len(inner)):
            raise ConfigError(f"{where}: {value!r} is no list{'' if of_any_length else f' of {len(inner)}'}")
        kinds = [inner[0]] * len(value) if of_any_length else inner
        return tuple(
            _parsed(one, each, f"{where}.{at}") for at, (one, each) in enumerate(zip(kinds, value, strict=True))
        )
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise ConfigError(f"{where}: {value!r} is not of type {kind.__name__}")
    if kind in (int, float) and not 0 <= value < inf:  # nan neither
        raise ConfigError(f"{where}: {value} is not a number from 0 on")
    return value


def _parsed_section(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: {value!r} is no section; write [{where}] and its keys below")
    prefix = f"{where}." if where else ""
    types = get_type_hints(kind)
    unknown = sorted(value.keys() - types.keys())
    if unknown:
        raise ConfigError(f"unknown key {prefix}{unknown[0]}; known are {', '.join(prefix + name for name in types)}")
    for each in fields(kind):
        if each.name not in value and each.default is MISSING and each.default_factory is MISSING:
            raise ConfigError(f"{prefix}{each.name} is missing; it has no default")
    return kind(**{name: _parsed(types[name], one, prefix + name) for name, one in value.items()})
