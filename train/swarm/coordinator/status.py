"""The operator's status of a swarm, and its HTML page.

Nodes choose some of its texts, so all are escaped, and the content security policy forbids scripts and fetches.
"""

from collections.abc import Iterable, Sequence
from html import escape

from train.swarm.coordinator.coordinator_state import CoordinatorState
from train.swarm.ledger import Ledger
from train.swarm.messages import NodeStatus, SwarmStatus


def build_status(state: CoordinatorState, ledger: Ledger, run: str, relays: dict[str, int], now: float) -> SwarmStatus:
    """Build the status of a swarm.

    relays  newest version by URL
    now     time of the coordinator's monotonic clock, in seconds
    """
    return SwarmStatus(
        run=run,
        version=state.version,
        ledger_head=ledger.head,
        n_entries=ledger.n_entries,
        nodes=tuple(_build_node_status(state, ledger, key, now) for key in state.members),
        lease_counts=state.count_leases(),
        verdict_counts=dict(state.verdicts),  # type: ignore[arg-type]
        relays=relays,
        verifiers=state.count_verifiers(now),
    )


def _build_node_status(state: CoordinatorState, ledger: Ledger, key: bytes, now: float) -> NodeStatus:
    member, account = state.members[key], ledger.get_account(key)
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
        reasons=dict(account.reason_counts),
    )


SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_MAX_CHARACTERS = 80
_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #1c1c1c }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .25rem .6rem }
th { border-bottom: 2px solid #999 } td { border-bottom: 1px solid #ddd; overflow-wrap: anywhere }
.number { text-align: right; font-variant-numeric: tabular-nums } code { font-size: .9em }
@media (prefers-color-scheme: dark) { body { background: #161616; color: #e4e4e4 } td { border-color: #333 } }
"""


def render_status_page(status: SwarmStatus) -> str:
    nodes = sorted(status.nodes, key=lambda node: (node.state, -node.accepted, node.node))
    parts = [
        f"<h1>Swarm {_escape_text(status.run)}</h1>",
        f"<p>Version {status.version} of the weights. {len(nodes)} nodes, {status.verifiers} verifiers. "
        f"The ledger has {status.n_entries} entries and ends with <code>{status.ledger_head.hex()}</code>.</p>",
        "<h2>Nodes</h2>",
        _render_table(_NODE_HEADS, map(_list_node_cells, nodes)),
        "<h2>Leases</h2>",
        _render_table(("state", "leases"), ((state, n) for state, n in sorted(status.lease_counts.items()))),
        "<h2>Verdicts</h2>",
        _render_table(
            ("reason", "leases"), ((why or "accepted", n) for why, n in sorted(status.verdict_counts.items()))
        ),
        "<h2>Relays</h2>",
        _render_table(
            ("relay", "version"), ((url, "no answer" if n < 0 else n) for url, n in sorted(status.relays.items()))
        ),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="10">'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f"<title>Swarm {_escape_text(status.run)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>"
    )


_NODE_HEADS = (
    "node", "state", "engine", "hardware", "version", "seen", "tokens/s", "leases", "given", "accepted", "reputation",
    "earned", "stake", "reasons",
)  # fmt: skip


def _list_node_cells(node: NodeStatus) -> Sequence[object]:
    return (
        node.node.hex()[:16],
        node.state,
        node.engine,
        node.hardware,
        node.loaded_version,
        f"{node.seen_seconds_ago:.0f} s ago",
        round(node.tokens_per_second),
        node.leases,
        node.n_granted,
        node.accepted,
        f"{node.reputation:.2f}",
        node.earned,
        node.stake,
        ", ".join(f"{reason} {n}" for reason, n in sorted(node.reasons.items())),
    )


def _render_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{_escape_text(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(map(_render_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _render_cell(value: object) -> str:
    kind = ' class="number"' if isinstance(value, int) else ""
    return f"<td{kind}>{_escape_text(value)}</td>"


def _escape_text(value: object) -> str:
    """Escape text for HTML, and replace nonprintable characters such as direction overrides."""
    text = str(value)
    text = text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…"
    return escape("".join(letter if letter.isprintable() else "�" for letter in text))
