"""Solve rates of a model on the problems of a dataset, for `curate difficulty`. Begin with `measure_difficulty`.

Completions are journaled before they are judged, and each verdict when it arrives, so a repeated command resumes. The
result is the table `difficulty/` of the dataset (curate/difficulty/table.py), with a row for each problem and model.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from curate.dataset.dataset import Dataset
from curate.dataset.integrity import check_trusted
from curate.dataset.journal import ResultJournal
from curate.difficulty import table as solve_rates
from curate.difficulty.table import Row
from curate.errors import CurateError
from curate.problem import TEST_COLUMNS, decode_tests
from curate.progress import Progress, ignore_progress
from curate.prompt import PromptFormat, read_prompt
from curate.reading.values import shorten
from curate.report.report_files import refresh_report
from curate.trust import ONLY_TRUSTED, TrustPolicy, format_exclusions
from rewards.extract import PYTHON_ONLY
from sandbox import Package, Sandbox
from sandbox.packages import compute_fingerprint
from train.evaluation.evaluate import (
    Sample,
    SampleFunction,
    SampleRequest,
    build_sample_key,
    derive_sample_seed,
    judge_samples,
    sample_and_judge,
)
from train.evaluation.judges.judge import SuiteJudge
from train.evaluation.judges.math_judge import MathJudge
from train.evaluation.sample_store import SampleRecord
from train.evaluation.suites.suite import Exercise

_K = 8  # samples per problem, as in INTELLECT-2's filter


@dataclass(frozen=True, slots=True)
class DifficultySettings:
    """Sampling settings of a model, with n samples per problem to estimate pass@k.

    engine     vLLM options that affect completions (EngineOptions.select_sample_affecting_options)
    languages  accepted languages of completions; see rewards.extract

    Raises CurateError for fewer samples than k.
    """

    model: str
    temperature: float = 0.6  # temperature and top_p are those of DeepCoder's evaluation
    top_p: float = 0.95
    max_tokens: int = 16384
    seed: int = 0
    n: int = _K
    k: int = _K
    prompt: PromptFormat = field(default_factory=PromptFormat)
    engine: Mapping[str, Any] = field(default_factory=dict)
    languages: tuple[str, ...] = PYTHON_ONLY

    def __post_init__(self) -> None:
        if self.n < self.k:
            raise CurateError(f"pass@{self.k} needs at least {self.k} samples, not {self.n}: give a larger --n.")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON values; prompt, engine and languages as text, empty for the default."""
        languages = "" if self.languages == PYTHON_ONLY else " ".join(self.languages)
        texts = {
            "prompt": _encode_table(self.prompt.as_table()),
            "engine": _encode_table(self.engine),
            "languages": languages,
        }
        return {**asdict(self), **texts}


# Settings that must be equal for all samples of a model.
_FIXED = ("temperature", "top_p", "max_tokens", "seed", "prompt", "engine", "languages")


def choose_settings(model: str, overrides: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> DifficultySettings:
    """Resolve the settings of a call.

    overrides  the user's settings; prompt is a table as for read_prompt, engine a table of options
    earlier    settings recorded with the model's existing samples, used as defaults; None without samples

    Raises CurateError if the overrides conflict with existing samples.
    """
    sampled: dict[str, Any] = {}
    if earlier is not None:
        sampled = {
            **earlier,
            "prompt": PromptFormat(**json.loads(earlier["prompt"] or "{}")),
            "engine": json.loads(earlier["engine"] or "{}"),
            "languages": tuple((earlier["languages"] or "python").split()),
        }
    settings = {**sampled, **overrides, "model": model}
    if "prompt" in overrides:
        settings["prompt"] = read_prompt(overrides["prompt"], sampled.get("prompt"))
    for name in _FIXED:
        if name in sampled and settings[name] != sampled[name]:
            raise CurateError(
                f"the existing samples of {model} have {name} {_format_value(sampled[name])}, not "
                f"{_format_value(settings[name])}. "
                "Leave that option out to continue with them, or add --resample to drop them."
            )
    if "n" not in overrides:
        settings["n"] = max(sampled.get("n", 0), settings.get("k", _K))
    return DifficultySettings(**settings)


def _format_value(value: object) -> str:
    if isinstance(value, PromptFormat | Mapping):
        text = _encode_table(value.as_table() if isinstance(value, PromptFormat) else value)
        return shorten(text) if text else "(default)"
    return " ".join(value) if isinstance(value, tuple) else str(value)


def _encode_table(table: Mapping[str, Any]) -> str:
    return json.dumps(table, sort_keys=True) if table else ""


def _read_settings(rows: Iterable[Row]) -> dict[str, Any] | None:
    rows = list(rows)
    if not rows:
        return None
    settings = {field.name: rows[0][field.name] for field in fields(DifficultySettings) if field.name != "n"}
    return {**settings, "n": max(row["n_sampled"] for row in rows)}


_SETTINGS = "settings"  # key of the samples' settings in the journal of verdicts
# Columns that, with _ANSWER, determine a sample and its verdict.
_COLUMNS = ("id", "statement", "starter_code", "tests")
_ANSWER = "expected_answer"  # column that may be empty


def _require_fields(*fields: str) -> Callable[[Any], Row]:
    def check_record(record: Any) -> Row:
        if not (isinstance(record, dict) and record.keys() >= set(fields)):
            raise ValueError(f"expected an object with {', '.join(fields)}")
        return record

    return check_record


@dataclass(frozen=True, slots=True)
class DifficultyMeasurement:
    """The settings and the sample counts of one call of `measure_difficulty`.

    n_unjudged  samples without a verdict, because the problem's checker failed; the same command retries them
    n_refused   prompts refused by the model; the same command retries them
    exclusions  number of excluded untrusted rows by reason (see curate.trust)
    """

    settings: DifficultySettings
    n_sampled: int = 0
    n_judged: int = 0
    n_unjudged: int = 0
    n_refused: int = 0
    exclusions: Mapping[str, int] = field(default_factory=dict)


def measure_difficulty(
    dataset: Path,
    model: str,
    overrides: Mapping[str, Any],
    open_sampler: Callable[[DifficultySettings], AbstractContextManager[SampleFunction]],
    open_sandbox: Callable[[], Sandbox],
    *,
    resample: bool = False,
    trust: TrustPolicy = ONLY_TRUSTED,
    packages: Sequence[Package] = (),
    progress: Progress = ignore_progress,
) -> DifficultyMeasurement:
    """Sample every trusted problem n times, judge the completions, and write the solve rates into the dataset.

    overrides     the user's settings; the defaults are the settings of earlier samples
    open_sampler  factory of the sampler, called only if samples are missing
    open_sandbox  factory of the sandbox, called only if verdicts are missing
    resample      whether to drop the model's existing samples instead of reusing them
    trust         policy that selects the rows to sample

    Raises CurateError if the dataset was altered, no row is trusted, or existing samples have other settings, and the
    errors of `open_sampler` and the sampler.
    """
    stored = Dataset(dataset).require_problems()
    check_trusted(dataset, trust, progress=progress)
    exclusions = stored.find_exclusion_reasons(trust)
    if len(exclusions) == len(stored):
        why = "; ".join(format_exclusions(Counter(exclusions.values()))) or "it has no rows"
        raise CurateError(f"{dataset}: there is no problem to sample ({why}).")
    with solve_rates.lock_samples(dataset, model) as work:
        verdicts_path, completions_path = work.with_suffix(".jsonl"), work.with_suffix(".answers.jsonl")
        if resample:
            verdicts_path.unlink(missing_ok=True)
            completions_path.unlink(missing_ok=True)
        rows = {} if resample else {row["id"]: row for row in solve_rates.read(dataset) if row["model"] == model}
        with ResultJournal(verdicts_path) as verdicts, ResultJournal(completions_path) as completions:
            # A filtered dataset has a table but no journal.
            recorded = verdicts.load(_SETTINGS, _require_fields(*_FIXED)) if _SETTINGS in verdicts else None
            settings = choose_settings(model, overrides, recorded or _read_settings(rows.values()))
            if recorded != settings.to_dict():
                verdicts.add(_SETTINGS, settings.to_dict())
            digests = {
                row["id"]: _compute_samples_digest(row, settings, packages)
                for row in stored.iter_rows("data", (*_COLUMNS, _ANSWER))
                if row["id"] not in exclusions
            }
            finished = {id for id, row in rows.items() if row["samples"] == digests.get(id) and row["n"] >= settings.n}
            unfinished = {id: digest for id, digest in digests.items() if id not in finished}
            samples = _SampleJournals(stored, settings, unfinished, verdicts, completions, progress)
            unjudged, unsampled = samples.list_unjudged(), samples.list_unsampled()
            if unjudged:
                samples.judge_and_sample(len(unjudged), open_sampler if unsampled else None, open_sandbox)
            table = [
                {**rows[id], **solve_rates.estimate_pass_rates(rows[id]["n"], rows[id]["n_correct"], settings.k)}
                if id in finished
                else samples.build_row(id, digest)
                for id, digest in digests.items()
            ]
            still_unjudged, refused = samples.list_unjudged(), samples.list_unsampled()
        n_unjudged = len(still_unjudged) - len(refused)
        if not n_unjudged:
            completions_path.unlink(missing_ok=True)
        solve_rates.replace_model_rows(dataset, model, table)
        refresh_report(dataset)
    return DifficultyMeasurement(
        settings,
        n_sampled=len(unsampled) - len(refused),
        n_judged=len(unjudged) - len(still_unjudged),
        n_unjudged=n_unjudged,
        n_refused=len(refused),
        exclusions=Counter(exclusions.values()),
    )


def _compute_samples_digest(problem: Row, settings: DifficultySettings, packages: Sequence[Package]) -> str:
    content = [
        *(problem[column] for column in _COLUMNS),
        *([problem[_ANSWER]] if problem.get(_ANSWER) else []),
        settings.prompt.cache_key(),
        settings.model,
        settings.temperature,
        settings.top_p,
        settings.max_tokens,
        settings.seed,
        *([dict(settings.engine)] if settings.engine else []),
        *([settings.languages] if settings.languages != PYTHON_ONLY else []),
        *([compute_fingerprint(packages)] if packages else []),
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class _SampleJournals:
    """The journals of completions and of verdicts, for all problems with missing samples.

    digests: prefix of the sample keys of each problem, by id
    """

    stored: Dataset
    settings: DifficultySettings
    digests: Mapping[str, str]
    verdicts: ResultJournal
    completions: ResultJournal
    progress: Progress

    def judge_and_sample(
        self,
        n_unjudged: int,
        open_sampler: Callable[[DifficultySettings], AbstractContextManager[SampleFunction]] | None,
        open_sandbox: Callable[[], Sandbox],
    ) -> None:
        """Judge the existing completions, then sample and judge the missing ones.

        open_sampler: factory of the sampler; None if no completion is missing
        """
        n_total = self.settings.n * len(self.digests)
        n_known = n_total - n_unjudged
        with open_sandbox() as sandbox:
            n_known = self._record_verdicts(judge_samples(self._read_unjudged(), sandbox), n_known, n_total)
            if open_sampler is not None:
                missing = self._iterate_requests(lambda key: key not in self.completions)
                with (
                    open_sampler(self.settings) as sample,
                    closing(sample_and_judge(missing, sample, sandbox, on_completion=self._store_completion)) as judged,
                ):
                    self._record_verdicts(judged, n_known, n_total)

    def build_row(self, id: str, digest: str) -> Row:
        keys = self._list_sample_keys(digest)
        read = _require_fields("verdict", "n_tokens", "truncated")
        records = [self.verdicts.load(key, read) for key in keys if key in self.verdicts]
        n_sampled = sum(key in self.verdicts or key in self.completions for key in keys)
        return solve_rates.build_row(id, digest, self.settings.to_dict(), records, n_sampled=n_sampled)

    def list_unjudged(self) -> list[str]:
        return [
            key
            for digest in self.digests.values()
            for key in self._list_sample_keys(digest)
            if key not in self.verdicts
        ]

    def list_unsampled(self) -> list[str]:
        return [key for key in self.list_unjudged() if key not in self.completions]

    def _list_sample_keys(self, digest: str) -> list[str]:
        return [build_sample_key(digest, number) for number in range(self.settings.n)]

    def _record_verdicts(self, judged: Iterator[Sample], n_known: int, n_total: int) -> int:
        """Journal the verdicts as they arrive, and report progress. Return the total number of verdicts."""
        stage = f"sample {self.settings.model}"
        self.progress(stage, n_known, n_total)
        for request, sample in judged:
            record = {"verdict": sample.verdict, "n_tokens": sample.n_tokens, "truncated": sample.truncated}
            self.verdicts.add(request.key, record)
            n_known += 1
            self.progress(stage, n_known, n_total)
        return n_known

    def _store_completion(self, request: SampleRequest, completion: SampleRecord) -> None:
        record = {
            "text": completion.text,
            "finish_reason": "length" if completion.truncated else "stop",
            "n_tokens": completion.n_tokens,
            **({"reasoning": completion.reasoning} if completion.reasoning else {}),
            **({"n_prompt_tokens": completion.n_prompt_tokens} if completion.n_prompt_tokens else {}),
        }
        self.completions.add(request.key, record)

    def _read_unjudged(self) -> Iterator[Sample]:
        for request in self._iterate_requests(lambda key: key in self.completions):
            record = self.completions.load(request.key, _require_fields("text", "finish_reason", "n_tokens"))
            truncated = record["finish_reason"] == "length"
            yield (
                request,
                SampleRecord(request.exercise.id, request.number, record["text"], record["n_tokens"], truncated),
            )

    def _iterate_requests(self, is_wanted: Callable[[str], bool]) -> Iterator[SampleRequest]:
        """Yield requests for the unjudged samples whose keys satisfy `is_wanted`, in the order of the problems."""
        for problem in self.stored.iter_rows("data", sorted({*_COLUMNS, _ANSWER, *TEST_COLUMNS})):
            digest = self.digests.get(problem["id"])
            keys = self._list_sample_keys(digest) if digest else []
            numbers = [n for n, key in enumerate(keys) if key not in self.verdicts and is_wanted(key)]
            if numbers:
                exercise = _make_exercise(problem, self.settings)
                for number in numbers:
                    seed = derive_sample_seed(self.settings.seed, number, exercise.id)
                    yield SampleRequest(keys[number], number, seed, exercise)


def _make_exercise(problem: Row, settings: DifficultySettings) -> Exercise:
    try:
        suite = decode_tests(problem)
    except (ValueError, KeyError, TypeError) as error:
        raise CurateError(
            f"{problem['id']}: its tests cannot be read ({shorten(error)}). Build the dataset again."
        ) from error
    judge = MathJudge(problem[_ANSWER]) if problem[_ANSWER] else SuiteJudge(suite, settings.languages)
    return Exercise(problem["id"], settings.prompt.build_row_chat(problem, suite), judge)
