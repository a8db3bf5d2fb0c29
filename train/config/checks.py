"""Checks across configuration keys. Each private function yields a message for every invalid value."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from train.engine_options import EngineOptions
from train.errors import ConfigError

if TYPE_CHECKING:
    from train.config.sections import Config

_MAX_ENGINE_MEMORY_SHARE = 0.9  # maximum share of a GPU's memory for the engines of run and evaluation together
_MAX_TOKENS_PER_SECOND = 1000  # upper bound of an engine's speed for one completion
_MAX_PROVEN_STALENESS = 4  # with higher staleness, AReaL's runs lose quality
BUILTIN_REWARDS = ("code", "math", "model", "format", "length_budget", "overlong", "random")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_GPU = re.compile(r"cuda:\d{1,3}")
# The configuration key that sets each engine option.
CONFIG_KEY_OF_OPTION = {
    "dtype": "model.dtype", "revision": "model.path", "tokenizer": "model.path",
    "concurrency": "engine.concurrency", "max_num_seqs": "engine.concurrency",
    "max_model_len": "engine.max_model_len",
    "memory_share": "engine.memory_share", "gpu_memory_utilization": "engine.memory_share",
    "tensor_parallel": "engine.tensor_parallel", "tensor_parallel_size": "engine.tensor_parallel",
}  # fmt: skip


def get_function_name(function: str) -> str:
    """Return the function's name in "module:function"."""
    return function.rpartition(":")[2]


def check_config(config: "Config") -> None:
    """Raise ConfigError for the first invalid value."""
    for check in (_check_sampling, _check_engine, _check_workers, _check_reward, _check_learning, _check_evaluation):
        for message in check(config):
            raise ConfigError(message)


def find_config_warnings(config: "Config") -> Iterator[str]:
    """Yield a warning for each setting that is valid but slow or risky."""
    if config.rollout.pipeline == "async" and config.rollout.staleness > _MAX_PROVEN_STALENESS:
        yield (
            f"rollout.staleness = {config.rollout.staleness}: in AReaL's experiments, values above "
            f"{_MAX_PROVEN_STALENESS} lowered quality and gained little speed. Use "
            f"--set rollout.staleness={_MAX_PROVEN_STALENESS}"
        )
    engine, evaluation, pipeline = config.engine, config.evaluation, config.rollout.pipeline
    if engine.kind == "vllm" and not engine.gpus and config.workers.local and pipeline != "sync":
        yield (
            f'rollout.pipeline = "{pipeline}": engine and learner share a GPU and slow each other down. No speedup was '
            "measured. To run them in turn: --set rollout.pipeline=sync"
        )
    shares_gpu = evaluation.where == "own" and engine.kind == "vllm" and not engine.gpus and not evaluation.gpus
    share = evaluation.memory_share + engine.memory_share * config.workers.local
    if shares_gpu and (evaluation.dataset or evaluation.suites) and share > _MAX_ENGINE_MEMORY_SHARE:
        yield (
            f'evaluation.where = "own": on a single GPU, the engines of evaluation and run use {share:.0%} of the '
            "memory. Lower evaluation.memory_share and engine.memory_share, or name another GPU in "
            "evaluation.gpus"
        )


def _check_sampling(config: "Config") -> Iterator[str]:
    if not config.stages:
        yield "stages is empty: give at least one [[stages]] table"
    if any(stage.until_step == 0 and stage.until_clipped == 0 for stage in config.stages[:-1]):
        yield "stages: every stage except the last needs until_step or until_clipped"
    rollout, objective = config.rollout, config.objective
    if rollout.completions < 2:
        yield f"rollout.completions must be at least 2, not {rollout.completions}: a single completion has no advantage"
    if rollout.temperature <= 0:
        yield "rollout.temperature must be more than 0: at 0, all completions of a group are equal"
    if rollout.pipeline == "minibatch" and objective.old == "learner":
        yield (
            'rollout.pipeline = "minibatch" needs objective.old = "sampler": the weights that sample a later minibatch '
            "are replaced before the learner trains on it"
        )
    longest = max(stage.max_tokens for stage in config.stages)
    if rollout.max_seconds < longest / _MAX_TOKENS_PER_SECOND:
        yield (
            f"rollout.max_seconds = {rollout.max_seconds:g} is too short for one completion of {longest} tokens. Set "
            "the time limit of a whole batch, such as 7200"
        )
    if rollout.pipeline != "async" and not rollout.interrupt:
        yield f'rollout.interrupt = false is for rollout.pipeline = "async"; "{rollout.pipeline}" never interrupts'
    if rollout.pipeline != "async" or rollout.staleness == 0:
        return
    correct = 'Set objective.old = "learner" and objective.truncation = 2.0'
    if objective.old == "sampler":
        yield (
            'rollout.pipeline = "async": with objective.old = "sampler", ratios are clipped around the weights that '
            f"sampled a completion, which are up to {rollout.staleness} updates old. {correct}"
        )
    if not objective.truncation:
        yield (
            'rollout.pipeline = "async": without objective.truncation nothing corrects for completions that are up to '
            f"{rollout.staleness} updates old. {correct}"
        )


def _check_engine(config: "Config") -> Iterator[str]:
    engine, pipeline = config.engine, config.rollout.pipeline
    try:
        options = EngineOptions.from_table(engine.options, reserved_keys=CONFIG_KEY_OF_OPTION)
    except ConfigError as error:
        yield f"engine: {error}"
        return
    overrides = options.vllm.get("hf_overrides", {})
    if not isinstance(overrides, Mapping):
        yield "engine.hf_overrides must be a table"
    elif "head_dtype" in overrides:
        yield "engine.hf_overrides: model.head_dtype sets head_dtype. Set model.head_dtype instead"
    if engine.kind != "vllm" and (options.vllm or engine.concurrency):
        yield f'engine.options and engine.concurrency are for vLLM, not for engine.kind = "{engine.kind}"'
    if engine.parity != 0 and engine.parity < 1:
        yield f"engine.parity must be 0 (the default bound) or at least 1 (bit-exact agreement), not {engine.parity}"
    if len(set(engine.gpus)) < len(engine.gpus):
        yield "engine.gpus names a GPU twice: engines cannot share GPUs"
    if engine.mismatch_stop < engine.mismatch_alarm:
        yield "engine.mismatch_stop must be at least engine.mismatch_alarm: the run warns before it stops"
    if engine.transfer == "nccl" and (engine.kind != "vllm" or not engine.gpus):
        yield 'engine.transfer = "nccl" is for vLLM engines on separate GPUs: name their GPUs in engine.gpus'
    if engine.transfer == "nccl" and pipeline == "async":
        yield (
            'engine.transfer = "nccl" needs a fixed set of engines, but with rollout.pipeline = "async" workers join '
            'and leave. Use "auto"'
        )
    if engine.tensor_parallel > 1 and not engine.gpus:
        yield "engine.tensor_parallel above 1 needs engine.gpus: an engine in the trainer's process uses one GPU"
    yield from _check_gpu_count("engine", engine.gpus, engine.tensor_parallel)


def _check_gpu_count(section: str, gpus: tuple[int, ...], tensor_parallel: int) -> Iterator[str]:
    if len(gpus) % max(tensor_parallel, 1):
        yield f"{section}.gpus: {len(gpus)} GPUs are not a multiple of {section}.tensor_parallel = {tensor_parallel}"


def _check_workers(config: "Config") -> Iterator[str]:
    workers = config.workers
    if config.rollout.pipeline != "async" and (workers.listen or not workers.local):
        yield f'[workers] is for rollout.pipeline = "async", not for "{config.rollout.pipeline}"'
    host, _, port = workers.listen.rpartition(":")
    if workers.listen and not (host and port.isdecimal() and int(port) < 2**16):
        yield f"workers.listen must be HOST:PORT, such as 0.0.0.0:7878, not {workers.listen!r}"
    if not workers.local and not workers.listen:
        yield (
            "workers.local = false: remote workers need the address of this command. Set workers.listen to an address "
            "such as 0.0.0.0:7878"
        )


def _check_reward(config: "Config") -> Iterator[str]:
    reward = config.reward
    if reward.min_test_seconds > reward.max_test_seconds:
        yield "reward.min_test_seconds must be at most reward.max_test_seconds"
    if reward.function and not _FUNCTION.fullmatch(reward.function):
        yield f'reward.function must have the form "module:function", not {reward.function!r}'
    if get_function_name(reward.function) in BUILTIN_REWARDS:
        yield f"reward.function: {get_function_name(reward.function)} is a built-in reward. Choose another name"
    if reward.model_device not in ("", "cpu") and not _GPU.fullmatch(reward.model_device):
        yield f'reward.model_device must be "cpu" or the name of a GPU such as "cuda:7", not {reward.model_device!r}'
    if reward.model_gpu in (*config.engine.gpus, *config.evaluation.gpus):
        yield f'reward.model_device = "{reward.model_device}" is the GPU of an engine. Choose a GPU without an engine'
    if reward.model_train_steps and not (reward.uses_model and (reward.code or reward.math or reward.function)):
        yield (
            "reward.model_train_steps needs reward.model, and a reward that ranks completions: reward.code, "
            "reward.math or reward.function"
        )
    if reward.model_train_steps and config.rollout.pipeline not in ("sync", "minibatch"):
        yield (
            f'reward.model_train_steps: with rollout.pipeline = "{config.rollout.pipeline}", completions would be '
            'scored while the model is trained. Use "sync" or "minibatch"'
        )
    if not reward.languages:
        yield 'reward.languages: give at least one language, such as ["python"]'
    if reward.length_budget > 0 and not config.data.target_tokens:
        yield "reward.length_budget needs data.target_tokens, the target lengths in the prompts"
    if reward.overlong > 0 and reward.overlong_buffer_tokens >= min(stage.max_tokens for stage in config.stages):
        yield (
            "reward.overlong_buffer_tokens must be less than the max_tokens of every stage; otherwise, every "
            "completion is penalized"
        )
    try:
        config.sandbox.to_sandbox_options()
    except ValueError as error:
        yield f"sandbox: {error}"


def _check_learning(config: "Config") -> Iterator[str]:
    objective, optimizer = config.objective, config.optimizer
    if objective.delta is not None and objective.delta < 1 + objective.clip_high:
        yield "objective.delta must be at least 1 + clip_high: a lower bound would clip the intended updates"
    if objective.reference_steps > 0 and not objective.kl:
        yield "objective.reference_steps needs objective.kl: without it there is no reference"
    if objective.reference_mix < 1 and not objective.reference_steps:
        yield "objective.reference_mix needs objective.reference_steps: without it the reference never changes"
    if objective.mismatch_high < objective.mismatch_low:
        yield "objective.mismatch_high must be at least mismatch_low; otherwise, every completion is masked"
    for name in ("mismatch_high", "truncation"):
        if getattr(objective, name) > 0 and objective.old == "sampler":
            yield f'objective.{name} compares the learner with the sampler: it needs objective.old = "learner"'
    if optimizer.minibatches > config.rollout.prompts:
        yield "optimizer.minibatches must be at most rollout.prompts, the number of groups"
    if max(optimizer.betas) >= 1:
        yield "optimizer.betas must be below 1"
    if optimizer.epochs > 1 and config.rollout.pipeline == "minibatch":
        yield 'optimizer.epochs must be 1 with rollout.pipeline = "minibatch": there is no whole batch to repeat'


def _check_evaluation(config: "Config") -> Iterator[str]:
    evaluation, engine = config.evaluation, config.engine
    if evaluation.where == "idle" and config.rollout.pipeline == "async":
        yield (
            'evaluation.where = "idle": with rollout.pipeline = "async", engines never wait for the learner. Use '
            '"own" or "inside"'
        )
    if evaluation.gpus and evaluation.where != "own":
        yield f'evaluation.gpus is for evaluation.where = "own", not for "{evaluation.where}"'
    if len(set(evaluation.gpus)) < len(evaluation.gpus) or set(evaluation.gpus) & set(engine.gpus):
        yield "evaluation.gpus names a GPU twice, or one of engine.gpus: engines cannot share GPUs"
    yield from _check_gpu_count("evaluation", evaluation.gpus, evaluation.tensor_parallel)
    if evaluation.where == "own" and engine.gpus and not evaluation.gpus:
        yield 'evaluation.where = "own" needs evaluation.gpus, the GPUs of the evaluation engine'
