"""How often a model solves each problem of a dataset: read `measure` from top to bottom.

    prompt -> sample -> the program in the answer -> judge -> count

Models answer while earlier answers are judged. An answer is on disk before it is judged and its verdict as soon as it
is known, so after a kill the same command judges what was sampled, and samples only what is missing. What comes out
is the table `difficulty/` of the dataset, one row for each problem and model; see curate/difficulty/table.py.
"""

import hashlib
import itertools
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from curate.dataset.journal import Journal
from curate.dataset.reader import Stored
from curate.difficulty import prompt
from curate.difficulty import table as solve_rates
from curate.errors import CurateError
from curate.reading.values import short
from curate.report.files import refresh_report
from curate.verification.retrying import FAILURES_IN_A_ROW
from rewards.extract import program_in
from sandbox import Program, Sandbox, SandboxError, Suite
from sandbox.concurrency.prefetch import ahead

log = logging.getLogger(__name__)

Row = dict[str, Any]
Report = Callable[[str, int, int | None], None]
Prompt = tuple[list[dict[str, str]], int]  # the messages, and the seed of this one sample

TRUNCATED, NO_CODE, ACCEPTED = "truncated", "no_code", "accepted"
_SETTINGS = "settings"  # the journal's record of what its samples were drawn with
_K = 8  # as INTELLECT-2 filters
_REFUSED = 16  # prompts refused before any was answered, after which the others are not tried
_AHEAD = 256  # answers that may wait for the sandbox; they are on disk, too


class Completion(Protocol):
    """An answer as train/sampling/protocol.py has it; finish_reason "length" means that it was cut off."""

    @property
    def text(self) -> str: ...
    @property
    def finish_reason(self) -> str: ...
    @property
    def n_tokens(self) -> int: ...


# Answers prompts as train/sampling/protocol.py does: (index, completion) as they finish, a ValueError for a prompt that
# it refuses.
Sample = Callable[[Iterable[Prompt]], Iterator[tuple[int, Completion | ValueError]]]


@dataclass(frozen=True, slots=True)
class Settings:
    """How a model is sampled; n samples of each problem, of which pass@k is estimated."""

    model: str
    temperature: float = 0.6  # this and top_p as DeepCoder evaluates
    top_p: float = 0.95
    max_tokens: int = 16384
    seed: int = 0
    n: int = _K
    k: int = _K

    def __post_init__(self) -> None:
        if self.n < self.k:
            raise CurateError(f"pass@{self.k} needs at least {self.k} samples, not {self.n}: give a larger --n.")


@dataclass(frozen=True, slots=True)
class Measured:
    """What one call has done. n_sampled and n_scored are those of this call; unscored samples had no verdict, since the
    sandbox or the problem's own referee failed, and refused ones no answer: the same command tries both again."""

    settings: Settings
    n_sampled: int = 0
    n_scored: int = 0
    n_unscored: int = 0
    n_refused: int = 0


def measure(
    dataset: Path,
    model: str,
    asked: Mapping[str, Any],
    opened: Callable[[Settings], AbstractContextManager[Sample]],
    machine: Callable[[], Sandbox],
    *,
    resample: bool = False,
    report: Report = lambda stage, done, total: None,
) -> Measured:
    """Sample the model on every problem until n of its answers are judged, and write what came out into the dataset.

    asked holds the Settings that somebody chose; the others are as they were when this model was sampled before, or
    else the defaults. What is known already is not sampled again, and where nothing is missing, neither `opened` nor
    `machine` is called. Raises CurateError if earlier samples were drawn in another way (resample drops those), and
    hands on what `opened` raises: what came until then is kept.
    """
    stored = Stored(dataset)
    with solve_rates.work(dataset, model) as work:
        journal_path, answers_path = work.with_suffix(".jsonl"), work.with_suffix(".answers.jsonl")
        if resample:
            journal_path.unlink(missing_ok=True)
            answers_path.unlink(missing_ok=True)
        rows = {} if resample else {r["id"]: r for r in solve_rates.read(dataset) if r["model"] == model}
        with Journal(journal_path) as journal, Journal(answers_path) as drawn:
            settings = _settings(model, asked, _before(journal, rows))
            if _SETTINGS not in journal or journal[_SETTINGS] != asdict(settings):
                journal.add(_SETTINGS, asdict(settings))
            names = {row["id"]: _name(row, settings) for row in stored.columns(*_QUESTION)}
            done = {id for id, row in rows.items() if row["samples"] == names.get(id) and row["n"] >= settings.n}
            run = _Run(stored, settings, {id: n for id, n in names.items() if id not in done}, journal, drawn, report)
            missing = run.missing()
            if missing:
                with machine() as sandbox:
                    run.score(run.sampled_before(), sandbox)
                    if any(key not in drawn for key in missing):
                        with opened(settings) as sample, ahead(run.answers(sample), _AHEAD) as answers:
                            run.score(answers, sandbox)
            measured = Measured(settings, run.n_sampled, run.n_scored, len(run.unscored()), run.n_refused)
            table = [
                {**rows[id], **solve_rates.estimates(rows[id]["n"], rows[id]["n_correct"], settings.k)}
                if id in done
                else solve_rates.row(id, name, asdict(settings), run.records(name), n_sampled=run.n_known(name))
                for id, name in names.items()
            ]
        if not measured.n_unscored:
            answers_path.unlink(missing_ok=True)  # judged: it has done its work, and is by far the largest file
        solve_rates.write(dataset, model, table)
        refresh_report(dataset)
    return measured


_QUESTION = ("id", "statement", "starter_code", "tests")


def _before(journal: Journal, rows: Mapping[str, Row]) -> Row | None:
    """How this model was sampled earlier, here or in the dataset that this one was made from."""
    if _SETTINGS in journal:
        before: Row = journal[_SETTINGS]
        return before
    first = next(iter(rows.values()), None)
    if first is None:
        return None
    return {field.name: first[field.name] for field in fields(Settings) if field.name != "n"} | {
        "n": max(row["n_sampled"] for row in rows.values())
    }


def _settings(model: str, asked: Mapping[str, Any], before: Row | None) -> Settings:
    before = before or {}
    for name in ("temperature", "top_p", "max_tokens", "seed"):
        if name in before and asked.get(name, before[name]) != before[name]:
            raise CurateError(
                f"the samples of {model} that are there have {name} {before[name]}, not {asked[name]}. "
                "Leave that option out to go on with them, or add --resample to drop them."
            )
    chosen = {**before, **asked, "model": model}
    if "n" not in asked:
        chosen["n"] = max(before.get("n", 0), chosen.get("k", _K))
    return Settings(**chosen)


def _name(question: Row, settings: Settings) -> str:
    """Names everything that a problem's samples and their verdicts depend on."""
    content = [
        *(question[name] for name in _QUESTION),
        prompt.WORDS,
        settings.model,
        settings.temperature,
        settings.top_p,
        settings.max_tokens,
        settings.seed,
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def _suite(question: Row) -> Suite:
    try:
        return Suite.from_json(question["tests"])
    except (ValueError, KeyError, TypeError) as error:
        raise CurateError(
            f"{question['id']}: its tests cannot be read ({short(error)}). Build the dataset again."
        ) from error


def _seed(settings: Settings, id: str, number: int) -> int:
    """Of one sample, so that it does not matter in which order samples are drawn, or in how many runs."""
    digest = hashlib.sha256(f"{settings.seed} {number} {id}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


class _Run:
    """The samples that a model still owes: where they are, and what has become of them."""

    def __init__(
        self,
        stored: Stored,
        settings: Settings,
        names: Mapping[str, str],
        journal: Journal,
        drawn: Journal,
        report: Report,
    ) -> None:
        self._stored = stored
        self._settings = settings
        self._names = names
        self._journal = journal
        self._drawn = drawn
        self._report = report
        self._done = settings.n * len(names) - len(self.missing())
        self.n_sampled = self.n_scored = self.n_refused = 0

    def missing(self) -> list[str]:
        """Keys of the samples without a verdict."""
        return [key for name in self._names.values() for key in self._keys(name) if key not in self._journal]

    def unscored(self) -> list[str]:
        """Keys of those that were sampled, but have no verdict."""
        return [key for key in self.missing() if key in self._drawn]

    def records(self, name: str) -> list[Row]:
        return [self._journal[key] for key in self._keys(name) if key in self._journal]

    def n_known(self, name: str) -> int:
        return sum(key in self._journal or key in self._drawn for key in self._keys(name))

    def sampled_before(self) -> Iterator[tuple[str, Suite, Row]]:
        """What an earlier run sampled and did not come to judge."""
        for question, keys in self._questions(lambda key: key in self._drawn):
            suite = _suite(question)
            for key in keys:
                yield key, suite, self._drawn[key]

    def answers(self, sample: Sample) -> Iterator[tuple[str, Suite, Row]]:
        """The answers that nobody has sampled yet, as they come; each is on disk before it is handed on."""
        waiting: dict[int, tuple[str, Suite]] = {}  # a suite is held while answers to its problem are to come

        def prompts() -> Iterator[Prompt]:
            numbers = itertools.count()
            for question, keys in self._questions(lambda key: key not in self._drawn):
                suite = _suite(question)
                chat = prompt.chat(question["statement"], question["starter_code"], suite.entry_point)
                for key in keys:
                    waiting[next(numbers)] = key, suite
                    yield chat, _seed(self._settings, question["id"], int(key.rpartition("/")[2]))

        for index, answer in sample(prompts()):
            key, suite = waiting.pop(index)
            if isinstance(answer, ValueError):
                self.n_refused += 1
                log.warning("%s: %s", key, answer)
                if self.n_refused >= _REFUSED and not self.n_sampled:
                    raise CurateError(f"{self._settings.model} refuses every prompt: {answer}")
                continue
            self.n_sampled += 1
            record = {"text": answer.text, "finish_reason": answer.finish_reason, "n_tokens": answer.n_tokens}
            self._drawn.add(key, record)
            yield key, suite, record

    def score(self, answers: Iterator[tuple[str, Suite, Row]], sandbox: Sandbox) -> None:
        """Judge answers as they come. One that the sandbox fails on gets no verdict: nothing is known about it.

        Raises CurateError when the sandbox fails again and again.
        """
        running: dict[int, tuple[str, int]] = {}
        failures = 0
        self._report(self._stage, self._done, self._total)

        def programs() -> Iterator[tuple[Program, Suite]]:
            numbers = itertools.count()
            for key, suite, record in answers:
                source = program_in(record["text"])
                if record["finish_reason"] == "length":
                    self._note(key, TRUNCATED, record["n_tokens"])
                elif source is None:
                    self._note(key, NO_CODE, record["n_tokens"])
                else:
                    running[next(numbers)] = key, record["n_tokens"]
                    yield Program(source), suite

        try:
            for index, judgement in sandbox.judge_each(programs()):
                key, n_tokens = running.pop(index)
                if isinstance(judgement, SandboxError):
                    failures += 1
                    log.warning("%s: the sandbox failed: %s", key, judgement)
                    if failures >= FAILURES_IN_A_ROW:
                        raise judgement
                elif isinstance(judgement, Exception):
                    log.warning("%s: its tests cannot judge: %s", key, judgement)
                else:
                    failures = 0
                    self._note(key, judgement.verdict.value, n_tokens)
        except SandboxError as error:
            raise CurateError(
                f"the sandbox fails: {error}. What was sampled is saved; see `curate doctor`, then run the same "
                "command again."
            ) from error

    @property
    def _stage(self) -> str:
        return f"sample {self._settings.model}"

    @property
    def _total(self) -> int:
        return self._settings.n * len(self._names)

    def _note(self, key: str, verdict: str, n_tokens: int) -> None:
        self._journal.add(key, {"verdict": verdict, "n_tokens": n_tokens})
        self.n_scored += 1
        self._done += 1
        self._report(self._stage, self._done, self._total)

    def _keys(self, name: str) -> list[str]:
        return [f"{name}/{number}" for number in range(self._settings.n)]

    def _questions(self, wanted: Callable[[str], bool]) -> Iterator[tuple[Row, list[str]]]:
        """Problems without all their verdicts, in order, with the keys of those samples that are wanted."""
        for question in self._stored.columns(*_QUESTION):
            name = self._names.get(question["id"])
            keys = [key for key in self._keys(name) if key not in self._journal and wanted(key)] if name else []
            if keys:
                yield question, keys
