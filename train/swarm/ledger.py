"""The ledger: a signed hash chain of entries in an SQLite file.

Each row has the digest of the previous row, its own digest, and the run's signature of that digest. SQLite fsyncs a row
before `append` returns; SIGKILL loses at most the row being added.
"""

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sandbox.concurrency.file_lock import FileLock
from train.errors import RunError
from train.swarm.accounts import Account, Accounts, Entry
from train.swarm.signatures import SIGNATURE_BYTES, BadSignature, append_signature, verify_and_unwrap

DOMAIN = "curate-ledger-1"
GENESIS_DIGEST = bytes(32)  # previous digest of the first row
_TABLE = """
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, entry BLOB NOT NULL, previous BLOB NOT NULL,
    digest BLOB NOT NULL, signature BLOB NOT NULL
) STRICT
"""
_COLUMNS = "number, time_ms, entry, previous, digest, signature"
_decoder: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(Entry)


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A stored row. time_ms: since 1970; entry: msgpack."""

    number: int
    time_ms: int
    entry: bytes
    previous: bytes
    digest: bytes
    signature: bytes

    def decode(self) -> Entry:
        """Decode the entry. Raises MsgspecError if it is invalid."""
        return _decoder.decode(self.entry)


def hash_row(number: int, time_ms: int, entry: bytes, previous: bytes) -> bytes:
    return blake3(msgspec.msgpack.encode([number, time_ms, entry, previous])).digest()


class Ledger:
    """A ledger open for appending, in one process and by one thread at a time.

    key        the run's
    n_entries  number of entries
    head       digest of the newest row
    accounts   the accounts after all entries

    Raises RunError if the file cannot be used, or another process has it open.
    """

    def __init__(self, path: Path, key: Ed25519PrivateKey) -> None:
        self._key = key
        in_use = RunError(f"the ledger {path} is locked by another process. Stop it first.")
        try:  # a lock file, not SQLite's lock, so that other processes may read
            self._lock = None if str(path) == ":memory:" else FileLock(path.with_name(f"{path.name}.lock"), in_use)
            self._rows = sqlite3.connect(path, timeout=1.0, isolation_level=None, check_same_thread=False)
            self._rows.execute("PRAGMA journal_mode = WAL")
            self._rows.execute("PRAGMA synchronous = FULL")
            self._rows.execute(_TABLE)
            self._rows.execute("BEGIN IMMEDIATE")
            self._rows.execute("COMMIT")
            self.n_entries, self.head, self.accounts = 0, GENESIS_DIGEST, Accounts()
            for row in _select_rows(self._rows):
                self.n_entries, self.head = row.number, row.digest
                self.accounts.add(row.decode())
        except (OSError, sqlite3.Error, msgspec.MsgspecError) as error:
            raise RunError(
                f"the ledger {path} cannot be used: {error}. Check it: curate ledger audit {path}"
            ) from error

    def append(self, entry: Entry) -> None:
        """Append an entry durably. Raises RunError if it cannot be written."""
        number, time_ms, content = self.n_entries + 1, time.time_ns() // 1_000_000, msgspec.msgpack.encode(entry)
        digest = hash_row(number, time_ms, content, self.head)
        signature = append_signature(DOMAIN, digest, self._key)[-SIGNATURE_BYTES:]
        with self._translate_write_errors():
            self._rows.execute(
                f"INSERT INTO entries ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
                (number, time_ms, content, self.head, digest, signature),
            )
        self.n_entries, self.head = number, digest
        self.accounts.add(entry)

    @contextmanager
    def begin_transaction(self) -> Iterator[None]:
        """Commit all entries that the `with` block appends, durably and atomically, when it exits.

        Closes the ledger and raises RunError if the entries cannot be written.
        """
        with self._translate_write_errors():
            self._rows.execute("BEGIN")
        try:
            yield
        finally:
            with self._translate_write_errors():
                self._rows.execute("COMMIT")

    @contextmanager
    def _translate_write_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            self._rows.close()  # accounts in memory and file differ
            raise RunError(f"cannot append to the ledger: {error}. Free space on its disk, then restart.") from error

    def read_entries(self) -> Iterator[Entry]:
        return (row.decode() for row in _select_rows(self._rows))

    def get_account(self, node: bytes) -> Account:
        return self.accounts.get_account(node)

    def close(self) -> None:
        self._rows.close()
        if self._lock is not None:
            self._lock.close()


def read_rows(path: Path) -> Iterator[LedgerRow]:
    """Yield the rows of a ledger, even while another process writes it. Raises RunError if it is not a ledger."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            found = database.execute("SELECT sql FROM sqlite_schema WHERE name = 'entries'").fetchone() or ("",)
            # An untrusted file may define `entries` differently, such as a view with endless rows.
            if str(found[0]).split() != _TABLE.replace("IF NOT EXISTS ", "").split():
                raise sqlite3.DatabaseError("no table of ledger entries")
            yield from _select_rows(database)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise RunError(f"{path} is not a ledger, or is damaged: {error}") from error


def _select_rows(database: sqlite3.Connection) -> Iterator[LedgerRow]:
    """Yield all rows. Raises sqlite3.Error, also for malformed rows of a damaged file."""
    try:
        for values in database.execute(f"SELECT {_COLUMNS} FROM entries ORDER BY number"):
            if tuple(map(type, values)) != (int, int, bytes, bytes, bytes, bytes):
                raise sqlite3.DatabaseError("malformed row")
            yield LedgerRow(*values)
    except UnicodeDecodeError as error:
        raise sqlite3.DatabaseError(str(error)) from error


@dataclass(frozen=True, slots=True)
class LedgerAudit:
    """The result of an audit.

    n_rows    valid rows, up to the first fault
    head      digest of the last valid row
    accounts  the accounts after the valid rows
    fault     fault of the next row; "" if there is none
    """

    n_rows: int
    head: bytes
    accounts: Accounts
    fault: str = ""


def audit_ledger(rows: Iterable[LedgerRow], public_key: bytes, *, seen_head: bytes = b"") -> LedgerAudit:
    """Verify the chain from the first row on.

    public_key  the run's, from the invite
    seen_head   digest of a row published earlier, such as in `latest`; detects a truncated or rewritten ledger
    """
    n_rows, head, accounts, has_seen, fault = 0, GENESIS_DIGEST, Accounts(), not seen_head, ""
    for row in rows:
        fault = _find_fault(row, n_rows + 1, head, public_key)
        if not fault:
            try:
                accounts.add(row.decode())
            except msgspec.MsgspecError as error:
                fault = f"its entry cannot be decoded: {error}"
        if fault:
            fault = f"row {n_rows + 1}: {fault}"
            break
        n_rows, head, has_seen = n_rows + 1, row.digest, has_seen or row.digest == seen_head
    if not fault and not has_seen:
        fault = f"the ledger lacks the row {seen_head.hex()[:16]}, which was published earlier"
    return LedgerAudit(n_rows, head, accounts, fault)


def _find_fault(row: LedgerRow, number: int, head: bytes, public_key: bytes) -> str:
    if row.number != number:
        return f"its number is {row.number}"
    if row.previous != head:
        return "its `previous` is not the digest of the previous row"
    if row.digest != hash_row(row.number, row.time_ms, row.entry, row.previous):
        return "its content was changed"
    try:
        verify_and_unwrap(DOMAIN, row.digest + row.signature, public_key)
    except BadSignature:
        return "its signature is invalid"
    return ""
