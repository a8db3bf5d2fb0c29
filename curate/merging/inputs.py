"""The datasets to merge, and their rows under names that are distinct.

The same id can be in several datasets. While rows are compared, a row is therefore named by its id and the number of
its dataset.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from curate.dataset.dataset_reader import DatasetReader
from curate.dataset.folder import DatasetFolder
from curate.dataset.location import resolve_dataset_folder
from curate.derivation import ParentDataset, open_built_dataset
from curate.errors import CurateError
from curate.manifest import Manifest
from curate.problem import COLUMNS, Problem

_SEPARATOR = "\t"  # no id contains it: they end up in tables and on terminals


@dataclass(frozen=True)
class MergeInput:
    """One of the datasets. number: its place among them, from zero. given: its folder or Hub id, as it was given."""

    index: int
    given_location: str
    location: Path
    manifest: Manifest

    @cached_property
    def reader(self) -> DatasetReader:
        return DatasetReader(self.location)

    @property
    def folder(self) -> DatasetFolder:
        return DatasetFolder(self.location, self.manifest)

    @cached_property
    def ids(self) -> list[str]:
        """The ids of all rows, in order."""
        return [row["id"] for row in self.reader.read_columns("id")]

    def qualified_id(self, id: str) -> str:
        """Return the name of a row, which is distinct among the rows of all datasets."""
        return f"{id}{_SEPARATOR}{self.index}"


def open_inputs(locations: Sequence[str | Path], out: Path) -> list[MergeInput]:
    """Open the datasets. Raises CurateError unless they are at least two, finished, and apart from `out`."""
    if len(locations) < 2:
        raise CurateError("a merge needs at least two datasets")
    origins: list[ParentDataset] = [open_built_dataset(resolve_dataset_folder(location)) for location in locations]
    if len({origin.location.resolve() for origin in origins}) < len(origins):
        raise CurateError("a dataset is given twice. Give each of them once.")
    inputs = []
    for number, (given, origin) in enumerate(zip(locations, origins, strict=True)):
        assert origin.manifest is not None
        origin.check_no_overlap(out)
        opened_input = MergeInput(number, str(given), origin.location, origin.manifest)
        if missing := COLUMNS.keys() - opened_input.folder.columns("data"):
            listed = ", ".join(sorted(missing))
            raise CurateError(f"{given}: its rows have no {listed}. Build it again, with this version.")
        if opened_input.ids != sorted(opened_input.ids):
            raise CurateError(f"{given}: its rows are not in the order of their ids. Build it again.")
        inputs.append(opened_input)
    return inputs


def unqualified_id(name: str) -> str:
    """Return the id of the row with this name."""
    return name.partition(_SEPARATOR)[0]


def input_index(name: str) -> int:
    """Return the number of the dataset of the row with this name."""
    return int(name.partition(_SEPARATOR)[2])


def named_problems(inputs: Iterable[MergeInput]) -> Iterator[Problem]:
    """Yield the problems of all datasets with the columns that are compared, under their names.

    The source of each is the number of its dataset, so that of equally good rows the one from the first dataset stays.
    """
    for dataset in inputs:
        for problem in dataset.reader:
            yield replace(problem, id=dataset.qualified_id(problem.id), source=str(dataset.index))
