"""No file does anything to a verifier: it costs at most some processor time and memory, and ends in a verdict."""

import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import hostile_parquet as hostile
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from read_within_bounds import Reader, reader
from rollout_files import SETTINGS, content, lease, rows

from train.swarm.files.decoder import decode_rollout_file
from train.swarm.files.parquet import schema, write_table
from train.swarm.files.parse_result import READY_MARKER
from train.swarm.files.parser import run_parser
from train.swarm.files.rows import RolloutFile
from train.swarm.files.sizes import max_file_bytes
from train.swarm.verdict import LeaseVerdict

REFUSED = LeaseVerdict("hard", "file")
PROMPT_IDS, TOKEN_IDS, PROOFS = 4, 5, 8  # columns
GIVEN = lease()
MANY = 2**31 - 1
THOROUGH = pytest.mark.thorough


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return content(tmp_path_factory.mktemp("honest"), GIVEN)


@pytest.fixture(scope="module")
def read() -> Iterator[Reader]:
    with reader() as reads:
        yield reads


def _set(field: int, value: int) -> Callable[[hostile.Tree], Any]:
    return lambda footer: footer.update({field: (hostile.I64, value)})


def _rows(n_rows: int) -> Callable[[hostile.Tree], Any]:
    def change(footer: hostile.Tree) -> None:
        _set(hostile.NUM_ROWS, n_rows)(footer)
        _set(hostile.GROUP_ROWS, n_rows)(footer[hostile.ROW_GROUPS][1][1][0])

    return change


def _column(field: int, value: int) -> Callable[[hostile.Tree], Any]:
    return lambda footer: _set(field, value)(hostile.column_of(footer, TOKEN_IDS))


def _twice(footer: hostile.Tree) -> None:
    kind, (of, groups) = footer[hostile.ROW_GROUPS]
    footer[hostile.ROW_GROUPS] = kind, (of, groups * 2)


def _named(footer: hostile.Tree, key: bytes, value: bytes) -> None:
    pair = {1: (hostile.BINARY, key), 2: (hostile.BINARY, value)}
    footer[hostile.KEY_VALUES][1][1].append(pair)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_rows(2**31), id="2^31 rows"),
        pytest.param(_rows(-1), id="minus one row", marks=THOROUGH),
        pytest.param(_rows(2), id="a row less", marks=THOROUGH),
        pytest.param(_twice, id="row groups", marks=THOROUGH),
        pytest.param(lambda footer: footer.pop(hostile.ROW_GROUPS), id="no row group", marks=THOROUGH),
        pytest.param(_column(hostile.COLUMN_VALUES, 2**40), id="2^40 values", marks=THOROUGH),
        pytest.param(_column(hostile.COLUMN_PLAIN_BYTES, 2**40), id="2^40 bytes"),
        pytest.param(_column(hostile.COLUMN_BYTES, 2**62), id="2^62 bytes in the file", marks=THOROUGH),
        pytest.param(_column(hostile.DICTIONARY_AT, 2**62), id="pages elsewhere", marks=THOROUGH),
        pytest.param(
            lambda footer: _named(footer, b"ARROW:schema", b"A" * 400), id="a schema of Arrow", marks=THOROUGH
        ),
        pytest.param(lambda footer: _named(footer, b"more", b"x"), id="more metadata", marks=THOROUGH),
        pytest.param(lambda footer: footer.pop(hostile.KEY_VALUES), id="no metadata", marks=THOROUGH),
        pytest.param(lambda footer: footer.pop(hostile.SCHEMA), id="no schema", marks=THOROUGH),
    ],
)
def test_a_footer_that_lies_is_refused(honest: bytes, change: Callable[[hostile.Tree], Any], read: Reader) -> None:
    assert read(hostile.with_footer(honest, change), GIVEN, SETTINGS) == REFUSED


def test_an_honest_footer_is_the_same_if_it_is_written_again(honest: bytes, read: Reader) -> None:
    assert isinstance(read(hostile.with_footer(honest, lambda footer: None), GIVEN, SETTINGS), RolloutFile)


def test_pages_that_hold_more_than_the_footer_says_are_decoded_within_bounds(honest: bytes, read: Reader) -> None:
    pages = hostile.repeated(struct.pack("<I", 9), [1, 1000, 1])
    assert read(hostile.with_column(honest, TOKEN_IDS, pages, n_values=3), GIVEN, SETTINGS) == LeaseVerdict(
        "hard", "length"
    )


@pytest.mark.parametrize(
    ("column", "pages"),
    [
        pytest.param(TOKEN_IDS, hostile.repeated(b"\0\0\0\0", [1, 10**6, 1]), id="10^6:1"),
        pytest.param(TOKEN_IDS, hostile.repeated(b"\0\0\0\0", [1, 2**31 - 9, 1]), id="2^31:1", marks=THOROUGH),
        pytest.param(PROMPT_IDS, hostile.repeated(b"\0\0\0\0", [10**8, 1, 1]), id="10^8:1", marks=THOROUGH),
        pytest.param(TOKEN_IDS, hostile.page(bytes(10**8), n_values=3), id="a page of zeros"),
        pytest.param(
            TOKEN_IDS,
            hostile.page(bytes(10), n_values=3, plain_bytes=MANY),
            id="a page that claims 2 GB",
            marks=THOROUGH,
        ),
        pytest.param(TOKEN_IDS, hostile.page(b"", n_values=-1), id="a page with less than nothing", marks=THOROUGH),
        pytest.param(TOKEN_IDS, hostile.page(b"", n_values=0) * 1500, id="pages without end", marks=THOROUGH),
        pytest.param(PROOFS, hostile.dictionary_of_zeros(3, 3 * 10**8), id="large texts"),
    ],
)
def test_pages_that_grow_are_refused(honest: bytes, column: int, pages: bytes, read: Reader) -> None:
    bomb = hostile.with_column(honest, column, pages, n_values=3)
    assert len(bomb) <= max_file_bytes(GIVEN.lease)
    assert read(bomb, GIVEN, SETTINGS) == REFUSED


@pytest.mark.parametrize("depth", [pytest.param(100, marks=THOROUGH), 5000])
def test_nested_schemas_are_refused(depth: int, read: Reader) -> None:
    assert read(hostile.nested(depth), GIVEN, SETTINGS) == REFUSED


def test_a_damaged_page_is_found_by_its_checksum(honest: bytes, read: Reader) -> None:
    # A commitment is stored as it is, so that a changed byte would go unnoticed.
    place = honest.index(rows(GIVEN)[0].commitments[100:108])
    damaged = honest[:place] + bytes([honest[place] ^ 1]) + honest[place + 1 :]
    assert read(damaged, GIVEN, SETTINGS) == REFUSED


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda table: table.drop_columns(["seed"]), id="a column less"),
        pytest.param(lambda table: table.append_column("more", [[1, 2, 3]]), id="a column more", marks=THOROUGH),
        pytest.param(lambda table: table.select([*reversed(table.column_names)]), id="another order", marks=THOROUGH),
        pytest.param(
            lambda table: table.set_column(3, "version", [pa.array([2, 2, 2], pa.int64())]),
            id="another type",
            marks=THOROUGH,
        ),
        pytest.param(
            lambda table: table.set_column(3, "version", [pa.array([2, 2, 2], pa.uint32())]),
            id="may be null",
            marks=THOROUGH,
        ),
    ],
)
def test_another_schema_is_refused(honest: bytes, change: Callable[[pa.Table], pa.Table], read: Reader) -> None:
    source, written = pq.ParquetFile(pa.BufferReader(honest)), pa.BufferOutputStream()
    with pq.ParquetWriter(written, (table := change(source.read())).schema, compression="zstd") as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(source.metadata.metadata)
    assert read(written.getvalue().to_pybytes(), GIVEN, SETTINGS) == REFUSED


@pytest.mark.parametrize(
    "data",
    [
        b"",
        pytest.param(b"PAR1", marks=THOROUGH),
        pytest.param(b"PAR1PAR1", marks=THOROUGH),
        b"PAR1" + b"\xff" * 4 + b"PAR1",
        pytest.param(b"PAR1" + b"\0" * 60_000 + b"\xff\xff\0\0PAR1", marks=THOROUGH),
        pytest.param(b"PARE" * 9, marks=THOROUGH),
    ],
)
def test_what_is_no_parquet_is_refused(data: bytes, read: Reader) -> None:
    assert read(data, GIVEN, SETTINGS) == REFUSED


@pytest.mark.parametrize("share", [0.5, pytest.param(0.99, marks=THOROUGH)])
def test_a_file_that_was_cut_off_is_refused(honest: bytes, share: float, read: Reader) -> None:
    assert read(honest[: int(share * len(honest))], GIVEN, SETTINGS) == REFUSED


@pytest.mark.parametrize("batch", [0, *(pytest.param(batch, marks=THOROUGH) for batch in range(1, 5))])
def test_no_change_of_an_honest_file_does_any_harm(honest: bytes, batch: int, read: Reader) -> None:
    for seed in range(4 * batch, 4 * batch + 4):
        rng, data = random.Random(seed), bytearray(honest)
        # Mostly in the footer: pages are protected by checksums.
        places = range(len(data)) if seed % 4 == 0 else range(len(data) - 1500, len(data))
        for _ in range(rng.randint(1, 4)):
            data[rng.choice(places)] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        found = read(bytes(data), GIVEN, SETTINGS)
        if isinstance(found, RolloutFile):
            # Some bytes say nothing, such as the name of the program that wrote the file.
            assert found.rows == tuple(rows(GIVEN)), seed
        else:
            assert found.reason in ("file", "length", "prompt", "seeds", "version", "tokens", "logprobs"), seed


def test_what_the_confined_process_says_is_not_believed_either(honest: bytes) -> None:
    output = run_parser(honest, 3, max_file_bytes(GIVEN.lease))
    assert output is not None
    written = tuple(rows(GIVEN))
    rng = random.Random(0)
    n_refused = 0
    for _ in range(2000):
        said = bytearray(output)
        for _ in range(rng.randint(1, 3)):
            said[rng.randrange(200 if rng.random() < 0.5 else len(said))] = rng.randrange(256)
        n_refused += (
            decode_rollout_file(bytes(said[: rng.choice((len(said), rng.randrange(len(said))))]), GIVEN) is None
        )
    assert n_refused > 1000
    assert decode_rollout_file(b"\x91" * 100_000, GIVEN) is None
    assert decode_rollout_file(READY_MARKER, GIVEN) is None
    file = decode_rollout_file(output, GIVEN)
    assert file is not None
    assert file.rows == written
    assert decode_rollout_file(output, msgspec.structs.replace(GIVEN, id=bytes(16))) is None


def test_a_file_with_other_kinds_of_text_is_refused(read: Reader) -> None:
    written = pa.BufferOutputStream()
    write_table(schema().empty_table(), written, {b"node": b"zz", b"lease": b"\xff", b"engine": b"\xff\xfe"})
    assert read(written.getvalue().to_pybytes(), GIVEN, SETTINGS) == REFUSED
