"""The report on a target: as text for a terminal, HTML, JSON and JUnit XML."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from curate.probe.attempts import AttemptResult, Finding
from curate.probe.summary import ProbeSummary, summarize
from curate.report.html_kit import render
from curate.text.document import Section, Table, Text
from sandbox.probes import list_probe_classes
from sandbox.probes.probe import ProbeClass

_COLUMNS = {
    Finding.REWARDED: "rewarded", Finding.REFUSED: "refused", Finding.UNKNOWN: "unknown", Finding.CRASHED: "crashed",
    Finding.HUNG: "hung", Finding.CORRUPTED: "spoiled", Finding.OUTAGE: "outage", Finding.LENIENT: "lenient",
}  # fmt: skip
_ORDER = list(_COLUMNS)


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """The results of a probe of a target.

    target         the target, as typed by the user
    kind           its signature or protocol
    notes          sentences on skipped probes and missing protections
    extra_classes  classes of probes outside the catalogue
    """

    target: str
    kind: str
    notes: Sequence[str]
    results: Sequence[AttemptResult]
    extra_classes: Sequence[ProbeClass] = ()

    @property
    def summary(self) -> ProbeSummary:
        return summarize(self.results)


@dataclass(frozen=True, slots=True)
class Weakness:
    """A finding on probes of one class.

    shortest  the result with the shortest submissions
    ids       ids of the probes
    """

    probe_class: ProbeClass
    finding: Finding
    shortest: AttemptResult
    ids: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{self.finding}: {self.probe_class.id}, {len(self.ids)} probe{'s' if len(self.ids) > 1 else ''}"


def find_weaknesses(report: ProbeReport) -> list[Weakness]:
    """Return the weaknesses, the most severe first."""
    grouped: dict[tuple[int, str], list[AttemptResult]] = {}
    for result in report.results:
        if result.finding in _COLUMNS:
            grouped.setdefault((_ORDER.index(result.finding), result.class_id), []).append(result)
    classes = {probe_class.id: probe_class for probe_class in (*list_probe_classes(), *report.extra_classes)}
    return [
        Weakness(
            classes[class_id],
            results[0].finding,
            min(results, key=lambda result: sum(map(len, result.answers))),
            tuple(sorted({result.probe_id for result in results})),
        )
        for (_, class_id), results in sorted(grouped.items(), key=lambda item: item[0])
    ]


def build_sections(report: ProbeReport) -> Iterator[Section]:
    """Yield the sections of the report for a terminal."""
    summary = report.summary
    header = ["class", "tried", *_COLUMNS.values()]
    rows = [
        [name, counts.tried, *(counts.found.get(finding) for finding in _COLUMNS)]
        for name, counts in summary.by_class.items()
    ]
    yield Section(f"{report.target} ({report.kind})", [Table(header, rows)])
    for weakness in find_weaknesses(report):
        if weakness.finding is Finding.LENIENT:
            continue
        names = ", ".join(name.rpartition("/")[2] for name in weakness.ids)
        of_class, shortest = weakness.probe_class, weakness.shortest
        score = ", ".join("None" if each.value is None else f"{each.value:g}" for each in shortest.scores)
        blocks = [
            Text(f"{of_class.why} Remedy: {of_class.remedy} Documented: {of_class.source}."),
            Text(
                f"Probes: {names}. The shortest is {shortest.id}, with reward {score}. {_get_detail(shortest)}".rstrip()
            ),
            *(Text(answer[:2000], "code") for answer in shortest.answers),
        ]
        yield Section(weakness.title, blocks)
    lenient = [weakness for weakness in find_weaknesses(report) if weakness.finding is Finding.LENIENT]
    if lenient:
        names = ", ".join(name for weakness in lenient for name in weakness.ids)
        yield Section("Accepted by some official graders too", [Text(f"Not counted as weaknesses: {names}.")])
    rates = [("hacks rewarded", str(summary.hacks)), ("right submissions refused", str(summary.refusals))]
    yield Section("Error rates", [Table((), rates), *(Text(note) for note in report.notes)])


def _get_detail(result: AttemptResult) -> str:
    return next(filter(None, [result.detail, *(score.detail for score in result.scores)]), "")


def format_json(report: ProbeReport) -> str:
    """Return the report as JSON: the summary, the counts, and the weaknesses."""
    summary = report.summary
    content: dict[str, Any] = {
        "target": report.target,
        "kind": report.kind,
        "notes": list(report.notes),
        "summary": summary.line,
        "hacks": {**asdict(summary.hacks), "interval": summary.hacks.interval},
        "refusals": {**asdict(summary.refusals), "interval": summary.refusals.interval},
        "unknown": summary.unknown,
        "outages": summary.outages,
        "classes": {
            name: {"tried": counts.tried, **{str(finding): n for finding, n in counts.found.items()}}
            for name, counts in summary.by_class.items()
        },
        "findings": [
            {
                "finding": each.finding, "class": each.probe_class.id, "why": each.probe_class.why,
                "remedy": each.probe_class.remedy, "source": each.probe_class.source, "probes": each.ids,
                "shortest": each.shortest.to_record(),
            }
            for each in find_weaknesses(report)
        ],
    }  # fmt: skip
    return json.dumps(content, indent=1) + "\n"


def format_junit(report: ProbeReport) -> str:
    """Return the report as JUnit XML: a suite for each class, and a case for each attempt."""
    by_class: dict[str, list[AttemptResult]] = {}
    for result in report.results:
        by_class.setdefault(result.class_id, []).append(result)
    root = ElementTree.Element("testsuites", name=f"curate probe {report.target}")
    for class_id, results in by_class.items():
        failed = [result for result in results if _is_failure(result)]
        suite = ElementTree.SubElement(
            root, "testsuite", name=class_id, tests=str(len(results)), failures=str(len(failed))
        )
        for result in results:
            seconds = sum(score.seconds for score in result.scores)
            case = ElementTree.SubElement(suite, "testcase", classname=class_id, name=result.id, time=f"{seconds:.3f}")
            if result in failed:
                failure = ElementTree.SubElement(case, "failure", message=result.finding)
                failure.text = _escape_for_xml("\n".join([result.detail, *result.answers]))
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _is_failure(result: AttemptResult) -> bool:
    return result.finding not in (Finding.SOUND, Finding.LENIENT)


def _escape_for_xml(text: str) -> str:
    """Escape the characters that XML does not allow."""
    return "".join(
        c if c in "\n\t" or "\x20" <= c < "\ud800" or "\ue000" <= c < "\ufffe" or c > "\uffff" else repr(c)[1:-1]
        for c in text
    )


def render_page(report: ProbeReport) -> str:
    """Return the report as a single HTML page without scripts."""
    summary = report.summary
    table: Mapping[str, Any] = {
        name: [counts.tried, *(counts.found.get(finding, 0) for finding in _COLUMNS)]
        for name, counts in summary.by_class.items()
    }
    return render(
        Path(__file__).with_name("page.html"), report=report, summary=summary, weaknesses=find_weaknesses(report),
        table=table, columns=list(_COLUMNS.values()),
    )  # fmt: skip
