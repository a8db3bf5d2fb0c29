"""The base class of objects that hold resources: leaving their `with` block closes them."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closeable(ABC):
    """A context manager whose block ends with close()."""

    @abstractmethod
    def close(self) -> None:
        """Release the object's resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
