"""The bars of a run: measured from honest answers of its engine to its own prompts, and kept in a TOML file.

A bar is a multiple of the largest distance that was measured, because the largest of many more answers is larger. It is
never below a floor: engines that agree to the last bit here may differ in it elsewhere. Where they compute in half
precision, the floor is higher: a model that is nearly certain of its tokens shows little of the rounding, and training
may make it less certain.

The mismatches of one chunk and the margin of one token have long tails, so the largest in some dozens of answers is
chance. Their floors in half precision are above what hundreds of honest answers show, and below what cheats show: a
wrong token of the prompt changes about half of the 128 exponents of a chunk, a wrong model more. TOPLOC's own bar is
38 of them.
"""

import tempfile
import tomllib
from collections.abc import Callable, Sequence
from contextlib import closing
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sandbox.concurrency.file_lock import FileLock
from train.asynchronous.messages import Lease
from train.errors import ConfigError
from train.sampling.commitment import decode_commitments
from train.sampling.engine_spec import EngineSpec, clear_trainer_environment, start_engine
from train.sampling.protocol import Engine, SampledCompletion, SamplingParams
from train.swarm.settings import Thresholds
from train.swarm.verification.distances import Distances, measure_distances, pool_distances
from train.swarm.verification.verifier_model import VerifierModel

if TYPE_CHECKING:
    from train.config import Config

ProgressCallback = Callable[[str, int, int], None]  # the stage, what is done of it, and all of it


def calibrate(config: "Config", *, n_leases: int, report: ProgressCallback) -> tuple[str, Thresholds, Distances]:
    """Return the name of the pair of engines, its bars, and the distances of all answers together.

    n_leases: how many groups of the run's size are drawn

    Raises ConfigError, SamplerError, and CurateError if the run's datasets cannot be read.
    """
    from train.sampling.open_engine import engine_spec

    clear_trainer_environment()
    spec = engine_spec(config, "calibration")
    leases = _leases(config, n_leases)
    n_answers = sum(len(lease.seeds) for lease in leases)
    with closing(start_engine(spec, verifiable=True)) as engine:
        completions = sample_completions(engine, leases, lambda done: report("drawing", done, n_answers))
    verifier_model = VerifierModel.from_spec(spec)  # only now, because both may not have room on one GPU
    honest = []
    for lease, answers in zip(leases, completions, strict=True):
        honest.append(measure_completions(verifier_model, lease, answers))
        report("verifying", sum(map(len, honest)), n_answers)
    return _pair(spec), fit_thresholds(honest), pool_distances([answer for answers in honest for answer in answers])


def _leases(config: "Config", n_leases: int) -> list[Lease]:
    from transformers import AutoTokenizer

    from train.rollouts.groups import sample_seed
    from train.rollouts.prompt_dataset import PromptDataset

    tokenizer = AutoTokenizer.from_pretrained(str(Path(config.model.path).expanduser()))
    seed, rollout = config.run.seed, config.rollout
    draw = SamplingParams(
        rollout.temperature, 1.0, max(stage.max_tokens for stage in config.stages), True, verifiable=True
    )
    with tempfile.TemporaryDirectory(prefix="curate-calibrate-") as folder:
        questions = PromptDataset(
            config.data, config.prompt, tokenizer, seed=seed, cache=Path(folder) / "questions.jsonl"
        )
        return [
            Lease(
                group=position,
                attempt=0,
                version=0,
                prompt=questions.prompt_at(position).prompt_ids,
                seeds=tuple(sample_seed(seed, position, number) for number in range(rollout.completions)),
                sampling_params=draw,
                expires_in_seconds=0.0,
            )
            for position in range(n_leases)
        ]


def _pair(spec: EngineSpec) -> str:
    return f"{spec.kind}/transformers"


# Multiples of the largest honest distance: of one chunk or token, of a mean over a file, of log-probabilities.
_ONE, _MEAN, _LOGPROB = 2.0, 1.5, 5.0
_FLOOR = Thresholds(
    exponent_mismatches=4.0, exponent_mismatches_mean=2.0, mantissa_mean=0.5, max_margin=0.02, logprob_error=1e-3,
    unlikely_share=0.1, seed_match_share=1.0, margin_mean=5e-6, margin_square_mean=1e-7,
)  # fmt: skip
_COARSE_FLOOR = Thresholds(
    exponent_mismatches=32.0, exponent_mismatches_mean=4.0, mantissa_mean=1.0, max_margin=0.6, logprob_error=0.02,
    unlikely_share=0.1, seed_match_share=0.985, margin_mean=5e-4, margin_square_mean=5e-5,
)  # fmt: skip
_COARSE_MANTISSA = 0.05  # mean difference of mantissas: two engines in float32 have hardly any
_MIN_TOKENS = 1000  # with fewer, the share of replayed tokens says little


def sample_completions(
    engine: Engine, leases: Sequence[Lease], note: Callable[[int], None]
) -> list[list[SampledCompletion]]:
    """Return an engine's answers to leases; `note` is called with the number of answers that are finished.

    Raises ConfigError if the engine cannot take a prompt, and SamplerError if it fails.
    """
    waiting = [(group, number) for group, lease in enumerate(leases) for number in range(len(lease.seeds))]
    found: dict[str, SampledCompletion] = {}
    n_begun = 0
    while len(found) < len(waiting):
        while n_begun < len(waiting) and n_begun - len(found) < engine.max_concurrency:
            group, number = waiting[n_begun]
            _begin_completion(engine, f"{group}.{number}", leases[group], number)
            n_begun += 1
        found |= engine.step()
        note(len(found))
    return [[found[f"{group}.{number}"] for number in range(len(lease.seeds))] for group, lease in enumerate(leases)]


def _begin_completion(engine: Engine, key: str, lease: Lease, number: int) -> None:
    draw = lease.sampling_params
    sampling = SamplingParams(draw.temperature, draw.top_p, draw.max_tokens, logprobs=True, verifiable=True)
    try:
        engine.add(key, lease.prompt, lease.seeds[number], sampling)
    except ValueError as error:
        raise ConfigError(f"a prompt to calibrate with cannot be used: {error}") from error


def measure_completions(
    verifier_model: VerifierModel, lease: Lease, completions: Sequence[SampledCompletion]
) -> list[Distances]:
    """Return how far the answers to a lease are from what a verifier computes."""
    return [
        measure_distances(
            decode_commitments(completion.commitments, completion.n_tokens), completion.logprobs, recomputation
        )
        for completion, recomputation in zip(
            completions, verifier_model.recompute_lease(completions, lease), strict=True
        )
    ]


def fit_thresholds(honest: Sequence[Sequence[Distances]]) -> Thresholds:
    """Return the bars for a pair of engines, given the distances of the answers to each lease.

    Raises ConfigError if there are too few tokens.
    """
    answers = [answer for lease in honest for answer in lease]
    files = [pool_distances(lease) for lease in honest]
    n_tokens = sum(file.n_tokens for file in files)
    if n_tokens < _MIN_TOKENS:
        raise ConfigError(f"{n_tokens} tokens are too few to calibrate by; there must be {_MIN_TOKENS}. Draw more")
    mantissa_mean = max(file.mantissa_mean for file in files)
    floor = _COARSE_FLOOR if mantissa_mean > _COARSE_MANTISSA else _FLOOR
    # One miss more than there were: without any, the next answer with one would be rejected.
    replayed_share = 1 - (sum(file.token_mismatches for file in files) + 1) / (n_tokens + 2)
    return Thresholds(
        exponent_mismatches=max(
            _ONE * max(answer.exponent_mismatches for answer in answers), floor.exponent_mismatches
        ),
        exponent_mismatches_mean=max(
            _MEAN * max(file.exponent_mismatches_mean for file in files), floor.exponent_mismatches_mean
        ),
        mantissa_mean=max(_MEAN * mantissa_mean, floor.mantissa_mean),
        seed_match_share=min(replayed_share, floor.seed_match_share),
        max_margin=max(_ONE * max(answer.max_margin for answer in answers), floor.max_margin),
        margin_mean=max(_MEAN * sum(file.margin_sum for file in files) / n_tokens, floor.margin_mean),
        margin_square_mean=max(
            _MEAN * sum(file.margin_square_sum for file in files) / n_tokens, floor.margin_square_mean
        ),
        logprob_error=max(_LOGPROB * max(file.logprob_error for file in files), floor.logprob_error),
        unlikely_share=min(max(_MEAN * max(file.unlikely_share for file in files), floor.unlikely_share), 1.0),
    )


def read_thresholds(path: Path) -> dict[str, Thresholds]:
    """Return the bars in a file, by the pair of engines. Raises ConfigError if they make no sense."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        found = msgspec.convert(tables, dict[str, Thresholds])
        for pair in found:
            _check(pair, tables[pair])
        return found
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path} does not hold bars: {error}. Make it: curate swarm calibrate") from None


def _check(pair: str, table: dict[str, float]) -> None:
    for name, value in table.items():
        if name not in Thresholds.__struct_encode_fields__:
            raise ValueError(f'["{pair}"] has {name}, which is not a bar')
        if not value >= 0:  # beyond a bar that is not a number, nothing ever is
            raise ValueError(f'["{pair}"] has {name} = {value}, which must be 0 or more')


def add_thresholds(path: Path, pair: str, thresholds: Thresholds) -> None:
    """Write the bars of one pair of engines, and keep those of others. Raises ConfigError if that is not possible."""
    try:
        lock = FileLock(path.with_name(f".{path.name}.lock"), wait_seconds=inf, temporary=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
    with lock:
        others = read_thresholds(path) if path.exists() else {}
        write_thresholds(path, {**others, pair: thresholds})


def write_thresholds(path: Path, thresholds: dict[str, Thresholds]) -> None:
    """Write the file, or replace it. Raises ConfigError if that is not possible."""
    tables = [
        "\n".join([f'["{pair}"]', *(f"{name} = {float(value)!r}" for name, value in msgspec.to_builtins(of).items())])
        for pair, of in sorted(thresholds.items())
    ]
    aside = path.with_name(path.name + ".part")
    try:
        aside.write_text("\n\n".join(tables) + "\n", encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
