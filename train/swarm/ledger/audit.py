"""Check a ledger: whether anything in it was changed, dropped, put elsewhere or cut off."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from train.swarm.ledger.accounts import Accounts, AccountsBuilder
from train.swarm.ledger.ledger import DOMAIN, GENESIS_DIGEST, LedgerRow, row_digest
from train.swarm.signatures import BadSignature, verify_and_unwrap


@dataclass(frozen=True, slots=True)
class LedgerAudit:
    """What an audit found.

    n_rows    sound rows, up to the first fault
    head      digest of the last of them
    accounts  what they add up to
    fault     what is wrong with the row after them; "" if nothing is
    """

    n_rows: int
    head: bytes
    accounts: Accounts
    fault: str = ""


def audit_ledger(rows: Iterable[LedgerRow], public: bytes, *, seen_head: bytes = b"") -> LedgerAudit:
    """Check the rows from the first on.

    public     the coordinator's public key, from the invite
    seen_head  the digest of a row that was published once, such as the head that `latest` named. A ledger that was cut
               off or written anew from there does not have it.
    """
    n_rows, head, fold, has_seen, fault = 0, GENESIS_DIGEST, AccountsBuilder(), not seen_head, ""
    for row in rows:
        fault = _fault(row, n_rows + 1, head, public)
        if not fault:
            try:
                fold.add(row.decode())
            except msgspec.MsgspecError as error:
                fault = f"it is not an entry: {error}"
        if fault:
            fault = f"row {n_rows + 1}: {fault}"
            break
        n_rows, head, has_seen = n_rows + 1, row.digest, has_seen or row.digest == seen_head
    if not fault and not has_seen:
        fault = f"the ledger does not have the row {seen_head.hex()[:16]}, which was published once"
    return LedgerAudit(n_rows, head, fold.accounts(), fault)


def _fault(row: LedgerRow, number: int, head: bytes, public: bytes) -> str:
    if row.number != number:
        return f"number {row.number} stands in its place"
    if row.previous != head:
        return "it does not follow the row before it"
    if row.digest != row_digest(row.number, row.time_ms, row.entry, row.previous):
        return "its content was changed"
    try:
        verify_and_unwrap(DOMAIN, row.digest + row.signature, public)
    except BadSignature:
        return "the coordinator has not signed it"
    return ""
