"""What the operator sees of a swarm."""

from train.swarm.coordinator.coordinator_state import CoordinatorState
from train.swarm.ledger.ledger import Ledger
from train.swarm.messages import NodeStatus, SwarmStatus


def build_status(state: CoordinatorState, ledger: Ledger, run: str, relays: dict[str, int], now: float) -> SwarmStatus:
    """Return the state of a swarm at a time of the desk's clock. Relays are given by URL."""
    return SwarmStatus(
        run=run,
        version=state.version,
        ledger_head=ledger.head,
        n_entries=ledger.n_entries,
        nodes=tuple(_node(state, ledger, key, now) for key in state.members),
        lease_counts=state.lease_counts(),
        verdict_counts=dict(state.verdicts),  # type: ignore[arg-type]
        relays=relays,
        verifiers=state.n_verifiers(now),
    )


def _node(state: CoordinatorState, ledger: Ledger, key: bytes, now: float) -> NodeStatus:
    member, account = state.members[key], ledger.account(key)
    return NodeStatus(
        node=key,
        state=member.lifecycle.state.value,
        engine=member.engine,
        hardware=member.hardware,
        loaded_version=member.loaded_version,
        seen_seconds_ago=now - member.lifecycle.last_heartbeat,
        tokens_per_second=member.tokens_per_second,
        leases=len(member.leases),
        n_granted=account.n_leases,
        accepted=account.verdict_counts.get("accepted", 0),
        reputation=account.reputation,
        earned=account.earned,
        stake=account.stake,
        reasons=dict(account.reason_counts),  # type: ignore[arg-type]
    )
