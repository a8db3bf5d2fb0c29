"""What the entries of a ledger add up to. Everybody who has the entries finds the same accounts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from train.swarm.ledger.entries import (
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


@dataclass(frozen=True, slots=True)
class Account:
    """What is known of a node.

    state           "probation" until its first lease is accepted, then "healthy"; or how it left
    earned          units that it was paid
    stake           units that it would lose by cheating
    n_leases        leases that it got
    verdict_counts  how many of its leases ended in which way
    reason_counts   how often it was given which reason, other than for accepted leases
    """

    state: str = "probation"
    earned: int = 0
    stake: int = 0
    n_leases: int = 0
    verdict_counts: Mapping[str, int] = field(default_factory=dict)
    reason_counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def reputation(self) -> float:
        """The share of its leases with a verdict of its own making that were accepted; 1 while there are none.

        What was never known says nothing about a node.
        """
        n = sum(number for verdict, number in self.verdict_counts.items() if verdict != "unknown")
        return self.verdict_counts.get("accepted", 0) / n if n else 1.0


@dataclass(frozen=True, slots=True)
class Accounts:
    """All nodes by their public keys, and the newest version of the weights."""

    nodes: Mapping[bytes, Account] = field(default_factory=dict)
    version: int | None = None


class AccountsBuilder:
    """Accounts that grow entry by entry."""

    def __init__(self) -> None:
        self._nodes: dict[bytes, Account] = {}
        self._version: int | None = None

    def add(self, entry: Entry) -> None:
        """Count one more entry."""
        if isinstance(entry, PublishEntry):
            self._version = entry.version
        else:
            self._nodes[entry.node] = _changed(self._nodes.get(entry.node, Account()), entry)

    def account(self, node: bytes) -> Account:
        """Return the account of a node."""
        return self._nodes.get(node, Account())

    def accounts(self) -> Accounts:
        """Return what the entries add up to so far."""
        return Accounts(dict(self._nodes), self._version)


def compute_accounts(entries: Iterable[Entry]) -> Accounts:
    """Return what the entries add up to, from the first on."""
    fold = AccountsBuilder()
    for entry in entries:
        fold.add(entry)
    return fold.accounts()


def _changed(
    account: Account,
    entry: JoinEntry | StakeEntry | LeaseEntry | SubmitEntry | VerdictEntry | PayEntry | SlashEntry | LeaveEntry,
) -> Account:
    match entry:
        case JoinEntry():
            return replace(account, state="probation")
        case StakeEntry():
            return replace(account, stake=account.stake + entry.units)
        case LeaseEntry():
            return replace(account, n_leases=account.n_leases + 1)
        case VerdictEntry():
            state = "healthy" if entry.verdict == "accepted" and account.state == "probation" else account.state
            reasons = _one_more(account.reason_counts, entry.reason) if entry.reason else account.reason_counts
            return replace(
                account,
                state=state,
                verdict_counts=_one_more(account.verdict_counts, entry.verdict),
                reason_counts=reasons,
            )
        case PayEntry():
            return replace(account, earned=account.earned + entry.units)
        case SlashEntry():
            return replace(account, stake=account.stake - entry.units)
        case LeaveEntry():
            return replace(account, state=entry.cause)
        case SubmitEntry():
            return account


def _one_more(counts: Mapping[str, int], word: str) -> Mapping[str, int]:
    return {**counts, word: counts.get(word, 0) + 1}
