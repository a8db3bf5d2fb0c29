"""A ledger shows every change, and adds up to the same accounts for everybody."""

import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import forked
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from swarms import accounts_of

from train.errors import RunError
from train.swarm.accounts import (
    Entry,
    JoinEntry,
    LeaseEntry,
    LeaveEntry,
    PayEntry,
    PublishEntry,
    SlashEntry,
    StakeEntry,
    SubmitEntry,
    VerdictEntry,
)
from train.swarm.ledger import DOMAIN, GENESIS_DIGEST, Ledger, LedgerRow, audit_ledger, hash_row, read_rows
from train.swarm.signatures import append_signature, public_key_bytes

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
PUBLIC = public_key_bytes(KEY)
ANN, BEN = b"a" * 32, b"b" * 32


def entries(n: int, *, seed: int = 0) -> list[Entry]:
    rng = random.Random(seed)
    made: list[Entry] = []
    for number in range(n):
        node, lease = rng.choice((ANN, BEN)), number
        made.append(
            rng.choice(
                (
                    JoinEntry(node, b"i" * 32),
                    StakeEntry(node, rng.randrange(100)),
                    LeaseEntry(node, lease, number, 0, 3),
                    SubmitEntry(node, lease, b"d" * 32),
                    VerdictEntry(node, lease, rng.choice(("accepted", "soft", "hard", "unknown", "expired")), "late"),
                    PayEntry(node, lease, rng.randrange(10)),
                    SlashEntry(node, rng.randrange(5), "commitments"),
                    LeaveEntry(node, rng.choice(("left", "banned"))),
                    PublishEntry(number, b"m" * 32),
                )
            )
        )
    return made


def written(path: Path, made: list[Entry]) -> Ledger:
    ledger = Ledger(path, KEY)
    for entry in made:
        ledger.append(entry)
    return ledger


def test_what_is_audited_adds_up_to_what_the_coordinator_has(tmp_path: Path) -> None:
    made = entries(200)
    ledger = written(tmp_path / "ledger", made)
    ledger.close()
    found = audit_ledger(read_rows(tmp_path / "ledger"), PUBLIC, seen_head=ledger.head)
    assert (found.n_rows, found.fault, found.head) == (200, "", ledger.head)
    assert found.accounts == ledger.accounts == accounts_of(made)


def test_a_ledger_goes_on_where_it_ended(tmp_path: Path) -> None:
    written(tmp_path / "ledger", entries(5)).close()
    ledger = written(tmp_path / "ledger", [StakeEntry(ANN, 7)])
    ledger.close()
    assert audit_ledger(read_rows(tmp_path / "ledger"), PUBLIC).n_rows == 6


CHANGES = {
    "UPDATE entries SET time_ms = time_ms + 1 WHERE number = 4": "row 4: its content was changed",
    "UPDATE entries SET entry = x'00' WHERE number = 4": "row 4: its content was changed",
    "UPDATE entries SET signature = zeroblob(64) WHERE number = 4": "row 4: its signature is invalid",
    "DELETE FROM entries WHERE number = 4": "row 4: its number is 5",
    "UPDATE entries SET number = number + 100 WHERE number = 4": "row 4: its number is 5",
    "DELETE FROM entries WHERE number > 7": "the ledger lacks the row",
}


@pytest.mark.parametrize(("change", "fault"), CHANGES.items())
def test_every_change_is_found(tmp_path: Path, change: str, fault: str) -> None:
    ledger = written(tmp_path / "ledger", entries(10))
    ledger.close()
    database = sqlite3.connect(tmp_path / "ledger", isolation_level=None)
    database.execute(change)
    database.close()
    assert audit_ledger(read_rows(tmp_path / "ledger"), PUBLIC, seen_head=ledger.head).fault.startswith(fault)


def test_any_changed_byte_of_a_row_is_found(tmp_path: Path) -> None:
    written(tmp_path / "ledger", entries(3)).close()
    there = list(read_rows(tmp_path / "ledger"))
    rng = random.Random(1)
    for _ in range(200):
        place, column = rng.randrange(3), rng.choice(("entry", "previous", "digest", "signature"))
        changed = bytearray(getattr(there[place], column))
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        values = {name: getattr(there[place], name) for name in there[place].__slots__}
        bad = list(there)
        bad[place] = type(there[place])(**(values | {column: bytes(changed)}))
        assert audit_ledger(bad, PUBLIC).fault.startswith(f"row {place + 1}:")


def test_rows_that_change_places_are_found(tmp_path: Path) -> None:
    written(tmp_path / "ledger", entries(4)).close()
    first, second, *others = read_rows(tmp_path / "ledger")
    assert audit_ledger([second, first, *others], PUBLIC).fault == "row 1: its number is 2"


def test_the_chain_of_another_coordinator_is_not_this_one(tmp_path: Path) -> None:
    written(tmp_path / "ledger", entries(2)).close()
    assert "its signature is invalid" in audit_ledger(read_rows(tmp_path / "ledger"), b"\1" * 32).fault


def test_two_processes_cannot_write_one_ledger(tmp_path: Path) -> None:
    ledger = written(tmp_path / "ledger", entries(1))
    with pytest.raises(RunError, match="locked"):
        Ledger(tmp_path / "ledger", KEY)
    ledger.close()
    Ledger(tmp_path / "ledger", KEY).close()


def test_a_ledger_can_be_audited_while_it_grows(tmp_path: Path) -> None:
    ledger = written(tmp_path / "ledger", entries(3))
    with ledger.begin_transaction():
        ledger.append(StakeEntry(ANN, 7))
        assert audit_ledger(read_rows(tmp_path / "ledger"), PUBLIC).n_rows == 3
    assert audit_ledger(read_rows(tmp_path / "ledger"), PUBLIC, seen_head=ledger.head).n_rows == 4
    ledger.append(StakeEntry(BEN, 7))
    audit = [sys.executable, "-m", "cli", "ledger", "audit", str(tmp_path / "ledger"), "--public-key", PUBLIC.hex()]
    assert f"5 entries, the last is {ledger.head.hex()}" in forked.run(audit, capture_output=True, text=True).stdout
    ledger.close()


def test_what_is_no_ledger_is_named(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_bytes(b"x" * 5000)
    with pytest.raises(RunError, match="not a ledger"):
        list(read_rows(tmp_path / "ledger"))
    with pytest.raises(RunError, match="curate ledger audit"):
        Ledger(tmp_path / "ledger", KEY)


_WRITER = """
import sys
from pathlib import Path
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from train.swarm.ledger import Ledger
from train.swarm.accounts import StakeEntry
ledger = Ledger(Path(sys.argv[1]), Ed25519PrivateKey.from_private_bytes(bytes(32)))
for n in range(10**6):
    ledger.append(StakeEntry(b"a" * 32, 1))
    print(n + 1, flush=True)
"""


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(
            "CREATE VIEW entries AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
            "SELECT i AS number, 0 AS time_ms, x'00' AS entry, x'00' AS previous, x'00' AS digest, "
            "x'00' AS signature FROM n",
            id="rows without end",
        ),
        pytest.param("CREATE TABLE entries (number, time_ms, entry, previous, digest, signature)", id="any types"),
    ],
)
def test_a_file_that_only_looks_like_a_ledger_is_refused(tmp_path: Path, made: str) -> None:
    path = tmp_path / "a ledger?mode=rw#100%"
    database = sqlite3.connect(path)
    database.execute(made)
    database.close()
    with pytest.raises(RunError, match="no table of ledger entries"):
        list(read_rows(path))


def test_a_coordinator_that_is_killed_loses_nothing_that_it_has_said(tmp_path: Path) -> None:
    writer = forked.Popen([sys.executable, "-c", _WRITER, str(tmp_path / "ledger")], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    for _ in range(30):
        said = int(writer.stdout.readline())
    writer.kill()
    writer.communicate()
    ledger = Ledger(tmp_path / "ledger", KEY)
    assert ledger.accounts.nodes[ANN].stake >= said
    ledger.close()
    assert audit_ledger(read_rows(tmp_path / "ledger"), PUBLIC).fault == ""


def test_reputation_counts_what_a_node_is_to_blame_for() -> None:
    made = [VerdictEntry(ANN, 0, verdict) for verdict in ("accepted", "accepted", "unknown", "expired")]
    assert accounts_of(made).nodes[ANN].reputation == pytest.approx(2 / 3)
    assert accounts_of([JoinEntry(BEN, b"")]).nodes[BEN].reputation == 1


def test_a_ledger_that_is_written_anew_lacks_what_others_have_seen(tmp_path: Path) -> None:
    """Whoever has the key can write another history, but not one that contains the published head."""
    ledger = written(tmp_path / "ledger", entries(10))
    ledger.close()
    for seed, n in ((1, 10), (0, 9), (1, 40)):
        other = tmp_path / f"other-{seed}-{n}"
        written(other, entries(n, seed=seed)).close()
        assert audit_ledger(read_rows(other), PUBLIC).fault == ""
        assert "published earlier" in audit_ledger(read_rows(other), PUBLIC, seen_head=ledger.head).fault


def test_a_row_from_elsewhere_does_not_fit(tmp_path: Path) -> None:
    written(tmp_path / "one", entries(6, seed=1)).close()
    written(tmp_path / "two", entries(6, seed=2)).close()
    one, two = list(read_rows(tmp_path / "one")), list(read_rows(tmp_path / "two"))
    for place in range(6):
        mixed = [*one[:place], two[place], *one[place + 1 :]]
        expected = place + 1 if place else 2  # the first row follows nothing, so it is the second that does not fit
        assert audit_ledger(mixed, PUBLIC).fault.startswith(f"row {expected}:")


def test_a_row_that_comes_twice_is_found(tmp_path: Path) -> None:
    written(tmp_path / "ledger", entries(4)).close()
    there = list(read_rows(tmp_path / "ledger"))
    for place in range(4):
        assert audit_ledger([*there[: place + 1], *there[place:]], PUBLIC).fault.startswith(f"row {place + 2}:")


def test_a_whole_new_chain_under_another_key_is_found(tmp_path: Path) -> None:
    forger = Ed25519PrivateKey.from_private_bytes(b"f" * 32)
    ledger = Ledger(tmp_path / "ledger", forger)
    ledger.append(PayEntry(ANN, 7, 10**9))
    ledger.close()
    assert audit_ledger(read_rows(tmp_path / "ledger"), PUBLIC).fault == "row 1: its signature is invalid"


def test_rows_that_are_signed_but_are_no_entries_are_named() -> None:
    for content in (b"", b"\xc1", b"\x80", msgspec.msgpack.encode({"type": "pay"}), b"\x91" * 3000):
        digest = hash_row(1, 5, content, GENESIS_DIGEST)
        row = LedgerRow(1, 5, content, GENESIS_DIGEST, digest, append_signature(DOMAIN, digest, KEY)[-64:])
        assert audit_ledger([row], PUBLIC).fault.startswith("row 1: its entry cannot be decoded")


def test_columns_of_other_types_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "ledger", entries(3)).close()
    database = sqlite3.connect(tmp_path / "ledger", isolation_level=None)
    for change in ("entry = 'text'", "digest = 5", "signature = NULL", "time_ms = 'soon'"):
        with pytest.raises(sqlite3.IntegrityError):
            database.execute(f"UPDATE entries SET {change} WHERE number = 2")
    database.execute("UPDATE entries SET signature = zeroblob(1000000), digest = zeroblob(0) WHERE number = 2")
    database.close()
    assert audit_ledger(read_rows(tmp_path / "ledger"), PUBLIC).fault.startswith("row 2:")


@pytest.mark.parametrize("seed", range(6))
def test_a_file_with_any_damage_is_named_or_sound(tmp_path: Path, seed: int) -> None:
    """Bytes of the file itself, not of its rows: pages, headers, lengths."""
    path = tmp_path / "ledger"
    ledger = written(path, entries(30))
    ledger.close()
    rng, content = random.Random(seed), bytearray(path.read_bytes())
    for _ in range(30):
        damaged = bytearray(content)
        for _ in range(rng.randrange(1, 20)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged[: rng.choice((len(damaged), rng.randrange(len(damaged))))])
        try:
            found = audit_ledger(read_rows(path), PUBLIC, seen_head=ledger.head)
        except RunError:
            continue
        assert found.fault or found.accounts == ledger.accounts


def test_entries_that_belong_together_are_there_together(tmp_path: Path) -> None:
    ledger = written(tmp_path / "ledger", [])
    with ledger.begin_transaction():
        ledger.append(StakeEntry(ANN, 1))
        ledger.append(StakeEntry(ANN, 2))
    assert list(ledger.read_entries()) == [StakeEntry(ANN, 1), StakeEntry(ANN, 2)]
    ledger.close()
    assert audit_ledger(read_rows(tmp_path / "ledger"), PUBLIC, seen_head=ledger.head).n_rows == 2


_TWICE = """
import os, signal, sys
from pathlib import Path
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from train.swarm.ledger import Ledger
from train.swarm.accounts import PayEntry, VerdictEntry
ledger = Ledger(Path(sys.argv[1]), Ed25519PrivateKey.from_private_bytes(bytes(32)))
for n in range(int(sys.argv[2]) + 1):
    with ledger.begin_transaction():
        ledger.append(VerdictEntry(b"a" * 32, 7, "accepted"))
        if n == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        ledger.append(PayEntry(b"a" * 32, 7, 1))
"""


@pytest.mark.parametrize("n", [0, 3])
def test_a_verdict_is_never_without_its_pay(tmp_path: Path, n: int) -> None:
    """The process is killed between the two entries."""
    forked.run([sys.executable, "-c", _TWICE, str(tmp_path / "ledger"), str(n)])
    ledger = Ledger(tmp_path / "ledger", KEY)
    account = ledger.get_account(ANN)
    assert (account.verdict_counts.get("accepted", 0), account.earned) == (n, n)
    ledger.append(StakeEntry(ANN, 1))
    ledger.close()
    assert audit_ledger(read_rows(tmp_path / "ledger"), PUBLIC).n_rows == 2 * n + 1
