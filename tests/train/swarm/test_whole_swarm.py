"""A whole swarm of processes on this machine, with nodes that cheat: examples/swarm, on six problems."""

import time
from pathlib import Path

import forked
import pytest
import small_runs
from curate_command import curate
from journal_audit import audit_journal

from train.asynchronous import journal
from train.asynchronous.events import BatchTaken
from train.swarm.accounts import LeaseEntry, VerdictEntry
from train.swarm.folder import SwarmFolder
from train.swarm.ledger import audit_ledger
from train.swarm.ledger import read_rows as ledger_rows
from train.swarm.signatures import public_key_bytes, read_key

EXAMPLE = Path(__file__).parents[3] / "examples" / "swarm"
STALENESS = 2
SECONDS, LEASE_SECONDS = 240, 20
RUN = [
    "rollout.pipeline=async",
    f"rollout.staleness={STALENESS}",
    "objective.old=learner",
    "objective.truncation=2.0",
    "run.keep_journal=true",
    "rollout.temperature=1.4",  # at 1, the tiny model knows most answers by heart, and greedy answers are honest ones
]


@pytest.fixture
def parts(monkeypatch):
    """Return the module of the example that starts the parts of a swarm, as children of the zygote."""
    monkeypatch.syspath_prepend(EXAMPLE)
    import parts
    import processes

    monkeypatch.setattr(processes, "Popen", forked.Popen)
    return parts


@pytest.fixture(scope="module")
def bars(tmp_path_factory, tiny_model, six_problems):
    """Return the file that `curate swarm calibrate` writes."""
    folder = tmp_path_factory.mktemp("bars")
    small = small_runs.written(folder, tiny_model, six_problems)
    changes = ["--groups", "12", "--out", str(folder / "bars.toml"), "--set", "rollout.temperature=1.4"]
    curate("swarm", "calibrate", small, *changes, check=True)
    return folder / "bars.toml"


def played(swarm, small, bars, events, *, nodes, steps):
    """Play a swarm to the end of its run; `events` are what happens after so many steps. Returns what was seen last."""
    with swarm.processes:
        swarm.start_trainer(small, *RUN, f"run.steps={steps}")
        swarm.start_coordinator("--bars", str(bars), "--lease-seconds", str(LEASE_SECONDS))
        swarm.start_verifier()
        for name, cheat in nodes.items():
            swarm.start_node(name, cheat)
        status, until = None, time.monotonic() + SECONDS
        waiting = sorted(events, key=lambda event: event[0])
        while swarm.processes.is_alive("trainer"):
            assert time.monotonic() < until, all_output(swarm)
            while waiting and swarm.count_steps() >= waiting[0][0]:
                waiting.pop(0)[1](swarm)
            status = swarm.fetch_status() or status
            time.sleep(0.2)
        assert swarm.processes.by_name["trainer"].returncode == 0, all_output(swarm)
        assert waiting == []
        return swarm.fetch_status() or status


def all_output(swarm):
    return "\n".join(f"--- {name}\n{swarm.processes.read_output(name)[-3000:]}" for name in swarm.processes.by_name)


def check(swarm, honest):
    """Check that only answers of these nodes were trained on, and that the run can be trained again."""
    place = SwarmFolder(swarm.folder / "coordinator")
    rows = list(ledger_rows(place.ledger_path))
    found = audit_ledger(rows, public_key_bytes(read_key(place.key_path)))
    assert found.fault == ""
    leased, sampled_by = {}, {}
    for entry in (row.decode() for row in rows):
        if isinstance(entry, LeaseEntry):
            leased[entry.lease] = entry.group, entry.attempt
        elif isinstance(entry, VerdictEntry) and entry.verdict == "accepted":
            sampled_by.setdefault(leased[entry.lease], set()).add(entry.node)
    keys = {swarm.read_public_key(name) for name in honest}
    events = list(journal.read_events(swarm.run / journal.FOLDER))
    trained = {
        (group, attempt) for event in events if isinstance(event, BatchTaken) for group, attempt, _ in event.groups
    }
    assert trained
    assert {node for group in trained for node in sampled_by[group]} <= keys
    assert audit_journal(journal.read_events(swarm.run / journal.FOLDER), staleness=STALENESS).findings == []
    result = curate("train", swarm.run, "--replay", check=True)
    assert "the same weights as" in result.output


def test_cheats_are_thrown_out_and_only_honest_answers_are_trained_on(small, bars, parts, tmp_path):
    swarm = parts.Swarm(tmp_path / "swarm")
    nodes = {"ann": "", "quentin": "quantised", "greta": "greedy", "drew": "dropping"}
    # The run cannot end before bea has joined: what ann has sampled until she leaves is too old for the last steps.
    events = [(1, lambda swarm: swarm.start_node("bea")), (1, lambda swarm: swarm.processes.terminate("ann"))]
    status = played(swarm, small, bars, events, nodes=nodes, steps=5)
    seen = {name: swarm.find_node(status, name) for name in (*nodes, "bea")}
    for name in ("ann", "bea"):
        assert seen[name].state in ("healthy", "left", "probation"), seen[name]
        assert set(seen[name].reasons) <= {"", "late", "expired", "freed"}, seen[name]
    assert seen["greta"].state == "banned"
    for name in ("quentin", "greta", "drew"):
        assert seen[name].state in ("banned", "suspended"), seen[name]
        assert (seen[name].n_granted, seen[name].accepted) <= (2, 1), seen[name]
    assert "has left" in swarm.processes.read_output("ann")
    assert seen["bea"].accepted > 0
    check(swarm, ("ann", "bea"))


@pytest.mark.thorough
def test_a_run_survives_the_death_of_its_coordinator_a_relay_the_verifier_and_a_node(small, bars, parts, tmp_path):
    swarm = parts.Swarm(tmp_path / "swarm")

    def kill(name):
        def kill_and_restart(swarm):
            swarm.processes.kill(name)
            swarm.processes.restart(name)

        return kill_and_restart

    # Nothing is trained on without a verifier, so the end of the run shows that the second one works.
    events = [(1, kill("coordinator")), (2, kill("relay-1")), (3, kill("verifier")), (4, kill("ann"))]
    status = played(swarm, small, bars, events, nodes={"ann": "", "bea": ""}, steps=6)
    assert {node.state for node in status.nodes} <= {"healthy", "probation", "unhealthy"}
    check(swarm, ("ann", "bea"))
