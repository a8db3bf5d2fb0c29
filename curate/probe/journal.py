"""The output folder of `curate probe`: the reports, and a journal of attempts for `--resume`."""

from pathlib import Path
from typing import Any

from curate.dataset.journal import ResultJournal
from curate.dataset.output_folder import write_atomic
from curate.errors import CurateError
from curate.probe.attempts import AttemptResult
from curate.probe.findings import ProbeReport, format_json, format_junit, render_page
from sandbox.closeable import Closeable

JOURNAL = "attempts.jsonl"
_SETTINGS = "settings"  # key of the settings; the keys of attempts contain slashes


class ProbeFolder(Closeable):
    """The folder of --out, locked by one probe.

    settings   settings of the probe; an existing journal must have the same
    resume     whether to continue an existing journal

    Raises CurateError if the journal cannot be continued, or if another probe has locked it.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], *, resume: bool) -> None:
        self._folder, path = folder, folder / JOURNAL
        if path.exists() and not resume:
            raise CurateError(f"{path} exists. Pass --resume to continue it, or choose another --out")
        folder.mkdir(parents=True, exist_ok=True)
        self._journal = ResultJournal(path)
        try:
            if _SETTINGS not in self._journal:
                self._journal.add(_SETTINGS, settings)
            elif (found := self._journal.load(_SETTINGS, lambda record: record)) != settings:
                raise CurateError(f"{path} belongs to another probe: {found}. Choose another --out")
            self.earlier = {
                id: self._journal.load(id, AttemptResult.from_record) for id in self._journal if id != _SETTINGS
            }
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._journal.close()

    def add(self, result: AttemptResult) -> None:
        self._journal.add(result.id, result.to_record())

    def write_reports(self, report: ProbeReport) -> None:
        """Write probe.json, probe.html and junit.xml."""
        write_atomic(self._folder / "probe.json", format_json(report))
        write_atomic(self._folder / "probe.html", render_page(report))
        write_atomic(self._folder / "junit.xml", format_junit(report))
