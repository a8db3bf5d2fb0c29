"""What objects that hold resources have in common: leaving their `with` block closes them."""

from types import TracebackType
from typing import Self


class Closing:
    """A context manager whose block ends with close()."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
