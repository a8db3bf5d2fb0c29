"""The sections of a configuration, with the unit of each value and the reason for it beside it.

Most defaults come from a run that we have made, the tiny one of `make learn`. The type of a value has its bounds, which
hold for what is read from a file. checks.py has the conditions on several values, and those that need a reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from curate.prompt import PromptFormat
from sandbox import SandboxOptions
from train.config import checks

# All numbers are finite and at least 0. These have narrower bounds:
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
    # Precision of the logits, on both sides. "model": that of dtype. "float32": the product of hidden states and head
    # is not rounded, so that learner and engine differ less. vLLM's residual stream always has the precision of dtype.
    head_dtype: Literal["model", "float32"] = "model"
    # Rank of the LoRA layers; 0: all weights are trained. With LoRA, the model's own weights are kept in `dtype`, and
    # RUN/model has the layers alone besides, in its folder adapter, as peft and vLLM read them.
    lora_rank: int = 0
    lora_alpha: float = 32.0  # the output of the LoRA layers is multiplied by this value over their rank
    activation_checkpointing: bool = False  # costs a third more computation, but memory does not grow with depth

    def __post_init__(self) -> None:
        if self.dtype == "auto":
            from torch.cuda import device_count

            object.__setattr__(self, "dtype", "bfloat16" if device_count() else "float32")


@dataclass(frozen=True, slots=True)
class MixedDataset:
    """A further dataset of a run."""

    dataset: str  # as data.dataset
    weight: PositiveFloat = 1.0  # share of the prompts that come from it; only the proportions of all weights matter


@dataclass(frozen=True, slots=True)
class DataConfig:
    # Folder of a dataset that curate built, or its name on the Hub: owner/name@revision. Or a file of prompts, such as
    # math.jsonl, with the columns prompt and answer.
    dataset: str
    weight: PositiveFloat = 1.0  # share of the prompts that come from it, if there is a mixture
    # Further datasets, each a table [[data.mixture]] with dataset and weight, which take the place of this key.
    mixture: tuple[MixedDataset, ...] = ()
    # What to train on although it is not trusted.
    include: tuple[Literal["unverified", "suspects", "altered"], ...] = ()
    max_prompt_tokens: int = 2048  # longer prompts are left out and counted
    target_tokens: tuple[int, ...] = ()  # lengths that prompts ask for, one drawn for each prompt (INTELLECT-2)

    def parts(self) -> list[tuple[str, float]]:
        """Return each dataset with its weight."""
        return [(self.dataset, self.weight), *((mixed.dataset, mixed.weight) for mixed in self.mixture)]


@dataclass(frozen=True, slots=True)
class RolloutConfig:
    prompts: PositiveInt = 16  # prompts in a batch; the completions of one prompt are a group
    completions: int = 16  # completions of each prompt
    temperature: Temperature = 1.0  # temperature of the samples; the learner computes probabilities at the same one
    # What happens at the same time. "sync": nothing. "minibatch": the learner trains on the first minibatch while the
    # rest is sampled. "one-off": the next batch is sampled while the learner trains on this one. "async": sampling
    # never stops, answers go on under new weights, and the learner trains on what is ready.
    pipeline: Literal["sync", "minibatch", "one-off", "async"] = "sync"
    # Under "async", the most updates of the weights from asking for a group to training on it; 0: as "sync". Up to 4 it
    # costs hardly any quality (AReaL), and above 1 it pays from some dozens of GPUs on.
    staleness: int = 1
    # Under "async", the most groups that are sampled at once; 0: as many as `staleness` allows. A value that just keeps
    # the engines busy makes answers younger.
    most_running: int = 0
    # Under "async", whether engines load new weights in the midst of answers, which go on under them. false: only when
    # all answers that have begun are finished, as in AReaL's ablation.
    interrupt: bool = True
    online_filter: bool = True  # replace groups whose advantages are all zero by those of further prompts
    # A batch is used as it is, or ends the run if it is empty, once max_rounds * prompts groups were sampled for it.
    max_rounds: PositiveInt = 4
    # Time limit for sampling one batch; an engine that needs longer counts as hanging.
    max_seconds: PositiveFloat = 7200.0


@dataclass(frozen=True, slots=True)
class EngineConfig:
    kind: Literal["vllm", "transformers"] = "vllm"  # transformers: slow and simple, for tests
    gpus: tuple[int, ...] = ()  # GPUs for engines in processes of their own; empty: an engine in the trainer's process
    tensor_parallel: PositiveInt = 1  # GPUs of one engine; with more `gpus` there are several engines
    memory_share: PositiveShare = 0.5  # share of a GPU's memory; can be larger where the trainer uses other GPUs
    max_model_len: int = 0  # tokens of prompt and answer together; 0: as many as the stages need
    concurrency: int = 0  # answers that one engine draws at once (vLLM's max_num_seqs); 0: vLLM's default
    # Further options of vLLM's EngineArgs, such as enforce_eager = true. They may stand in [engine] itself, too.
    options: Mapping[str, Any] = field(default_factory=dict)
    # Time limit for starting an engine of `gpus`; "async" has rollout.max_seconds instead.
    load_seconds: PositiveFloat = 1200.0
    sync_seconds: PositiveFloat = 600.0  # time limit for loading new weights, in which a worker need not draw tokens
    # How new weights reach engines. "auto": as tensors in the trainer's process, through memory on its machine, and
    # over HTTP elsewhere. "nccl": from GPU to GPU, which is faster for large models on the trainer's machine; but an
    # engine that dies ends the run, because none can be brought back without all others.
    transfer: Literal["auto", "nccl"] = "auto"
    # Engines of `gpus` that may die and be started again within an hour, over all engines. A rare failure in a run of
    # weeks is repaired; an engine that dies at once again and again ends the run.
    restarts_per_hour: int = 3
    # Upper bound of the mean of exp |difference| of log-probabilities between engine and learner. 0: 1.05 in bfloat16,
    # which is what NeMo-RL allows in half precision, and 1.001 in float32, where they hardly differ.
    parity: float = 0.0
    # mismatch/kl over the tokens of a batch, if sampler and learner know them with the same weights: above this value a
    # warning is logged. In float32 it is near 1e-9. PRIME-RL merges no model above 0.015, and weights that arrived in
    # part gave 2 to 5 there.
    mismatch_alarm: PositiveFloat = 0.01
    mismatch_stop: PositiveFloat = 0.1  # above this value of mismatch/kl, the run ends


@dataclass(frozen=True, slots=True)
class WorkersConfig:
    """The workers, which sample under the pipeline "async". A worker has one engine, asks this command for prompts, and
    may be on any machine: `curate rollout --controller URL` starts one."""

    # HOST:PORT where further workers find this command; empty: it listens for those of this machine only. The token
    # that workers must give is in the environment variable CURATE_TOKEN.
    listen: str = ""
    # true: this command starts the engines of this machine itself, one in its own process or, if engine.gpus names
    # GPUs, a process for every engine.tensor_parallel of them. false: it waits for workers that are started elsewhere.
    local: bool = True


@dataclass(frozen=True, slots=True)
class RewardConfig:
    # Weights of rewards; with 0, a reward is not computed. code: for problems with tests.
    code: float = 1.0
    math: float = 0.0  # weight of the reward for right answers, for prompts of a file with the column answer
    # A function of your own, "module:function", found in the working directory or among the installed packages. It is
    # called with a rewards.Completion and a rewards.Task, and returns a number, a rewards.Reward, or None for
    # "unknown".
    function: str = ""
    function_weight: float = 1.0  # weight of that function
    # A reward model: folder or name on the Hub of a classifier with one output, with its own tokenizer and chat
    # template. One for sequences scores whole answers; one for tokens scores each line of an answer as a step.
    model: str = ""
    model_weight: float = 1.0  # weight of that model's score, which is taken as it is
    model_device: str = ""  # its device: "cpu", or such as "cuda:7"; empty: the learner's first GPU, or the CPU
    # Steps after which that model is trained on rankings of the run's own answers by the other rewards, a tenth of them
    # replayed from before (DeepSeekMath's iterative GRPO); 0: never.
    model_train_steps: int = 0
    model_learning_rate: PositiveFloat = 2e-5  # of that training
    format: float = 0.0  # weight of the reward for answers of the form <think>...</think><answer>...</answer>
    length_budget: float = 0.0  # weight of -|target - length| / 1000 tokens
    overlong: float = 0.0  # weight of DAPO's soft penalty, which is from -1 to 0
    overlong_buffer_tokens: PositiveInt = 4096  # tokens before the limit over which that penalty grows
    select: Literal["longest", "strongest", "all"] = "longest"  # which tests of a problem are run
    tests: PositiveInt = 15  # maximum number of tests, unless select is "all"
    least_wall_seconds: PositiveFloat = 6.0  # lower bound of a test's time limit, which is otherwise the problem's own
    most_wall_seconds: float = 12.0  # upper bound of a test's time limit
    languages: tuple[Literal["python", "cpp"], ...] = ("python",)  # languages that answers may be written in
    # "labeled": only a block whose fence names its language is a program, as in DeepCoder's paper. "any": one without a
    # label is, too, if there is no other.
    fence: Literal["any", "labeled"] = "any"
    random: bool = False  # true: a control experiment with rewards that do not depend on the answer

    @property
    def uses_model(self) -> bool:
        """Whether a reward model is loaded."""
        return bool(self.model and self.model_weight and not self.random)

    @property
    def model_gpu(self) -> int | None:
        """The number of the GPU that the reward model has for itself; None if it has none."""
        number = self.model_device.removeprefix("cuda:")
        return int(number) if self.uses_model and number.isdecimal() and int(number) else None


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """Where the programs in answers run. `curate train` has options of the same names, which replace these."""

    # "local": on this machine. "docker": in containers. "ray": on a cluster's nodes. "http": behind `curate serve`.
    backend: Literal["local", "docker", "ray", "http"] = "local"
    address: str = ""  # address of a Ray cluster, HOST:PORT or auto; or the URL of a `curate serve`
    image: str = ""  # name of the docker backend's image; empty: the one that `make sandbox-image` builds
    workers: int = 0  # workers of the sandbox, or of each node of a Ray cluster; 0: one per usable core
    isolation: Literal["full", "best-effort"] = "full"  # best-effort accepts machines that cannot isolate fully
    packages: tuple[str, ...] = ()  # packages that programs can import; empty: those that the dataset was built with
    packages_from: str = ""  # folder that the packages are installed in; empty: the environment of the trainer
    packages_sha256: str = ""  # hash of the packages, which a run records; empty: whatever is installed

    def options(self) -> SandboxOptions:
        """Return this section as options of the sandbox. Raises ValueError for values that contradict each other."""
        workers = self.workers or None
        return SandboxOptions(
            self.backend, self.address, self.image, workers, self.isolation, self.packages, self.packages_from
        )


@dataclass(frozen=True, slots=True)
class ProgramLimitsConfig:
    """Upper limits for one run of a program, even if its problem asks for more. 0 stands for all that is available."""

    memory_mb: int = 0  # 0: the memory of the machine it runs on, or of our own cgroup
    wall_seconds: float = 0.0  # in training, reward.most_wall_seconds holds as well
    processes: int = 0  # 0: 4096
    output_kb: int = 0  # output of a program
    disk_mb: int = 0  # size of /tmp, which is kept in memory


@dataclass(frozen=True, slots=True)
class ObjectiveConfig:
    # What advantages are made of. "outcome": the reward of the whole answer. "process": the rewards of its steps, which
    # reward.model or reward.function can give; each token gets those of the steps that end with it or later
    # (DeepSeekMath).
    supervision: Literal["outcome", "process"] = "outcome"
    by_std: bool = False  # true: divide advantages by their group's standard deviation (GRPO); false: Dr.GRPO
    std_epsilon: float = 1e-4  # added to that standard deviation: 1e-4 in TRL, 1e-6 in verl; 0: nothing is added
    clip_low: Share = 0.2  # ratios are clipped to the range from 1 - clip_low to 1 + clip_high
    clip_high: float = 0.28  # more than clip_low is clip-higher (DAPO, DeepCoder)
    delta: float | None = None  # bound of the ratio where the advantage is negative (INTELLECT-2: 4); none: no bound
    kl: float = 0.0  # coefficient of the k3 estimate against the reference
    reference_steps: int = 0  # steps after which the policy becomes the reference (DeepSeekMath); 0: never
    # What the reference then moves to the policy: 1 is all of the way, 0.6 what TR-DPO and TRL advise.
    reference_mix: PositiveShare = 1.0
    entropy: float = 0.0  # coefficient of the entropy bonus
    # "token_mean": every token of the batch counts the same. "sequence_mean": every answer does. "constant_length":
    # sums over answers, divided by the longest length allowed (Dr.GRPO).
    aggregation: Literal["token_mean", "sequence_mean", "constant_length"] = "token_mean"
    # How answers that were cut off are treated. "mask": they are left out of the loss but count in the mean of their
    # group (DAPO, DeepCoder). "unknown": they are left out of both, as if they had no reward. "zero_advantage": those
    # with reward 0 get advantage 0 (DeepCoder's released code). "none": they count like all others.
    overlong: Literal["mask", "unknown", "zero_advantage", "none"] = "mask"
    old: Literal["sampler", "learner"] = "sampler"  # source of the old log-probabilities in the ratio
    truncation: float = 0.0  # upper bound of the weights that correct the sampler's mismatch; 0: no weights
    # Completions are left out if the geometric mean of the ratios of the learner's to the sampler's probabilities is
    # below this bound.
    mismatch_low: float = 0.0
    mismatch_high: float = 0.0  # upper bound of the same mean; 0: neither bound holds


@dataclass(frozen=True, slots=True)
class OptimizerConfig:
    learning_rate: PositiveFloat = 3e-4  # the highest learning rate, which is reached after the warm-up
    schedule: Literal["constant", "cosine"] = "constant"  # course of the learning rate after the warm-up
    warmup_steps: int = 0  # counted in updates; a batch has minibatches * epochs of them
    betas: tuple[float, float] = (0.9, 0.99)  # betas of AdamW
    weight_decay: float = 0.0  # weight decay of AdamW
    clip_norm: PositiveFloat = 1.0  # upper bound of the norm of the gradient
    minibatches: PositiveInt = 2  # minibatches in a batch, with one update for each
    epochs: PositiveInt = 1  # passes over a batch: DeepSeekMath's mu, TRL's num_iterations
    row_tokens: PositiveInt = 4096  # tokens of one forward pass, which several sequences share
    offload: bool = False  # true: AdamW's moments, 8 bytes for each weight, stay in the memory of the CPU


@dataclass(frozen=True, slots=True)
class ParallelismConfig:
    """How the ranks of torchrun divide the learner's work."""

    # Ranks that have one copy of the weights together; 0: all. With as many as a machine has GPUs, each machine has a
    # copy, and only gradients are sent between machines.
    shard: int = 0
    # Ranks that share each row, a part of it each, so that sequences may be so many times longer. They divide the
    # model's attention heads among them.
    context: PositiveInt = 1


@dataclass(frozen=True, slots=True)
class StageConfig:
    """A part of the run with its own answer length. It ends at a step, or once too many answers are cut off."""

    max_tokens: PositiveInt = 96  # maximum length of an answer
    until_step: int = 0  # the last step of the stage; 0: it does not end at a step
    until_clipped: float = 0.0  # mean share of cut-off answers over `over_steps` steps; 0: it does not end the stage
    over_steps: PositiveInt = 5  # number of steps in that mean


@dataclass(frozen=True, slots=True)
class EvaluationConfig:
    dataset: str = ""  # folder of a dataset, or a file that one suite can read; empty: only `suites`
    # Further suites, NAME or NAME=PATH, as for `curate evaluate --suite`: ["humaneval+=PATH", "lcb=PATH"].
    suites: tuple[str, ...] = ()
    # Which evaluations are made. The weights before the first step and after the last are evaluated in any case.
    every_steps: int = 10  # steps between evaluations; 0: they do not go by steps
    every_minutes: float = 0.0  # minutes between evaluations; 0: they do not go by time
    # Where. "inside": within the step, with the run's engine. "idle": with that engine while the learner trains and the
    # engine has nothing to draw. "own": with an engine in a process of its own, beside the run.
    where: Literal["inside", "idle", "own"] = "inside"
    keep_best: str = ""  # name of the suite by whose pass@1 the best weights are kept in RUN/best; empty: none are kept
    include: tuple[Literal["unverified", "suspects", "altered"], ...] = ()  # rows to use although they are not trusted
    window: str = ""  # first and last contest date, as in 2024-08-01..2025-02-01, of suites with dates; empty: all
    k: PositiveInt = 1  # samples of each problem
    problems: int = 0  # maximum number of problems; 0: all
    temperature: Temperature = 1.0  # temperature of the samples
    top_p: PositiveShare = 1.0  # probability mass of the tokens that are sampled from
    max_tokens: int = 0  # 0: as in training; a larger value shows what the model can do with longer answers
    # The engine of "own" is of the kind that [engine] names, with its options, but has GPUs and memory of its own.
    gpus: tuple[int, ...] = ()  # GPUs for "own", counted as engine.gpus; empty: the first one, or the CPU
    tensor_parallel: PositiveInt = 1  # GPUs of one engine of "own"; with more `gpus` there are several engines
    memory_share: PositiveShare = 0.9  # share of the memory of these GPUs


@dataclass(frozen=True, slots=True)
class RunConfig:
    steps: PositiveInt = 50  # batches to train on
    seed: int = 0  # decides the order of the prompts and every sample
    checkpoint_steps: PositiveInt = 10  # steps between checkpoints
    keep: int = 2  # number of checkpoints that are kept, the newest ones; the last one is always kept
    wandb: str = ""  # name of the project at wandb; empty: do not log there
    tensorboard: bool = False  # true: write the metrics for TensorBoard, too
    most_truncated: float = 0.95  # share of cut-off answers that ends the run if it lasts for five steps
    save_samples: int = 4  # completions of each step that are kept, with their verdicts
    # true: the whole journal of an asynchronous run is kept, so that --replay can train the run again; it takes some
    # 12 bytes per token. false: what is older than the oldest checkpoint is deleted.
    keep_journal: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """A whole configuration. Raises ConfigError for values that make no sense together."""

    model: ModelConfig
    data: DataConfig
    prompt: PromptFormat = field(default_factory=PromptFormat)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    workers: WorkersConfig = field(default_factory=WorkersConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    most: ProgramLimitsConfig = field(default_factory=ProgramLimitsConfig)
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
        """The largest difference allowed between engine and learner; see EngineConfig.parity."""
        return self.engine.parity or (1.05 if self.model.dtype == "bfloat16" else 1.001)
