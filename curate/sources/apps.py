"""APPS: rows of codeparrot/apps or a copy of it, or the folders that its authors publish:

    train/0000/question.txt  solutions.json  input_output.json  metadata.json  starter_code.py

Solutions and tests are JSON as in TACO.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from curate.problem import Problem, Rejection
from curate.reading.dialects import json_tests
from curate.reading.solutions import parse_solution
from curate.reading.tables import Row, TableFiles, UnreadableRow, read_rows, validate_options
from curate.reading.values import optional_text, parse_text_list, shorten
from curate.sources import make_problem, name_problems

TITLE = "APPS"
HUB_ID = "codeparrot/apps"
LICENCE = "mit"
SIZE_DESCRIPTION = "5,000 training and 5,000 test problems"
DEFECTS = "few tests, or none; one solution in five fails; images missing; several right answers"
COLUMNS = ("question", "solutions", "input_output")
ONE_SHARD = True  # default names are positions in the whole table
OPTIONAL = ("problem_id", "id", "difficulty", "url", "starter_code")


def select_files(table: TableFiles) -> TableFiles:
    """Replace the files of the authors' format by the folders of their splits; by the training split if it exists."""
    validate_options(table, ())
    splits = {path.parent.parent for path in table.files if (path.parent / "question.txt").exists()}
    if not splits:
        return table
    train = {split for split in splits if split.name == "train"}
    return replace(table, files=tuple(sorted(train or splits)))


def read(table: TableFiles) -> Iterator[Problem | Rejection]:
    """Yield problems in the order of the table; `apps/17` is problem 17 of its split."""
    return name_problems("apps", _read_rows(table), _parse_row, _get_name)


def _get_name(row: Row, default_name: str) -> str:
    return optional_text(row["problem_id"]) or optional_text(row["id"]) or default_name


def _read_rows(table: TableFiles) -> Iterator[Row | UnreadableRow]:
    for path in table.files:
        if not path.is_dir():
            yield from read_rows(replace(table, files=(path,)), COLUMNS, OPTIONAL)
            continue
        for folder in sorted(path.iterdir()):
            if folder.is_dir():
                yield _read_folder(folder, table.encoding or "utf-8-sig")


def _read_folder(folder: Path, encoding: str) -> Row | UnreadableRow:
    """Return a problem's folder as a row of codeparrot/apps. The files of solutions and tests may be missing."""
    names = {"question": "question.txt", "solutions": "solutions.json", "input_output": "input_output.json"}
    names |= {"starter_code": "starter_code.py", "metadata": "metadata.json"}
    try:
        paths = {name: folder / file for name, file in names.items() if (folder / file).exists()}
        row: Row = {name: path.read_text(encoding) for name, path in paths.items()}
        metadata = json.loads(row.get("metadata", "{}"))
        if not isinstance(metadata, dict) or "question" not in row:
            raise ValueError("no question.txt, or metadata.json is no object")
    except (ValueError, RecursionError) as error:
        return UnreadableRow(folder.name, shorten(error))
    number = int(folder.name) if folder.name.isdecimal() else folder.name
    return dict.fromkeys((*COLUMNS, *OPTIONAL)) | metadata | row | {"problem_id": number}


def _parse_row(id: str, row: Row) -> Problem:
    tests = json_tests.read_columns(row["input_output"])
    return make_problem(
        id,
        tests,
        tuple(map(parse_solution, parse_text_list(row["solutions"], "solutions"))),
        LICENCE,
        statement=row["question"],
        starter_code=row["starter_code"],
        url=row["url"],
        difficulty=row["difficulty"],
    )
