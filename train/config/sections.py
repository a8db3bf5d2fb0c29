"""The sections of a configuration. Comments give the unit and purpose of each value; checks.py has the conditions
across keys. Most defaults come from our smallest run, `make learn`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from curate.prompt import PromptFormat
from sandbox import SandboxOptions
from train.config import checks

# read.py accepts only finite numbers >= 0. These types have narrower bounds.
PositiveInt = Annotated[int, Meta(gt=0)]
PositiveFloat = Annotated[float, Meta(gt=0)]
PositiveShare = Annotated[float, Meta(gt=0, le=1)]
Temperature = Annotated[float, Meta(le=2)]
Share = Annotated[float, Meta(le=1)]


@dataclass(frozen=True, slots=True)
class ModelConfig:
    path: str  # a folder, or the name of a model on the Hub
    # Precision of the computation; trained weights are float32. "auto": "bfloat16" on a GPU, "float32" on a CPU.
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    # Precision of the logits, in learner and engine. "model": the precision in dtype. "float32": the product of hidden
    # states and head is not rounded, so learner and engine differ less. vLLM's residual stream always has the precision
    # of dtype.
    head_dtype: Literal["model", "float32"] = "model"
    # Rank of the LoRA layers; 0: all weights are trained. With LoRA, the base weights stay in `dtype`, and
    # RUN/model/adapter stores the LoRA layers in peft's format, which vLLM also reads.
    lora_rank: int = 0
    lora_alpha: float = 32.0  # scale of the LoRA layers: their output is multiplied by lora_alpha / lora_rank
    activation_checkpointing: bool = False  # true: recompute activations; a third more computation, less memory

    def __post_init__(self) -> None:
        if self.dtype == "auto":
            from torch.cuda import device_count

            object.__setattr__(self, "dtype", "bfloat16" if device_count() else "float32")


@dataclass(frozen=True, slots=True)
class MixedDataset:
    """An additional dataset of a run's mixture."""

    dataset: str  # folder, Hub name or prompt file, as in data.dataset
    weight: PositiveFloat = 1.0  # relative share of the prompts


@dataclass(frozen=True, slots=True)
class DataConfig:
    # Folder of a dataset that curate built, its name on the Hub (owner/name@revision), or a file of prompts such as
    # math.jsonl, with the columns prompt and answer.
    dataset: str
    weight: PositiveFloat = 1.0  # relative share of the prompts in a mixture
    # Further datasets, each a table [[data.mixture]] with its own dataset and weight.
    mixture: tuple[MixedDataset, ...] = ()
    # Untrusted rows to train on.
    include: tuple[Literal["unverified", "suspects", "altered"], ...] = ()
    max_prompt_tokens: int = 2048  # longer prompts are excluded and counted
    target_tokens: tuple[int, ...] = ()  # completion lengths; each prompt requests one of them at random (INTELLECT-2)

    def list_datasets(self) -> list[tuple[str, float]]:
        """Return each dataset with its weight."""
        return [(self.dataset, self.weight), *((mixed.dataset, mixed.weight) for mixed in self.mixture)]


@dataclass(frozen=True, slots=True)
class RolloutConfig:
    prompts: PositiveInt = 16  # prompts in a batch; the completions of one prompt are a group
    completions: int = 16  # completions of each prompt
    temperature: Temperature = 1.0  # sampling temperature; the learner applies it as well
    # Overlap of sampling and training. "sync": none. "minibatch": the learner trains on the first minibatch while the
    # rest is sampled. "one-off": the next batch is sampled while the learner trains on this one. "async": sampling
    # never stops, completions continue under new weights, and the learner trains on groups as they become trainable.
    pipeline: Literal["sync", "minibatch", "one-off", "async"] = "sync"
    # Under "async", the maximum number of weight updates between dispatching a group and training on it; 0: as "sync".
    # AReaL measured almost no loss of quality up to 4. Values above 1 pay off with dozens of GPUs.
    staleness: int = 1
    # Under "async", the maximum number of groups in sampling; 0: as many as `staleness` allows. The
    # smallest value that keeps the engines busy lowers staleness.
    max_running_groups: int = 0
    # Under "async", whether engines load new weights during completions, which then continue under the new weights.
    # false: engines first finish all running completions, as in AReaL's ablation.
    interrupt: bool = True
    online_filter: bool = True  # replace groups with only zero advantages by groups of further prompts
    # After max_rounds * prompts sampled groups, the learner trains on the incomplete batch; an empty one ends the run.
    max_rounds: PositiveInt = 4
    # Time limit for sampling one batch. A slower engine counts as hung.
    max_seconds: PositiveFloat = 7200.0


@dataclass(frozen=True, slots=True)
class EngineConfig:
    kind: Literal["vllm", "transformers"] = "vllm"  # engine library; transformers is slow, and meant for tests
    gpus: tuple[int, ...] = ()  # GPUs for engines in their own processes; empty: an engine in the trainer's process
    tensor_parallel: PositiveInt = 1  # GPUs of one engine; with more `gpus` there are several engines
    memory_share: PositiveShare = 0.5  # share of a GPU's memory; can be larger if the trainer uses other GPUs
    max_model_len: int = 0  # tokens of prompt and completion together; 0: as many as the stages need
    concurrency: int = 0  # concurrent completions of one engine (vLLM's max_num_seqs); 0: vLLM's default
    # Further options of vLLM's EngineArgs, such as enforce_eager = true; also accepted directly in [engine].
    options: Mapping[str, Any] = field(default_factory=dict)
    # Time limit for starting an engine of `gpus`. Under "async", rollout.max_seconds applies instead.
    load_seconds: PositiveFloat = 1200.0
    sync_seconds: PositiveFloat = 600.0  # time limit for loading new weights; workers' leases do not expire meanwhile
    # Transport of new weights to engines. "auto": in memory within the trainer's process, through shared memory on its
    # machine, over HTTP elsewhere. "nccl": from GPU to GPU, faster for large models on the trainer's machine. With
    # "nccl", an engine that exits ends the run, because its replacement cannot join an existing NCCL group.
    transfer: Literal["auto", "nccl"] = "auto"
    # Maximum restarts per hour of engines in their own processes, over all engines, after crashes. An engine that
    # crashes more often ends the run.
    restarts_per_hour: int = 3
    # Upper bound of mean exp |learner's - engine's log-probability|. 0: 1.05 in bfloat16, NeMo-RL's bound in half
    # precision, and 1.001 in float32.
    parity: float = 0.0
    # Value of the metric mismatch/kl above which the run logs a warning. It covers the tokens of a batch that sampler
    # and learner computed with the same weights. In float32 it is near 1e-9. PRIME-RL's bound for merging a model is
    # 0.015; partially loaded weights gave 2 to 5 there.
    mismatch_alarm: PositiveFloat = 0.01
    mismatch_stop: PositiveFloat = 0.1  # value of the metric mismatch/kl above which the run ends


@dataclass(frozen=True, slots=True)
class WorkersConfig:
    """The workers of the pipeline "async". A worker has one engine, leases groups from this command, and may run on
    any machine: `curate rollout --controller URL` starts one.
    """

    # HOST:PORT at which remote workers reach this command; empty: local workers only. The environment variable
    # CURATE_TOKEN holds the workers' token.
    listen: str = ""
    # true: this command starts this machine's engines: one in its own process, or, with engine.gpus, a process for
    # every engine.tensor_parallel GPUs. false: it waits for remote workers.
    local: bool = True


@dataclass(frozen=True, slots=True)
class RewardConfig:
    # Weight of the reward for passing tests; rewards with weight 0 are not computed.
    code: float = 1.0
    math: float = 0.0  # weight of the reward for correct answers, for prompts with an expected answer
    # A custom reward function, "module:function", found in the working directory or among the installed packages. It is
    # called with a rewards.Completion and a rewards.Task, and returns a number, a rewards.Reward, or None if unknown.
    function: str = ""
    function_weight: float = 1.0  # weight of the custom reward function
    # A reward model: folder or Hub name of a classifier with one output, its own tokenizer and chat template. A
    # sequence classifier scores whole completions; a token classifier scores each line as a step.
    model: str = ""
    model_weight: float = 1.0  # weight of the reward model's raw score
    model_device: str = ""  # device: "cpu" or a GPU such as "cuda:7"; empty: the learner's first GPU, or the CPU
    # Steps between updates of the reward model (DeepSeekMath's iterative GRPO); 0: never. The other rewards rank the
    # run's completions, and an update trains the model on these rankings. A tenth of the rankings are replayed from
    # earlier updates.
    model_train_steps: int = 0
    model_learning_rate: PositiveFloat = 2e-5  # learning rate of the reward model's updates
    format: float = 0.0  # weight of the reward for the form <think>...</think><answer>...</answer>
    length_budget: float = 0.0  # weight of the length error -|target - length| / 1000, in tokens
    overlong: float = 0.0  # weight of DAPO's soft overlong penalty, from -1 to 0
    # Number of tokens before the length limit over which the soft overlong penalty grows.
    overlong_buffer_tokens: PositiveInt = 4096
    select: Literal["longest", "strongest", "all"] = "longest"  # selection of a problem's tests
    tests: PositiveInt = 15  # maximum number of tests, unless select is "all"
    min_test_seconds: PositiveFloat = 6.0  # lower bound of a test's time limit, by default the problem's own
    max_test_seconds: float = 12.0  # upper bound of a test's time limit
    languages: tuple[Literal["python", "cpp"], ...] = ("python",)  # accepted languages of programs
    # "labeled": only a code block whose fence names its language is a program, as in DeepCoder's paper. "any": a block
    # without a label is one, too, if there is no other.
    fence: Literal["any", "labeled"] = "any"
    random: bool = False  # true: random rewards, as a control experiment

    @property
    def uses_model(self) -> bool:
        """Return whether a reward model is loaded."""
        return bool(self.model and self.model_weight and not self.random)

    @property
    def model_gpu(self) -> int | None:
        """Return the index of the GPU reserved for the reward model; None if there is none."""
        number = self.model_device.removeprefix("cuda:")
        return int(number) if self.uses_model and number.isdecimal() and int(number) else None


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """The sandbox of the programs in completions. Options of `curate train` of the same names override these keys."""

    # "local": on this machine. "docker": in containers. "ray": on a cluster's nodes. "http": behind `curate serve`.
    backend: Literal["local", "docker", "ray", "http"] = "local"
    address: str = ""  # address of a Ray cluster, HOST:PORT or auto; or the URL of a `curate serve`
    image: str = ""  # Docker image; empty: the image of `make sandbox-image`
    workers: int = 0  # workers of the sandbox, or of each node of a Ray cluster; 0: one per usable core
    isolation: Literal["full", "best-effort"] = "full"  # best-effort accepts machines that cannot isolate fully
    packages: tuple[str, ...] = ()  # importable packages; empty: the packages of the dataset's build
    packages_from: str = ""  # folder with the installed packages; empty: the trainer's environment
    packages_sha256: str = ""  # hash of the packages, recorded by a run; empty: any

    def to_sandbox_options(self) -> SandboxOptions:
        """Convert this section to sandbox options. Raises ValueError if values contradict each other."""
        workers = self.workers or None
        return SandboxOptions(
            self.backend, self.address, self.image, workers, self.isolation, self.packages, self.packages_from
        )


@dataclass(frozen=True, slots=True)
class ProgramLimitsConfig:
    """Upper limits of one program run, which override larger limits of its problem. 0: only the machine's limits."""

    memory_mb: int = 0  # 0: the memory of the machine, or of our cgroup
    wall_seconds: float = 0.0  # in training, reward.max_test_seconds applies as well
    processes: int = 0  # 0: 4096
    output_kb: int = 0  # maximum output of a program
    disk_mb: int = 0  # size of /tmp, a file system in memory


@dataclass(frozen=True, slots=True)
class ObjectiveConfig:
    # Source of advantages. "outcome": the reward of the whole completion. "process": the rewards of its steps, from
    # reward.model or reward.function; a token's advantage is the sum over its own and later steps (DeepSeekMath).
    supervision: Literal["outcome", "process"] = "outcome"
    by_std: bool = False  # true: divide advantages by their group's standard deviation (GRPO); false: Dr.GRPO
    std_epsilon: float = 1e-4  # added to the group's standard deviation: 1e-4 in TRL, 1e-6 in verl
    clip_low: Share = 0.2  # ratios are clipped to the range from 1 - clip_low to 1 + clip_high
    clip_high: float = 0.28  # a value above clip_low is clip-higher (DAPO, DeepCoder)
    delta: float | None = None  # upper bound of the ratio for negative advantages (INTELLECT-2: 4)
    kl: float = 0.0  # coefficient of the k3 estimate of KL(policy || reference)
    reference_steps: int = 0  # steps between reference updates (DeepSeekMath); 0: never
    # Interpolation weight of the policy in a reference update: 1 replaces the reference, TR-DPO and TRL advise 0.6.
    reference_mix: PositiveShare = 1.0
    entropy: float = 0.0  # coefficient of the entropy bonus
    # "token_mean": all tokens of the batch weigh the same. "sequence_mean": all completions do. "constant_length": sum
    # over completions, divided by the maximum length (Dr.GRPO).
    aggregation: Literal["token_mean", "sequence_mean", "constant_length"] = "token_mean"
    # Treatment of truncated completions. "mask": excluded from the loss but not from the group's mean (DAPO,
    # DeepCoder). "unknown": excluded from both, as if they had no reward. "zero_advantage": advantage 0 if the reward
    # is 0 (DeepCoder's released code). "none": no special treatment.
    overlong: Literal["mask", "unknown", "zero_advantage", "none"] = "mask"
    old: Literal["sampler", "learner"] = "sampler"  # source of the old log-probabilities in the ratio
    truncation: float = 0.0  # upper bound of the importance weights that correct the sampler's mismatch; 0: no weights
    # Completions are masked if the geometric mean of the learner-to-sampler probability ratios is below this bound.
    mismatch_low: float = 0.0
    mismatch_high: float = 0.0  # upper bound of the same mean of ratios; 0: no masking


@dataclass(frozen=True, slots=True)
class OptimizerConfig:
    learning_rate: PositiveFloat = 3e-4  # peak learning rate, after the warm-up
    schedule: Literal["constant", "cosine"] = "constant"  # learning rate schedule after the warm-up
    warmup_steps: int = 0  # length of the warm-up in updates; a batch has minibatches * epochs updates
    betas: tuple[float, float] = (0.9, 0.99)  # betas of AdamW
    weight_decay: float = 0.0  # weight decay of AdamW
    clip_norm: PositiveFloat = 1.0  # maximum gradient norm
    minibatches: PositiveInt = 2  # minibatches in a batch, one update each
    epochs: PositiveInt = 1  # passes over a batch: DeepSeekMath's mu, TRL's num_iterations
    row_tokens: PositiveInt = 4096  # tokens of one forward pass over packed sequences
    offload: bool = False  # true: AdamW's moments, 8 bytes per weight, stay in CPU memory


@dataclass(frozen=True, slots=True)
class ParallelismConfig:
    """Division of the learner's work among the ranks of torchrun."""

    # Ranks that together hold one copy of the weights; 0: all. With the number of GPUs per machine, each machine has a
    # copy, and only gradients cross machines.
    shard: int = 0
    # Ranks that share each row, so sequences can be that many times longer. They divide the model's attention heads.
    context: PositiveInt = 1


@dataclass(frozen=True, slots=True)
class StageConfig:
    """A stage with its own completion length. It ends at a step, or at a share of truncated completions."""

    max_tokens: PositiveInt = 96  # maximum tokens of a completion
    until_step: int = 0  # last step of the stage; 0: no limit
    until_clipped: float = 0.0  # mean truncated share over `over_steps` steps that ends the stage; 0: none
    over_steps: PositiveInt = 5  # number of steps in the mean for until_clipped


@dataclass(frozen=True, slots=True)
class EvaluationConfig:
    dataset: str = ""  # folder of a dataset, or a file that one suite can read; empty: only `suites`
    # Further suites, NAME or NAME=PATH, as for `curate evaluate --suite`: ["humaneval+=PATH", "lcb=PATH"].
    suites: tuple[str, ...] = ()
    # When to evaluate, besides before the first and after the last step.
    every_steps: int = 10  # steps between evaluations; 0: not by steps
    every_minutes: float = 0.0  # minutes between evaluations; 0: not by time
    # Engine of evaluations. "inside": the run's engine, within the step. "idle": the run's engine, while the learner
    # trains. "own": a separate engine in its own process, concurrently.
    where: Literal["inside", "idle", "own"] = "inside"
    keep_best: str = ""  # suite whose pass@1 selects the best weights, stored in RUN/best; empty: none are stored
    include: tuple[Literal["unverified", "suspects", "altered"], ...] = ()  # untrusted rows to evaluate on
    window: str = ""  # contest dates to include, as in 2024-08-01..2025-02-01, for suites with dates; empty: all
    k: PositiveInt = 1  # samples of each problem
    problems: int = 0  # maximum number of problems; 0: all
    temperature: Temperature = 1.0  # sampling temperature
    top_p: PositiveShare = 1.0  # nucleus sampling: probability mass
    max_tokens: int = 0  # maximum tokens of a completion; 0: as in training
    # The engine of "own" has the kind and options of [engine], but its own GPUs and memory.
    gpus: tuple[int, ...] = ()  # GPUs for "own", as engine.gpus; empty: the first GPU, or the CPU
    tensor_parallel: PositiveInt = 1  # GPUs of one engine of "own"; with more `gpus` there are several engines
    memory_share: PositiveShare = 0.9  # share of the memory of the GPUs for "own"


@dataclass(frozen=True, slots=True)
class RunConfig:
    steps: PositiveInt = 50  # batches to train on
    seed: int = 0  # seed of the prompt order and of every sample
    checkpoint_steps: PositiveInt = 10  # steps between checkpoints
    keep: int = 2  # number of newest checkpoints to keep, at least 1
    wandb: str = ""  # Weights & Biases project; empty: no logging to W&B
    tensorboard: bool = False  # true: also write the metrics for TensorBoard
    max_truncated_share: float = 0.95  # share of truncated completions that ends the run in five successive steps
    save_samples: int = 4  # completions to save from each step, with their verdicts
    # true: keep the whole journal of an asynchronous run for --replay, about 12 bytes per token. false: delete events
    # before the oldest checkpoint.
    keep_journal: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """A complete configuration. Raises ConfigError for contradictory values."""

    model: ModelConfig
    data: DataConfig
    prompt: PromptFormat = field(default_factory=PromptFormat)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    workers: WorkersConfig = field(default_factory=WorkersConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    limits: ProgramLimitsConfig = field(default_factory=ProgramLimitsConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    ranks: ParallelismConfig = field(default_factory=ParallelismConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    run: RunConfig = field(default_factory=RunConfig)
    stages: tuple[StageConfig, ...] = (StageConfig(),)

    def __post_init__(self) -> None:
        checks.check_config(self)

    @property
    def max_parity_error(self) -> float:
        """Return the upper bound of the parity error between engine and learner; see EngineConfig.parity."""
        return self.engine.parity or (1.05 if self.model.dtype == "bfloat16" else 1.001)
