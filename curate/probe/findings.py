"""The findings about a target, in sections for a terminal and a page, and as JSON and JUnit XML."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from curate.probe.attempts import AttemptResult, Finding
from curate.probe.summary import ProbeSummary, shortest, summarize
from curate.report.html_kit import render
from curate.text.document import Section, Table, Text
from sandbox.probes import probe_classes
from sandbox.probes.probe import ProbeClass

_COLUMNS = {
    Finding.REWARDED: "rewarded", Finding.REFUSED: "refused", Finding.UNKNOWN: "unknown", Finding.CRASHED: "crashed",
    Finding.HUNG: "hung", Finding.SPOILED: "spoiled", Finding.OUTAGE: "outage", Finding.LENIENT: "lenient",
}  # fmt: skip
_ORDER = list(_COLUMNS)


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """The results of a probe of a target.

    target   its name, as the user gave it
    kind     its signature or protocol
    notes    skipped probes and missing protections, in sentences
    more     classes of probes beside the catalogue
    """

    target: str
    kind: str
    notes: Sequence[str]
    results: Sequence[AttemptResult]
    more: Sequence[ProbeClass] = ()

    @property
    def summary(self) -> ProbeSummary:
        return summarize(self.results)


@dataclass(frozen=True, slots=True)
class Hole:
    """A class of probes that showed the same finding, with the shortest submission that shows it."""

    of_class: ProbeClass
    finding: Finding
    shortest: AttemptResult
    ids: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{self.finding}: {self.of_class.id}, {len(self.ids)} probe{'s' if len(self.ids) > 1 else ''}"

    @property
    def why(self) -> str:
        """The reason that the submission works; for a right answer, that it fails."""
        return self.of_class.why

    @property
    def repeat(self) -> str:
        return f"--only {self.shortest.id}"


def holes(report: ProbeReport) -> list[Hole]:
    """Return the findings, the most severe first."""
    grouped: dict[tuple[int, str], list[AttemptResult]] = {}
    for result in report.results:
        if result.finding in _COLUMNS:
            grouped.setdefault((_ORDER.index(result.finding), result.class_id), []).append(result)
    classes = {of_class.id: of_class for of_class in (*probe_classes(), *report.more)}
    return [
        Hole(classes[class_id], results[0].finding, shortest(results), tuple(sorted({r.probe_id for r in results})))
        for (_, class_id), results in sorted(grouped.items(), key=lambda item: item[0])
    ]


def sections(report: ProbeReport) -> Iterator[Section]:
    """Yield the sections of the report for a terminal."""
    summary = report.summary
    header = ["class", "tried", *_COLUMNS.values()]
    rows = [
        [name, counts.tried, *(counts.found.get(finding) for finding in _COLUMNS)]
        for name, counts in summary.by_class.items()
    ]
    yield Section(f"{report.target} ({report.kind})", [Table(header, rows)])
    for hole in holes(report):
        if hole.finding is Finding.LENIENT:
            continue
        names = ", ".join(name.rpartition("/")[2] for name in hole.ids)
        score = ", ".join("None" if each.value is None else f"{each.value:g}" for each in hole.shortest.scores)
        blocks = [
            Text(f"{hole.why} To close it: {hole.of_class.remedy} Documented: {hole.of_class.source}."),
            Text(f"Probes: {names}. The shortest is {hole.shortest.id}, with reward {score}. {_detail(hole)}".rstrip()),
            *(Text(answer[:2000], "code") for answer in hole.shortest.answers),
        ]
        yield Section(hole.title, blocks)
    lenient = [hole for hole in holes(report) if hole.finding is Finding.LENIENT]
    if lenient:
        names = ", ".join(name for hole in lenient for name in hole.ids)
        yield Section("Accepted as some official graders do", [Text(f"Not counted as holes: {names}.")])
    rates = [
        ("hacks rewarded", str(summary.hacks)),
        ("right answers refused", str(summary.refusals)),
    ]
    yield Section("Error rates", [Table((), rates), *(Text(note) for note in report.notes)])


def _detail(hole: Hole) -> str:
    details = [hole.shortest.detail, *(score.detail for score in hole.shortest.scores)]
    return next((detail for detail in details if detail), "")


def as_json(report: ProbeReport) -> str:
    """Return the report as JSON: the summary, the counts, and each result that is not sound."""
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
                "finding": hole.finding, "class": hole.of_class.id, "why": hole.why, "remedy": hole.of_class.remedy,
                "source": hole.of_class.source, "probes": hole.ids, "shortest": hole.shortest.as_record(),
            }
            for hole in holes(report)
        ],
    }  # fmt: skip
    return json.dumps(content, indent=1) + "\n"


def as_junit(report: ProbeReport) -> str:
    """Return the report as JUnit XML: a suite for each class, and a case for each attempt."""
    by_class: dict[str, list[AttemptResult]] = {}
    for result in report.results:
        by_class.setdefault(result.class_id, []).append(result)
    root = ElementTree.Element("testsuites", name=f"curate probe {report.target}")
    for class_id, results in by_class.items():
        failed = [result for result in results if _fails(result)]
        suite = ElementTree.SubElement(
            root, "testsuite", name=class_id, tests=str(len(results)), failures=str(len(failed))
        )
        for result in results:
            seconds = sum(score.seconds for score in result.scores)
            case = ElementTree.SubElement(suite, "testcase", classname=class_id, name=result.id, time=f"{seconds:.3f}")
            if result in failed:
                failure = ElementTree.SubElement(case, "failure", message=result.finding)
                failure.text = _xml_text("\n".join([result.detail, *result.answers]))
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _fails(result: AttemptResult) -> bool:
    return result.finding not in (Finding.SOUND, Finding.LENIENT)


def _xml_text(text: str) -> str:
    """Return the text with escapes for characters that XML cannot hold."""
    return "".join(
        c if c in "\n\t" or "\x20" <= c < "\ud800" or "\ue000" <= c < "\ufffe" or c > "\uffff" else repr(c)[1:-1]
        for c in text
    )


def as_page(report: ProbeReport) -> str:
    """Return the report as one HTML page without scripts."""
    summary = report.summary
    table: Mapping[str, Any] = {
        name: [counts.tried, *(counts.found.get(finding, 0) for finding in _COLUMNS)]
        for name, counts in summary.by_class.items()
    }
    return render(
        Path(__file__).with_name("page.html"), report=report, summary=summary, holes=holes(report), table=table,
        columns=list(_COLUMNS.values()),
    )  # fmt: skip
