"""SQL over the tables of datasets, run by DuckDB in this process.

DuckDB sees only the Arrow batches passed to it. Its locked configuration disables files, extensions and the network,
so SQL cannot reach anything else on this machine.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

from curate.dataset.dataset import Dataset
from curate.errors import CurateError

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

NUMBER_ROWS = 65_536  # rows in a batch of columns without long texts
_FETCHED_ROWS = 4096
_CONFIGURATION = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # otherwise SQL could read variables of this process as tables
    "temp_directory": "",
    "ieee_floating_point_ops": "false",
    "error_on_division_by_zero": "false",
}


def connect(**options: str) -> "DuckDBPyConnection":
    """Open an empty in-memory database with a locked configuration. options: additional settings of DuckDB"""
    import duckdb

    connection = duckdb.connect(config={**_CONFIGURATION, **options})
    connection.execute("SET lock_configuration = true")
    return connection


def read_table(
    dataset: Dataset, table: str, columns: Sequence[str], *, rows: int = NUMBER_ROWS
) -> "pa.RecordBatchReader":
    """Return a reader of columns of a table, for `query`. Missing columns are null.

    rows: number of rows in a batch; fewer for long texts
    """
    import pyarrow as pa

    present = dataset.read_columns(table).intersection(columns)
    batches = dataset.iter_batches(table, sorted(present), rows=rows) if present else iter(())
    first = next(batches, None)
    types = {} if first is None else {field.name: field.type for field in first.schema}
    schema = pa.schema([(name, types.get(name, pa.null())) for name in columns])

    def add_missing_columns() -> Iterator[pa.RecordBatch]:
        for batch in chain([] if first is None else [first], batches):
            arrays = [
                batch.column(name).cast(types[name]) if name in types else pa.nulls(len(batch)) for name in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, add_missing_columns())


def query(sql: str, **tables: "pa.RecordBatchReader") -> list[dict[str, Any]]:
    """Run a query and return its rows. It can scan each table only once. Raises CurateError on a damaged file."""
    with connect() as connection:
        return list(stream_query(connection, sql, tables))


def stream_query(
    connection: "DuckDBPyConnection",
    sql: str,
    tables: "Mapping[str, pa.RecordBatchReader]",
    *,
    max_batch_seconds: float = threading.TIMEOUT_MAX,
) -> Iterator[dict[str, Any]]:
    """Run a query and yield its rows. Raises CurateError on a damaged file, a stalled query, and exhausted memory.

    max_batch_seconds: maximum time in which the query must read another batch; unlimited by default
    """
    import duckdb
    import pyarrow as pa

    errors: list[Exception] = []
    progress = threading.Event()

    def flag_progress(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        try:
            for batch in reader:
                progress.set()
                yield batch
        except Exception as error:  # DuckDB raises its own exception instead, with only the message
            errors.append(error)
            raise

    for name, reader in tables.items():
        connection.register(name, pa.RecordBatchReader.from_batches(reader.schema, flag_progress(reader)))
    try:
        with _interrupt_if_stalled(connection, progress, max_batch_seconds):
            cursor = connection.execute(sql)
            names = [column[0] for column in cursor.description]
            while rows := cursor.fetchmany(_FETCHED_ROWS):
                yield from (dict(zip(names, row, strict=True)) for row in rows)
    except duckdb.InterruptException:
        raise CurateError(f"a query read no rows for {max_batch_seconds:g} s and was stopped: {sql[:200]}") from None
    except duckdb.OutOfMemoryException:
        raise CurateError(f"a query exceeds its memory limit: {sql[:200]}") from None
    except duckdb.Error:
        if errors:
            raise errors[0] from None
        raise


@contextmanager
def _interrupt_if_stalled(
    connection: "DuckDBPyConnection", progress: threading.Event, seconds: float
) -> Iterator[None]:
    done = threading.Event()

    def watch() -> None:
        while not done.wait(seconds):
            if not progress.is_set():
                connection.interrupt()
            progress.clear()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
