"""What is known of the samples of a problem, and its form in a result file:

    {"id": "abc365_d", "facts": {"difficulty": "medium", "platform": "atcoder", "date": "2024-08-03"},
     "bits": "11x0", "tokens": [812, 790, 0, 4096], "cut_off": "0001", "tests": "9f2c...", "samples": "51d0...",
     "verdicts": {"accepted": 2, "wrong_answer": 1}}

In `bits`, 1 is a right sample, 0 a wrong one, and x one without a verdict. A sample without a verdict counts neither as
right nor as wrong: nothing is known about it.
"""

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

_BITS = {"1": True, "0": False, "x": None}
_CHARACTERS = {bit: character for character, bit in _BITS.items()}


@dataclass(frozen=True, slots=True)
class ProblemMetadata:
    """What is known of a problem besides its samples. What is unknown is None.

    difficulty    a word such as "easy", or a rating such as 1500
    platform      where the problem comes from, such as "atcoder"
    date          the day on which the problem was published
    tests_source  where its tests come from, if the problems of a suite differ in that: "official",
                  "official+generated", or "examples" for those of its statement
    """

    difficulty: str | int | None = None
    platform: str | None = None
    date: datetime.date | None = None
    tests_source: str | None = None

    @property
    def month(self) -> str | None:
        """Return the month of the date, such as "2024-08"."""
        return None if self.date is None else f"{self.date:%Y-%m}"

    def to_json(self) -> dict[str, Any]:
        """Return the known facts as plain values."""
        day = None if self.date is None else self.date.isoformat()
        facts = {
            "difficulty": self.difficulty,
            "platform": self.platform,
            "date": day,
            "tests_source": self.tests_source,
        }
        return {name: fact for name, fact in facts.items() if fact is not None}


@dataclass(frozen=True, slots=True)
class ProblemOutcomes:
    """What is known of the samples of one problem.

    correct         for each sample, whether it is right; None: it has no verdict
    tokens          for each sample, its length; 0 if there is no answer
    truncated       for each sample, whether it reached the limit of tokens
    tests_digest    a digest of the tests that judged the samples; "" if it is unknown
    samples_digest  the digest under which the samples are kept (train/evaluation/fingerprints.py); "" if unknown
    verdicts        how often each verdict was given; empty if it is unknown

    Raises ValueError if `correct`, `tokens` and `truncated` do not speak of equally many samples.
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
        """Return the number of samples that have a verdict."""
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
        """Read the entry of a problem in a result file. Other fields of the entry are ignored.

        Raises ValueError if it is not such an entry; the message names the problem and the field.
        """
        id = _field(entry, "id", str, "a problem")
        bits = _bits(_field(entry, "bits", str, id), "bits", id)
        truncated = _bits(_field(entry, "cut_off", str, id), "cut_off", id)
        if None in truncated:
            raise ValueError(f"{id}: cut_off may contain only 0 and 1")
        tokens = _field(entry, "tokens", list, id)
        if not all(type(n) is int and n >= 0 for n in tokens):
            raise ValueError(f"{id}: tokens must be integers >= 0")
        facts = _facts(_field(entry, "facts", dict, id), id)
        tests, samples = (_field({name: ""} | entry, name, str, id) for name in ("tests", "samples"))
        verdicts = _field({"verdicts": {}} | entry, "verdicts", dict, id)
        if not all(type(n) is int and n >= 0 for n in verdicts.values()):
            raise ValueError(f"{id}: verdicts must be integers >= 0")
        return cls(id, facts, bits, tuple(tokens), tuple(bool(bit) for bit in truncated), tests, samples, verdicts)


def pass_counts(outcomes: Iterable[ProblemOutcomes]) -> list[tuple[int, int]]:
    """Return the numbers of samples with a verdict and of right ones, for each problem that has a verdict."""
    return [(problem.n, problem.n_correct) for problem in outcomes if problem.n]


def _field(entry: Any, name: str, kind: type, id: str) -> Any:
    if not isinstance(entry, dict):
        raise ValueError(f"{id}: expected an object, not {type(entry).__name__}")
    if not isinstance(entry.get(name), kind):
        raise ValueError(f"{id}: {name} is missing or is not of type {kind.__name__}")
    return entry[name]


def _bits(characters: str, name: str, id: str) -> tuple[bool | None, ...]:
    unknown = sorted(set(characters) - _BITS.keys())
    if unknown:
        raise ValueError(f"{id}: {name} may contain only 0, 1 and x, not {unknown[0]!r}")
    return tuple(_BITS[character] for character in characters)


def _facts(facts: Mapping[str, Any], id: str) -> ProblemMetadata:
    difficulty, platform, day = facts.get("difficulty"), facts.get("platform"), facts.get("date")
    if not (difficulty is None or isinstance(difficulty, str) or type(difficulty) is int):
        raise ValueError(f"{id}: difficulty must be a text or an integer")
    if not (platform is None or isinstance(platform, str)):
        raise ValueError(f"{id}: platform must be a text")
    source = facts.get("tests_source")
    if not (source is None or isinstance(source, str)):
        raise ValueError(f"{id}: tests_source must be a text")
    try:
        return ProblemMetadata(difficulty, platform, None if day is None else datetime.date.fromisoformat(day), source)
    except (TypeError, ValueError):
        raise ValueError(f"{id}: date must be a day such as 2024-08-03, not {day!r}") from None
