"""Files of Arrow record batches, which are streams or have an index at the end (also called IPC files or Feather)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_MAGIC = b"ARROW1"  # the first bytes of a file with an index


@contextmanager
def open_batches(path: Path) -> Iterator[tuple["pa.Schema", Iterator["pa.RecordBatch"]]]:
    """Open a file and return its schema and its batches. Raises ArrowException or OSError if it is damaged."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        if has_index(path):
            with pa.ipc.open_file(source) as file:
                yield file.schema, map(file.get_batch, range(file.num_record_batches))
        else:
            with pa.ipc.open_stream(source) as stream:
                yield stream.schema, iter(stream)


def has_index(path: Path) -> bool:
    """Return whether this is a file with an index rather than a stream."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC
