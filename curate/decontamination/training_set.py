"""Training rows, prepared for the comparison with evaluation sets, and their readers.

Only the user's messages of a conversation are compared, without curate's prompt template
(curate/reading/prompt_templates.py). A row without an id is named by its file and its zero-based index.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from curate.dataset.files import DatasetFiles, find_dataset_files
from curate.decontamination.evaluations.generic import TEXT_COLUMNS
from curate.decontamination.problem_keys import derive_keys
from curate.errors import CurateError
from curate.problem import Problem
from curate.progress import Progress, track_progress
from curate.reading.prompt_templates import extract_prompt_texts, strip_prompt_template
from curate.reading.tables import UnreadableRow, read_rows
from curate.reading.values import optional_text


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A training row, prepared for the comparison.

    text      the problem without its prompt template
    keys      see problem_keys.py
    contests  source and date of the row, and of other rows with the same problem
    """

    id: str
    source: str
    text: str
    keys: frozenset[str] = frozenset()
    contests: frozenset[tuple[str, str]] = frozenset()


# A function that yields (position, row) for the given positions, or for all rows, in the same order in each call.
RowReader = Callable[[Collection[int] | None], Iterator[tuple[int, TrainingRow]]]


def to_training_row(problem: Problem, duplicates: Iterable[Problem] = ()) -> TrainingRow:
    """Convert a problem. duplicates: its removed duplicates; the row also has their keys and dates"""
    same = [problem, *duplicates]
    known_keys = [derive_keys(url=p.url, platform=p.platform, names=(p.id.rpartition("/")[2], p.title)) for p in same]
    return TrainingRow(
        id=problem.id,
        source=problem.source,
        text=strip_prompt_template(problem.statement),
        keys=frozenset[str]().union(*known_keys),
        contests=frozenset((p.source, p.date) for p in same),
    )


def add_progress_reports(rows: RowReader, progress: Progress) -> RowReader:
    """Return a reader of the same rows that reports progress."""

    def read_with_progress(positions: Collection[int] | None) -> Iterator[tuple[int, TrainingRow]]:
        stage, total = ("compare", None) if positions is None else ("look again", len(positions))
        yield from track_progress(rows(positions), stage, progress, total=total)

    return read_with_progress


_IDS = ("id", "problem_id", "question_id", "task_id")
_NESTED_METADATA = "extra_info"  # column with ids and other metadata in verl's datasets
_EXCLUDED = "left_out.jsonl"  # file with the ids of excluded rows in an export
_METADATA_COLUMNS = ("source", "platform", "url", "title", "question_title", "name", "date", "contest_date")


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """A training set. text_columns: possible columns of the problem; the first non-empty one is read"""

    files: DatasetFiles
    text_columns: tuple[str, ...]

    def iter_rows(self, positions: Collection[int] | None = None) -> Iterator[tuple[int, TrainingRow]]:
        """Yield (position, row) for these positions; None for all. Raises CurateError for an unreadable row."""
        position, has_text = 0, False
        for path in self.files.table.files:
            columns = (*self.text_columns, *_IDS, *_METADATA_COLUMNS, _NESTED_METADATA)
            for index, row in enumerate(read_rows(replace(self.files.table, files=(path,)), (), columns)):
                if isinstance(row, UnreadableRow):
                    raise CurateError(
                        f"{path}: {row.location}: {row.detail}. Repair the file: every row must be compared."
                    )
                if positions is None or position in positions:
                    compared = self._build_row(f"{path.name}:{index}", row)
                    has_text = has_text or bool(compared.text)
                    yield position, compared
                position += 1
        if positions is None and position and not has_text:
            raise CurateError(f"{self.files.table.location}: no text in any row. {self._format_hint()}")

    def _build_row(self, index: str, row: dict[str, object]) -> TrainingRow:
        prompt = next((row[name] for name in self.text_columns if row[name]), "")
        texts = extract_prompt_texts(prompt)
        if texts is None:
            raise CurateError(
                f"{self.files.table.location}: {index} has neither text nor messages of a chat, but "
                f"{type(prompt).__name__}. {self._format_hint()}"
            )
        more = row[_NESTED_METADATA]
        others = more if isinstance(more, dict) else {}
        known = {**others, **{name: value for name, value in row.items() if value is not None}}
        values = {name: optional_text(known.get(name)) for name in (*_IDS, *_METADATA_COLUMNS)}
        id = next((values[name] for name in _IDS if values[name]), index)
        names = (id.rpartition("/")[2], *(values[name] for name in ("title", "question_title", "name")))
        # LiveCodeBench's own files do not name their source, but only they have both of these columns.
        livecodebench = values["contest_date"] and values["question_title"]
        source = values["source"] or ("livecodebench" if livecodebench else "")
        return TrainingRow(
            id=id,
            source=source,
            text="\n\n".join(map(strip_prompt_template, texts)),
            keys=derive_keys(url=values["url"], platform=values["platform"] or values["source"], names=names),
            contests=frozenset({(source, (values["date"] or values["contest_date"])[:10])}),
        )

    def _format_hint(self) -> str:
        return f"Columns tried: {', '.join(self.text_columns)}. Pass the column of the problem: --text COLUMN."


def open_training_set(location: str, text: str | None = None) -> TrainingSet:
    """Find the files of a training set at a path or a Hub id. Raises CurateError if there are none.

    text: name of the column with the problems; None: one of the usual names
    """
    files = find_dataset_files(location)
    rows = tuple(path for path in files.table.files if path.name != _EXCLUDED or len(files.table.files) == 1)
    return TrainingSet(replace(files, table=replace(files.table, files=rows)), (text,) if text else tuple(TEXT_COLUMNS))
