"""The folder of a probe: a journal of attempts, from which an interrupted probe continues, and the reports."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from curate.dataset.output_folder import write_atomic
from curate.errors import CurateError
from curate.probe.attempts import AttemptResult
from curate.probe.findings import ProbeReport, as_json, as_junit, as_page

JOURNAL = "attempts.jsonl"


class ProbeFolder:
    """The folder given by --out.

    settings   what the results depend on: only a probe with the same settings continues the journal
    resume     whether to continue; otherwise the folder must hold no journal

    Raises CurateError.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], *, resume: bool) -> None:
        self._folder, self._settings = folder, settings
        self._path = folder / JOURNAL
        self.earlier: dict[str, AttemptResult] = {}
        if self._path.exists():
            if not resume:
                raise CurateError(f"{self._path} exists. Give --resume to continue it, or choose another --out")
            self._read()
        else:
            folder.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(settings) + "\n", encoding="utf-8")

    def _read(self) -> None:
        text = self._path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        lines = whole.split("\n")[:-1]
        try:
            settings = json.loads(lines[0])
            for line in lines[1:]:
                result = AttemptResult.from_record(json.loads(line))
                self.earlier[result.id] = result
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise CurateError(f"{self._path} is damaged: {error}. Choose another --out") from error
        if settings != self._settings:
            raise CurateError(f"{self._path} is of another probe: {settings}. Choose another --out")
        if whole != text:
            self._path.write_text(whole, encoding="utf-8")

    @contextmanager
    def open_journal(self) -> Iterator[Any]:
        """Yield a function that adds a result to the journal."""
        with self._path.open("a", encoding="utf-8") as file:

            def add(result: AttemptResult) -> None:
                file.write(json.dumps(result.as_record()) + "\n")
                file.flush()

            yield add

    def write_reports(self, report: ProbeReport) -> None:
        """Write probe.json, probe.html and junit.xml."""
        write_atomic(self._folder / "probe.json", as_json(report))
        write_atomic(self._folder / "probe.html", as_page(report))
        write_atomic(self._folder / "junit.xml", as_junit(report))
