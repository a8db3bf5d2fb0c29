"""The outcomes of a problem's samples, their form in a result file, and the summary of several problems.

    {"id": "abc365_d", "facts": {"difficulty": "medium", "platform": "atcoder", "date": "2024-08-03"},
     "bits": "11x0", "tokens": [812, 790, 0, 4096], "cut_off": "0001", "tests": "9f2c...", "samples": "51d0...",
     "verdicts": {"accepted": 2, "wrong_answer": 1}}

In `bits`, 1 is a correct sample, 0 a wrong sample, and x a sample without a verdict, which is not counted.
"""

import datetime
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil, nan
from statistics import fmean
from typing import Any, Self

from curate.difficulty.pass_at_k import pass_at_k
from train.evaluation.statistics.intervals import compute_solve_rate_interval, compute_standard_error

_BITS = {"1": True, "0": False, "x": None}
_CHARACTERS = {bit: character for character, bit in _BITS.items()}


@dataclass(frozen=True, slots=True)
class ProblemMetadata:
    """The metadata of a problem; None if unknown.

    difficulty    a word such as "easy", or a rating such as 1500
    platform      origin of the problem, such as "atcoder"
    tests_source  source of its tests, if it varies within a suite: "official", "official+generated", or "examples" for
                  the examples in its statement
    """

    difficulty: str | int | None = None
    platform: str | None = None
    date: datetime.date | None = None
    tests_source: str | None = None

    @property
    def month(self) -> str | None:
        """Return the month of the date, such as "2024-08"; None if unknown."""
        return None if self.date is None else f"{self.date:%Y-%m}"

    def to_json(self) -> dict[str, Any]:
        """Return the known metadata as JSON values."""
        metadata = asdict(self) | {"date": self.date and self.date.isoformat()}
        return {name: value for name, value in metadata.items() if value is not None}

    @classmethod
    def from_json(cls, metadata: Mapping[str, Any]) -> Self:
        """Decode the metadata in a result file. Raises ValueError if a value has another type."""
        difficulty, day = metadata.get("difficulty"), metadata.get("date")
        if not (isinstance(difficulty, str | None) or type(difficulty) is int):
            raise ValueError("difficulty must be a text or an integer")
        for name in ("platform", "tests_source"):
            if not isinstance(metadata.get(name), str | None):
                raise ValueError(f"{name} must be a text")
        try:
            date = None if day is None else datetime.date.fromisoformat(day)
        except (TypeError, ValueError):
            raise ValueError(f"date must be a day such as 2024-08-03, not {day!r}") from None
        return cls(difficulty, metadata.get("platform"), date, metadata.get("tests_source"))


@dataclass(frozen=True, slots=True)
class ProblemOutcomes:
    """The outcomes of the samples of one problem.

    correct         whether each sample is correct; None without a verdict
    tokens          length of each sample; 0 without a completion
    truncated       whether each sample reached the token limit
    tests_digest    digest of the tests that judged the samples; "" if unknown
    samples_digest  prefix of the samples' cache keys (CachedExercise.samples_digest); "" if unknown
    verdicts        count of each verdict; empty if unknown

    Raises ValueError if `correct`, `tokens` and `truncated` differ in length.
    """

    id: str
    metadata: ProblemMetadata
    correct: tuple[bool | None, ...]
    tokens: tuple[int, ...]
    truncated: tuple[bool, ...]
    tests_digest: str = ""
    samples_digest: str = ""
    verdicts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = len(self.correct), len(self.tokens), len(self.truncated)
        if len(set(lengths)) > 1:
            raise ValueError(
                f"{self.id}: bits, tokens and cut_off must have one value for each sample, "
                f"but they have {lengths[0]}, {lengths[1]} and {lengths[2]}"
            )

    @property
    def n(self) -> int:
        """Return the number of samples with a verdict."""
        return len(self.correct) - self.correct.count(None)

    @property
    def n_correct(self) -> int:
        return self.correct.count(True)

    def to_json(self) -> dict[str, Any]:
        """Return the entry of this problem in a result file."""
        return {
            "id": self.id,
            "facts": self.metadata.to_json(),
            "bits": "".join(_CHARACTERS[bit] for bit in self.correct),
            "tokens": list(self.tokens),
            "cut_off": "".join(_CHARACTERS[bit] for bit in self.truncated),
            **({"tests": self.tests_digest} if self.tests_digest else {}),
            **({"samples": self.samples_digest} if self.samples_digest else {}),
            **({"verdicts": dict(self.verdicts)} if self.verdicts else {}),
        }

    @classmethod
    def from_json(cls, entry: Any) -> Self:
        """Decode the entry of a problem in a result file, ignoring other fields.

        Raises ValueError with the problem's id and the field for an invalid entry.
        """
        if not isinstance(entry, dict):
            raise ValueError(f"a problem: expected an object, not {type(entry).__name__}")
        id = _read_field(entry, "id", str, "a problem")
        entry = {"tests": "", "samples": "", "verdicts": {}} | entry
        bits, truncated = (_parse_bits(_read_field(entry, name, str, id), name, id) for name in ("bits", "cut_off"))
        if None in truncated:
            raise ValueError(f"{id}: cut_off must contain only 0 and 1")
        tokens, verdicts = _read_field(entry, "tokens", list, id), _read_field(entry, "verdicts", dict, id)
        for name, numbers in (("tokens", tokens), ("verdicts", verdicts.values())):
            if not all(type(n) is int and n >= 0 for n in numbers):
                raise ValueError(f"{id}: {name} must be integers >= 0")
        try:
            metadata = ProblemMetadata.from_json(_read_field(entry, "facts", dict, id))
        except ValueError as error:
            raise ValueError(f"{id}: {error}") from None
        tests, samples = (_read_field(entry, name, str, id) for name in ("tests", "samples"))
        return cls(id, metadata, bits, tuple(tokens), tuple(map(bool, truncated)), tests, samples, verdicts)


def _read_field(entry: Mapping[str, Any], name: str, kind: type, id: str) -> Any:
    if not isinstance(entry.get(name), kind):
        raise ValueError(f"{id}: {name} is missing or is not of type {kind.__name__}")
    return entry[name]


def _parse_bits(characters: str, name: str, id: str) -> tuple[bool | None, ...]:
    unknown = sorted(set(characters) - _BITS.keys())
    if unknown:
        raise ValueError(f"{id}: {name} must contain only 0, 1 and x, not {unknown[0]!r}")
    return tuple(_BITS[character] for character in characters)


def count_passes(outcomes: Iterable[ProblemOutcomes]) -> list[tuple[int, int]]:
    """Return (number of judged samples, number of correct ones) of each problem with a verdict."""
    return [(problem.n, problem.n_correct) for problem in outcomes if problem.n]


def describe_tests_source(outcomes: Iterable[ProblemOutcomes]) -> str:
    """Return the sources of the tests, such as "official, official+generated"; "" if unknown."""
    return ", ".join(sorted({problem.metadata.tests_source for problem in outcomes if problem.metadata.tests_source}))


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of the judged samples of several problems; nan without any verdict.

    n_problems           problems with a verdict
    n_unknown            problems without a verdict
    n_samples            samples with a verdict
    n_no_verdict         samples without a verdict
    pass_at_1            mean solve rate of the problems
    standard_error       standard error of pass_at_1, clustered by problem; nan for one problem
    low, high            bounds of the 95% confidence interval of pass_at_1
    pass_at              pass@j for each j up to the smallest number of samples of a problem
    always_solved_share  share of problems with only correct samples
    n_truncated          samples that reached the token limit
    n_truncated_correct  correct samples that reached the token limit
    mean_tokens          mean length of a sample
    tokens_p50           median length of a sample
    tokens_p95           95th percentile of the length of a sample
    verdicts             count of each verdict
    """

    n_problems: int
    n_unknown: int
    n_samples: int
    n_no_verdict: int
    pass_at_1: float
    standard_error: float
    low: float
    high: float
    pass_at: Mapping[int, float]
    always_solved_share: float
    n_truncated: int
    n_truncated_correct: int
    mean_tokens: float
    tokens_p50: float
    tokens_p95: float
    verdicts: Mapping[str, int]

    @property
    def truncated_share(self) -> float:
        return self.n_truncated / self.n_samples if self.n_samples else nan


def summarize(outcomes: Iterable[ProblemOutcomes]) -> Summary:
    problems = tuple(outcomes)
    known = count_passes(problems)
    shares = [n_correct / n for n, n_correct in known]
    low, high = compute_solve_rate_interval(known)
    scored = [
        (correct, tokens, truncated)
        for problem in problems
        for correct, tokens, truncated in zip(problem.correct, problem.tokens, problem.truncated, strict=True)
        if correct is not None
    ]
    lengths = sorted(tokens for _, tokens, _ in scored)
    verdicts: Counter[str] = Counter()
    for problem in problems:
        verdicts.update(problem.verdicts)
    return Summary(
        n_problems=len(known),
        n_unknown=len(problems) - len(known),
        n_samples=len(scored),
        n_no_verdict=sum(len(problem.correct) for problem in problems) - len(scored),
        pass_at_1=fmean(shares) if shares else nan,
        standard_error=compute_standard_error(shares),
        low=low,
        high=high,
        pass_at=estimate_pass_at(known),
        always_solved_share=fmean(n == n_correct for n, n_correct in known) if known else nan,
        n_truncated=sum(truncated for _, _, truncated in scored),
        n_truncated_correct=sum(correct for correct, _, truncated in scored if truncated),
        mean_tokens=fmean(lengths) if lengths else nan,
        tokens_p50=_find_quantile(lengths, 0.5),
        tokens_p95=_find_quantile(lengths, 0.95),
        verdicts=dict(sorted(verdicts.items())),
    )


def estimate_pass_at(counts: Sequence[tuple[int, int]]) -> dict[int, float]:
    """Return pass@j for each j up to the smallest number of samples of a problem, as LiveCodeBench does.

    counts: (number of samples, above 0; number of correct ones) of each problem
    """
    found = {}
    for j in range(1, min((n for n, _ in counts), default=0) + 1):
        estimates = {pair: pass_at_k(*pair, j) or 0.0 for pair in set(counts)}
        found[j] = fmean(estimates[pair] for pair in counts)
    return found


def select_powers_of_two(estimates: Mapping[int, float]) -> dict[int, float]:
    """Return the entries for j = 1, 2, 4, 8 and so on, and the last one."""
    last = max(estimates, default=0)
    return {j: value for j, value in estimates.items() if j & (j - 1) == 0 or j == last}


def _find_quantile(sorted_values: Sequence[int], share: float) -> float:
    """Return the smallest value that is at least as large as this share of the values."""
    return sorted_values[ceil(share * len(sorted_values)) - 1] if sorted_values else nan


StratumKey = Callable[[ProblemMetadata], str | int | None]

STRATUM_KEYS: dict[str, StratumKey] = {
    "difficulty": lambda metadata: metadata.difficulty,
    "platform": lambda metadata: metadata.platform,
    "month": lambda metadata: metadata.month,
}
UNKNOWN = "unknown"  # name of the group of problems without this metadata
_EASIEST_FIRST = ("introductory", "easy", "interview", "medium", "competition", "hard")


def summarize_groups(outcomes: Iterable[ProblemOutcomes], stratum_key: StratumKey) -> dict[str, Summary]:
    """Summarize each group of problems with the same value of `stratum_key`.

    stratum_key: function of a problem's metadata, such as one of STRATUM_KEYS

    Difficulties are ordered from easy to hard, other values naturally; the group without a value is the last.
    """
    groups: dict[str | int | None, list[ProblemOutcomes]] = {}
    for problem in outcomes:
        groups.setdefault(stratum_key(problem.metadata), []).append(problem)
    return {
        UNKNOWN if value is None else str(value): summarize(groups[value])
        for value in sorted(groups, key=_build_stratum_sort_key)
    }


def _build_stratum_sort_key(value: str | int | None) -> tuple[int, int, str]:
    if value is None:
        return (3, 0, "")
    if isinstance(value, int):
        return (0, value, "")
    if value.lower() in _EASIEST_FIRST:
        return (1, _EASIEST_FIRST.index(value.lower()), value)
    return (2, 0, value)


def summarize_by_stratum(outcomes: Sequence[ProblemOutcomes]) -> dict[str, dict[str, Summary]]:
    """Summarize by difficulty, platform and month. Omits those that are unknown for all problems."""
    return {
        name: summarize_groups(outcomes, stratum_key)
        for name, stratum_key in STRATUM_KEYS.items()
        if any(stratum_key(problem.metadata) is not None for problem in outcomes)
    }
