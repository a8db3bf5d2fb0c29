"""The spine: raw records in, a verified and deduplicated dataset out. Read `build` from top to bottom.

    read -> filter -> verify -> cross-check -> run again -> deduplicate -> decontaminate -> measure the tests -> write

Each problem lies on disk between the stages, and so does what was found out about it; memory holds ids and sketches.
What was executed is journaled under a name that covers everything it depends on, so after a kill the same command
reads its inputs again, which is cheap, and executes only what is missing. The manifest is written last.
"""

import json
import logging
import os
import pkgutil
import platform
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module, metadata
from itertools import islice
from pathlib import Path
from typing import Any

from curate import sources
from curate.dataset import card, workspace, writer
from curate.dataset.journal import Found, Journal, Records
from curate.dataset.spill import Spill
from curate.decontamination.decontaminate import HIT_COLUMNS, decontaminate
from curate.decontamination.evaluation_sets import Evaluation, evaluations_of
from curate.decontamination.rows import reported, rows_of
from curate.dedup.duplicates import duplicates
from curate.dedup.sketches import Sketches
from curate.errors import CurateError
from curate.filters.few_tests import few_tests
from curate.filters.image import image
from curate.filters.interactive import interactive
from curate.filters.no_reference import no_reference
from curate.filters.no_statement import no_statement
from curate.filters.wrong_language import wrong_language
from curate.problem import Problem, Rejection, to_row
from curate.reading.tables import Table, known_options, locate, sha256, size
from curate.reading.values import short
from curate.report.duplicates import least_similar
from curate.report.files import write_report
from curate.strength import measure, mutation
from curate.strength.measure import Strength
from curate.verification.cross_check import Opinion, cross_check
from curate.verification.references import Finding, cpu_seconds, find_references, fingerprint, run_again, settle
from sandbox import Sandbox, SandboxError, Verdict, languages

log = logging.getLogger(__name__)

# Called with a stage, how much of it is done, and how much there is (None: not known yet).
Report = Callable[[str, int, int | None], None]
Manifest = dict[str, Any]

_PACKAGES = ("curate-code", "datasketch", "numpy", "pyarrow", "xxhash")
# Of rejections, in the order in which they happen.
_STAGES = ("parse", "filter", "verify", "dedup", "decontaminate", "strength")


@dataclass(frozen=True, slots=True)
class Options:
    """What decides the content of a dataset, beside its inputs."""

    min_tests: int = 5  # DeepCoder's rule; fewer invite programs that print memorised answers
    tries: int = 8  # solutions executed before a problem is given up
    reference_languages: tuple[str, ...] = ("python",)  # of the solutions that may be executed
    cross_checks: int = 3  # further solutions executed, to see whether they agree with the tests
    no_reference: str = "keep"  # or "drop": problems of sources that publish no solutions
    dedup: float = 0.7  # least Jaccard of word 5-grams at which two statements are nearly the same
    mutants: int = mutation.MOST  # wrong programs made of each reference, to see what its tests catch
    min_test_strength: float | None = None  # least share of them that the tests must reject; None: any
    limit: int | None = None  # problems read of each source; None: all
    seed: int = 0

    def __post_init__(self) -> None:
        if self.no_reference not in ("keep", "drop"):
            raise ValueError(f'no_reference must be "keep" or "drop", not {self.no_reference!r}')
        if self.min_test_strength is not None and not self.mutants:
            raise ValueError("without mutants no test strength is measured: min_test_strength needs mutants above 0")
        for name in self.reference_languages:
            languages.load(name)


def source_names() -> list[str]:
    """Names that a source can have: the files of curate/sources."""
    return sorted(module.name for module in pkgutil.iter_modules(sources.__path__))


def build(
    locations: Sequence[tuple[str, str]],
    out: Path,
    options: Options,
    *,
    against: Sequence[str] = (),
    workers: int | None = None,
    isolation: str = "full",
    ray: str | None = None,
    overwrite: bool = False,
    report: Report = lambda stage, done, total: None,
) -> Manifest:
    """Build the dataset of the named sources (name, location) in the folder `out` and return its manifest.

    against names evaluation sets, as `curate decontaminate` takes them, whose items no row may hold.
    ray is the address of a cluster whose nodes execute the programs, with that many workers each; without it, this
    machine does. What comes out is the same.

    A folder that is finished already is recognised by its inputs and options, and left as it is. Raises
    CurateError when an input, the folder or the sandbox does not allow the build to go on.
    """
    tables = _tables(locations)
    evaluations = evaluations_of(against)
    plan = _plan(tables, options, evaluations)
    done = workspace.finished(out, plan, overwrite=overwrite)
    if done is not None:
        return done
    seconds: dict[str, float] = {}
    with (
        _explained(out),  # outermost: closing a file on a full disk fails, too
        workspace.opened(out, plan, overwrite=overwrite) as work,
        closing(Spill(work / "problems")) as spill,
    ):
        rejections: list[Rejection] = []
        read: Counter[str] = Counter()
        keys: dict[str, str] = {}

        with _timed(seconds, "read"):
            for item in screen(tables, options):
                read[item.source] += 1
                report("read", read.total(), None)
                if isinstance(item, Rejection):
                    rejections.append(item)
                    continue
                spill.add(item)
                if item.solutions is not None:
                    keys[item.id] = fingerprint(
                        item, tries=options.tries, languages=options.reference_languages, seed=options.seed
                    )

        machine = partial(Sandbox, workers=workers, isolation=isolation)
        if ray is not None:
            machine = partial(machine, backend="ray", address=ray)
        with _timed(seconds, "verify"):
            first = partial(_first_runs, spill, options, machine)
            findings = _executed("verify", keys, first, work / "findings.jsonl", Finding.from_record, report)
        with _timed(seconds, "cross-check"):
            asked = {id: key for id, key in keys.items() if options.cross_checks or findings[id].passed is None}
            others = partial(_cross_checks, spill, findings, options, machine)
            opinions = _executed("cross-check", asked, others, work / "opinions.jsonl", Opinion.from_record, report)
        settled = partial(_settled, spill, findings, opinions, options)
        with _timed(seconds, "run again"):
            passed = {id: key for id, key in keys.items() if findings[id].passed is not None}
            second = partial(_second_runs, settled, options, machine)
            repeats = _executed("run again", passed, second, work / "second.jsonl", dict[str, Any], report)
        failed = [_reference_fails(spill.load(id), findings[id], opinions[id]) for id in keys.keys() - passed.keys()]
        verdicts = ((id, repeat["verdict"]) for id, repeat in repeats.items())
        failed += [_flaky(id, verdict) for id, verdict in verdicts if verdict != Verdict.ACCEPTED.value]
        rejections += failed

        with _timed(seconds, "deduplicate"):
            names = [name for name, _ in tables]
            left = sorted(set(spill) - {rejection.id for rejection in failed})
            problems = map(settled, _counted(left, "deduplicate", report))
            with Sketches(problems, names, folder=work) as sketches:
                removed = list(duplicates(sketches, threshold=options.dedup, load=settled))
            pairs = least_similar(removed, settled)
            rejections += removed

        with _timed(seconds, "decontaminate"):
            different = sorted(set(left) - {rejection.id for rejection in removed})
            found = decontaminate(reported(rows_of(different, spill.load, removed), report), evaluations)
            contaminated = found.rejections.values()
            rejections += contaminated

        with _timed(seconds, "measure the tests"):
            clean = sorted(set(different) - {rejection.id for rejection in contaminated})
            verified = filter(passed.__contains__, clean)
            wanted = _strength_keys(map(settled, verified), options) if options.mutants else {}
            measured = partial(_measurements, settled, options, machine)
            journal = work / "strengths.jsonl"
            strengths = _executed("measure the tests", wanted, measured, journal, Strength.from_record, report)
            weak = [_weak(id, found) for id, found in strengths.items() if _is_weak(found, options)]
            rejections += weak

        with _timed(seconds, "write"):
            kept = sorted(set(clean) - {rejection.id for rejection in weak})
            rows = (to_row(_with_strength(settled(id), strengths.get(id))) for id in _counted(kept, "write", report))
            rejections.sort(key=lambda r: (r.id, r.stage, r.reason, r.detail))
            shutil.rmtree(work / "final", ignore_errors=True)  # half of it, if a build was killed here
            content_hash = writer.write(rows, rejections, work / "final")
            if evaluations:
                writer.write_table(map(asdict, found.hits), HIT_COLUMNS, work / "final" / "contamination")

        manifest = {
            "plan": plan,
            "content_hash": content_hash,
            "counts": _counts(names, read, rejections, kept, passed),
            "decontamination": found.counts,
            "strength": measure.summary(strengths.values()),
            "locations": {name: {"location": t.location, "revision": t.revision} for name, t in tables},
            "workers": workers,
            "isolation": isolation,
            "backend": "local" if ray is None else "ray",
            "versions": {name: _version(name) for name in _PACKAGES},
            "machine": {
                "python": platform.python_version(),
                "system": platform.platform(),
                "processors": os.cpu_count(),
            },
            "seconds": seconds,
            "reference_cpu_seconds": round(sum(finding.cpu_seconds for finding in findings.values()), 3),
            "executed_cpu_seconds": round(
                sum(finding.spent_seconds for finding in findings.values())
                + sum(opinion.spent_seconds for opinion in opinions.values())
                + sum(repeat["cpu_seconds"] for repeat in repeats.values())
                + sum(found.spent_seconds for found in strengths.values()),
                3,
            ),
        }
        card.write(manifest, work / "final")
        write_report(work / "final", manifest, pairs)
        workspace.publish(work, out, manifest)
    return manifest


def survey(
    locations: Sequence[tuple[str, str]], options: Options, *, report: Report, against: Sequence[str] = ()
) -> dict[str, Any]:
    """Read and filter only: the counts of a build that executes and writes nothing. Raises CurateError."""
    tables = _tables(locations)
    evaluations_of(against)  # for its errors: nothing is compared
    read: Counter[str] = Counter()
    rejections: list[Rejection] = []
    kept: list[str] = []
    for item in screen(tables, options):
        read[item.source] += 1
        report("read", read.total(), None)
        if isinstance(item, Rejection):
            rejections.append(item)
        else:
            kept.append(item.id)
    return _counts([name for name, _ in tables], read, rejections, kept, ())


def screen(tables: Iterable[tuple[str, Table]], options: Options) -> Iterator[Problem | Rejection]:
    """Read the sources one after another and ask each problem the structural questions, in order."""
    questions: list[Callable[[Problem], str | None]] = [
        partial(no_reference, keep_unpublished=options.no_reference == "keep"),
        partial(wrong_language, languages=options.reference_languages),
        partial(few_tests, at_least=options.min_tests),
        no_statement,
        image,
        interactive,
    ]
    for name, table in tables:
        seen: set[str] = set()
        for item in islice(import_module(f"curate.sources.{name}").read(table), options.limit):
            if item.id in seen:
                yield Rejection(item.id, name, "parse", "repeated_id", "the first row of this id was read")
                continue
            seen.add(item.id)
            if isinstance(item, Rejection):
                yield item
            elif reason := _unstorable(item):
                yield Rejection(item.id, name, "parse", "unparsable", reason)
            elif reason := next(filter(None, (question(item) for question in questions)), None):
                yield Rejection(item.id, name, "filter", reason, _shape(item))
            else:
                yield item


def _unstorable(problem: Problem) -> str | None:
    try:
        json.dumps(to_row(problem), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return f"text that is not Unicode: {short(error)}"
    return None


def _shape(problem: Problem) -> str:
    solutions = f"{len(problem.solutions or ())} solutions"
    if problem.solutions:
        solutions += f" in {', '.join(sorted({solution.language for solution in problem.solutions}))}"
    return (
        f"{len(problem.tests.cases)} distinct tests of {problem.n_tests_read}, {solutions}, "
        f"{problem.n_pictures} pictures counted by the source"
    )


def _tables(locations: Sequence[tuple[str, str]]) -> list[tuple[str, Table]]:
    names = [name for name, _ in locations]
    for name in names:
        if name not in source_names():
            raise CurateError(f"no source {name}. Choose one of {', '.join(source_names())}.")
        if names.count(name) > 1:
            raise CurateError(f"source {name} is given twice. Put its files into one folder.")
    return [(name, _table(name, location)) for name, location in locations]


def _table(name: str, location: str) -> Table:
    table = locate(location)
    source = import_module(f"curate.sources.{name}")
    if hasattr(source, "select"):
        selected: Table = source.select(table)
        return selected
    known_options(table, ())
    return table


def _plan(tables: Sequence[tuple[str, Table]], options: Options, evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    inputs = {
        name: [{"name": f.name, "bytes": size(f), "sha256": sha256(f)} for f in table.files] for name, table in tables
    }
    configuration = {
        # The order of the sources decides between duplicates, and a JSON object has none when compared.
        "sources": [name for name, _ in tables],
        "source_options": {name: table.options for name, table in tables if table.options},
        **json.loads(json.dumps(asdict(options))),
    }
    return {
        "curate": _version("curate-code"),
        "inputs": inputs,
        "configuration": configuration,
        "against": [evaluation.plan for evaluation in evaluations],
    }


def _executed(
    stage: str,
    keys: dict[str, str],
    execute: Callable[[list[str]], Iterator[tuple[str, Any]]],
    journal_path: Path,
    read: Callable[[Any], Found],
    report: Report,
) -> Records[Found]:
    """A record for each problem: from the journal, or else executed now and journaled as it comes."""
    with Journal(journal_path) as journal:
        missing = [id for id, key in keys.items() if key not in journal]
        done = len(keys) - len(missing)
        report(stage, done, len(keys))
        for id, record in execute(missing) if missing else ():
            journal.add(keys[id], record)
            done += 1
            report(stage, done, len(keys))
        return journal.records(keys, read)


def _first_runs(
    spill: Spill, options: Options, machine: Callable[..., Sandbox], ids: list[str]
) -> Iterator[tuple[str, Any]]:
    with machine(seed=options.seed) as sandbox:
        for problem, finding in find_references(
            map(spill.load, ids), sandbox, tries=options.tries, languages=options.reference_languages
        ):
            yield problem.id, finding.to_record()


def _second_runs(
    settled: Callable[[str], Problem], options: Options, machine: Callable[..., Sandbox], ids: list[str]
) -> Iterator[tuple[str, Any]]:
    with machine(seed=options.seed + 1) as sandbox:
        for problem, judgement in run_again(map(settled, ids), sandbox):
            yield problem.id, {"verdict": judgement.verdict.value, "cpu_seconds": cpu_seconds(judgement)}


def _cross_checks(
    spill: Spill, findings: Records[Finding], options: Options, machine: Callable[..., Sandbox], ids: list[str]
) -> Iterator[tuple[str, Any]]:
    with machine(seed=options.seed) as sandbox:
        for problem, opinion in cross_check(
            map(spill.load, ids),
            findings,
            sandbox,
            others=options.cross_checks,
            tries=options.tries,
            languages=options.reference_languages,
        ):
            yield problem.id, opinion.to_record()


def _measurements(
    settled: Callable[[str], Problem], options: Options, machine: Callable[..., Sandbox], ids: list[str]
) -> Iterator[tuple[str, Any]]:
    with machine(seed=options.seed) as sandbox:
        for problem, found in measure.measure(map(settled, ids), sandbox, most=options.mutants, seed=options.seed):
            yield problem.id, found.to_record()


def _strength_keys(problems: Iterable[Problem], options: Options) -> dict[str, str]:
    return {
        problem.id: measure.fingerprint(problem, most=options.mutants, seed=options.seed)
        for problem in problems
        if measure.measurable(problem)
    }


def _settled(
    spill: Spill, findings: Records[Finding], opinions: Records[Opinion], options: Options, id: str
) -> Problem:
    problem = spill.load(id)
    if id not in findings:
        return problem
    problem = settle(problem, findings[id], languages=options.reference_languages)
    opinion = opinions.get(id)
    if not problem.verified or opinion is None:
        return problem
    return replace(
        problem,
        n_references=problem.n_references + opinion.n_passing,
        multi_answer_suspect=opinion.n_dissenting > 0,
    )


def _with_strength(problem: Problem, found: Strength | None) -> Problem:
    if found is None or found.share is None:
        return problem
    return replace(
        problem,
        test_strength=round(found.share, 4),
        n_mutants=found.n_mutants,
        n_mutants_killed=found.n_killed,
        n_mutants_equivalent=found.n_equivalent,
        strongest_tests=found.strongest,
    )


def _reference_fails(problem: Problem, finding: Finding, opinion: Opinion) -> Rejection:
    causes = Counter(finding.causes)
    detail = ", ".join(f"{word} {n}" for word, n in sorted(causes.items()))
    detail += f"; {finding.n_tries} of {len(problem.solutions or ())} solutions tried"
    if opinion.n_wrong_tests:
        detail += f"; at {opinion.n_wrong_tests} tests most of them agree on another answer than the expected one"
    cause = "wrong_tests" if opinion.n_wrong_tests else causes.most_common(1)[0][0]
    return Rejection(problem.id, problem.source, "verify", "reference_fails", detail, cause)


def _is_weak(found: Strength, options: Options) -> bool:
    """Where nothing could be measured, nothing is held against the tests."""
    return options.min_test_strength is not None and found.share is not None and found.share < options.min_test_strength


def _weak(id: str, found: Strength) -> Rejection:
    survivors = ", ".join(f"{kind} {n}" for kind, n in found.survivors)
    wrong = found.n_mutants - found.n_equivalent
    detail = f"{found.n_killed} of {wrong} wrong programs rejected; accepted: {survivors}"
    return Rejection(id, id.partition("/")[0], "strength", "weak_tests", detail)


def _flaky(id: str, verdict: str) -> Rejection:
    detail = f"accepted, then {verdict} with another seed"
    return Rejection(id, id.partition("/")[0], "verify", "flaky_reference", detail)


def _counts(
    names: Sequence[str],
    read: Counter[str],
    rejections: Sequence[Rejection],
    kept: Sequence[str],
    passed: Iterable[str],
) -> dict[str, Any]:
    counts: dict[str, Any] = {name: {"read": read[name], "rejected": {}, "kept": 0, "verified": 0} for name in names}
    for rejection in sorted(rejections, key=lambda r: (_STAGES.index(r.stage), r.reason)):
        by_reason = counts[rejection.source]["rejected"].setdefault(rejection.stage, {})
        by_reason[rejection.reason] = by_reason.get(rejection.reason, 0) + 1
    verified = set(passed)
    for id in kept:
        counts[id.partition("/")[0]]["kept"] += 1
        counts[id.partition("/")[0]]["verified"] += id in verified
    return counts


def _counted(ids: Sequence[str], stage: str, report: Report) -> Iterator[str]:
    for done, id in enumerate(ids, start=1):
        yield id
        report(stage, done, len(ids))


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    seconds[stage] = round(time.monotonic() - start, 3)
    log.info("%s took %.1f s", stage, seconds[stage])


@contextmanager
def _explained(out: Path) -> Iterator[None]:
    """What the machine does to a build, in words that say what to do next."""
    try:
        yield
    except SandboxError as error:
        raise CurateError(f"the sandbox cannot run: {error}. See `curate doctor`.") from error
    except OSError as error:
        raise CurateError(
            f"{error}. What was verified so far is saved in {out}; the same command continues."
        ) from error


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
