"""The names by which other packages still open the problems of a dataset."""

from collections.abc import Iterator
from pathlib import Path

from curate.dataset.dataset import Dataset, Row, translate_read_errors

__all__ = ["DatasetReader", "translate_read_errors"]


class DatasetReader(Dataset):
    """The problems of a folder, which need not be finished. Raises CurateError if it has none."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.require_problems()

    def read_columns(self, *names: str) -> Iterator[Row]:
        """Yield these columns of all problems, in order."""
        return self.rows("data", names)
