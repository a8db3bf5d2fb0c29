"""A training set of any make, on disk: read what its rows can be recognised by, and copy it without some of them.

Files keep their names, format, columns and order, and a row that stays is not touched. A row is called by its id,
or else by its file and its zero-based place there.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from curate.decontamination.evaluations.generic import TEXTS
from curate.decontamination.problem_keys import keys
from curate.decontamination.rows import Row
from curate.errors import CurateError
from curate.reading.prompt_templates import without_template
from curate.reading.tables import Table, Unreadable, known_options, locate, read_rows
from curate.reading.values import optional_text

_IDS = ("id", "problem_id", "question_id", "task_id")
_OTHERS = ("source", "platform", "url", "title", "question_title", "name", "date", "contest_date")


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """The files to read and below which folder they lie. texts: columns of which the first that holds something is
    what a row is about."""

    table: Table
    root: Path
    texts: tuple[str, ...]

    def rows(self, wanted: Collection[int] | None = None) -> Iterator[tuple[int, Row]]:
        """Positions and rows: all, or those wanted. Raises CurateError where nothing can be read or compared."""
        position, has_text = 0, False
        for path in self.table.files:
            columns = (*self.texts, *_IDS, *_OTHERS)
            for place, row in enumerate(read_rows(replace(self.table, files=(path,)), (), columns)):
                if isinstance(row, Unreadable):
                    raise CurateError(
                        f"{path}: {row.place}: {row.detail}. Repair the file: nothing may be left unseen."
                    )
                if wanted is None or position in wanted:
                    found = self._row(f"{path.name}:{place}", row)
                    has_text = has_text or bool(found.text)
                    yield position, found
                position += 1
        if wanted is None and position and not has_text:
            raise CurateError(f"{self.table.location}: no text in any row. {self._hint()}")

    def copy(self, dropped: Collection[int], folder: Path) -> list[Path]:
        """Write the files without the rows at these positions, and return them."""
        written = []
        position = 0
        for path in self.table.files:
            target = folder / path.relative_to(self.root)
            target.parent.mkdir(parents=True, exist_ok=True)
            position = _COPIES[path.suffix](path, target, dropped, position)
            written.append(target)
        return written

    def _row(self, place: str, row: dict[str, object]) -> Row:
        text = next((row[name] for name in self.texts if row[name]), "")
        if not isinstance(text, str):
            raise CurateError(f"{self.table.location}: {place} holds {type(text).__name__}, not text. {self._hint()}")
        values = {name: optional_text(row[name]) for name in (*_IDS, *_OTHERS)}
        id = next((values[name] for name in _IDS if values[name]), place)
        names = (id.rpartition("/")[2], *(values[name] for name in ("title", "question_title", "name")))
        # LiveCodeBench's own files do not say what they are, but nobody else has both of these columns.
        livecodebench = values["contest_date"] and values["question_title"]
        source = values["source"] or ("livecodebench" if livecodebench else "")
        return Row(
            id=id,
            source=source,
            text=without_template(text),
            keys=keys(url=values["url"], platform=values["platform"] or values["source"], names=names),
            contests=frozenset({(source, (values["date"] or values["contest_date"])[:10])}),
        )

    def _hint(self) -> str:
        return f"Looked at {', '.join(self.texts)}; name the column that holds the problem: --text COLUMN."


def training_set(location: str, text: str | None = None) -> TrainingSet:
    """Find a training set: a file, a folder or a Hub id. text: the column of the problems' text; None: the usual ones.

    Raises CurateError where there is none.
    """
    table = locate(location)
    known_options(table, ())
    for path in table.files:
        if path.suffix not in _COPIES:
            raise CurateError(f"{path}: files that end in {', '.join(sorted(_COPIES))} are read, not this one.")
    given = Path(table.location).expanduser()
    parents = [given] if given.is_dir() else table.files[0].parents
    root = next(folder for folder in parents if all(path.is_relative_to(folder) for path in table.files))
    return TrainingSet(table, root, (text,) if text else tuple(TEXTS))


def _copy_parquet(path: Path, target: Path, dropped: Collection[int], position: int) -> int:
    import pyarrow.parquet as pq

    with (
        pq.ParquetFile(path) as file,
        pq.ParquetWriter(target, file.schema_arrow, compression="zstd", write_page_index=True) as writer,
    ):
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group)
            kept = rows.filter(_mask(dropped, position, len(rows)))
            if len(kept):
                writer.write_table(kept)
            position += len(rows)
    return position


def _copy_arrow(path: Path, target: Path, dropped: Collection[int], position: int) -> int:
    import pyarrow as pa

    with (
        pa.memory_map(str(path)) as source,
        pa.ipc.open_stream(source) as stream,
        pa.ipc.new_stream(str(target), stream.schema) as writer,
    ):
        for batch in stream:
            writer.write_batch(batch.filter(_mask(dropped, position, len(batch))))
            position += len(batch)
    return position


def _copy_jsonl(path: Path, target: Path, dropped: Collection[int], position: int) -> int:
    with path.open("rb") as source, target.open("wb") as file:
        for line in source:
            if line.strip():
                if position not in dropped:
                    file.write(line)
                position += 1
    return position


def _copy_json(path: Path, target: Path, dropped: Collection[int], position: int) -> int:
    rows = json.loads(path.read_text(encoding="utf-8"))
    kept = [row for place, row in enumerate(rows, position) if place not in dropped]
    target.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return position + len(rows)


_COPIES = {".parquet": _copy_parquet, ".arrow": _copy_arrow, ".jsonl": _copy_jsonl, ".json": _copy_json}


def _mask(dropped: Collection[int], position: int, n_rows: int) -> list[bool]:
    return [place not in dropped for place in range(position, position + n_rows)]
