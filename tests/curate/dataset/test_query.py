"""SQL sees the tables that it is given, and nothing else."""

import duckdb
import pyarrow as pa
import pytest

from curate.dataset.query import connect, query, stream_query
from curate.errors import CurateError


def reader(batches):
    return pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), batches)


def numbers(n):
    return reader(pa.RecordBatch.from_pydict({"n": [i]}) for i in range(n))


def test_a_query_reads_the_tables_that_it_names():
    sql = "SELECT sum(numbers.n) AS n FROM numbers JOIN others USING (n)"
    assert query(sql, numbers=numbers(10), others=numbers(5)) == [{"n": 10}]


@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_csv('/etc/passwd')",
        "FROM read_text('/etc/passwd')",
        "FROM read_parquet('*')",
        "FROM glob('/etc/*')",
        "FROM '/etc/passwd'",
        "FROM secret",
        "SELECT getenv('HOME')",
        "COPY (SELECT 1) TO '{folder}/out.csv'",
        "EXPORT DATABASE '{folder}/out'",
        "ATTACH '{folder}/out.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET memory_limit = '1TB'",
        "SET temp_directory = '{folder}'",
        "RESET memory_limit",
        "PRAGMA enable_profiling",
    ],
)
def test_sql_reaches_no_file_no_variable_and_no_setting(sql, tmp_path):
    secret = pa.table({"n": [1]})  # DuckDB would find it by its name
    with connect() as connection, pytest.raises(duckdb.Error):
        connection.execute(sql.format(folder=tmp_path)).fetchall()
    assert len(secret) == 1
    assert not list(tmp_path.iterdir())


def test_a_query_that_makes_no_progress_is_ended():
    with connect() as connection, pytest.raises(CurateError, match="read no rows for 0.2 s"):
        list(stream_query(connection, "SELECT count(*) FROM range(1000000000000)", {}, max_batch_seconds=0.2))


def test_a_query_cannot_fill_the_memory():
    with connect(memory_limit="50MB") as connection, pytest.raises(CurateError, match="exceeds its memory limit"):
        list(stream_query(connection, "SELECT list(repeat('a', 1000000) || n::TEXT) FROM range(1000) t(n)", {}))


def test_an_error_of_the_reader_is_passed_on():
    def damaged():
        yield pa.RecordBatch.from_pydict({"n": [1]})
        raise CurateError("data/a.parquet: damaged")

    with pytest.raises(CurateError, match="^data/a.parquet: damaged$"):
        query("SELECT count(*) FROM numbers", numbers=reader(damaged()))
