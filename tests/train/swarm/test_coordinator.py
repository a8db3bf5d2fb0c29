"""A coordinator between a trainer and nodes that nobody trusts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from swarms import World

from train.swarm.ledger.audit import Audit, audit
from train.swarm.ledger.book import rows
from train.swarm.signed import public_of, read_key


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def audited(world: World) -> Audit:
    return audit(rows(world.place / "ledger.sqlite"), public_of(read_key(world.place / "run.key")))


def test_what_a_verifier_accepts_reaches_the_trainer(world: World) -> None:
    with world.coordinator():
        node, verifier = world.member(), world.member("verifier")
        for _ in range(2):
            [lease] = node.ask(slots=1)
            assert lease.lease.draw.verifiable
            assert node.upload(lease) == "taken"
            assert node.upload(lease) == "again"
            verifier.judge(verifier.job())
        batch = world.controller.wait_for_cut(0, 20)
        assert [len(group) for group in batch] == [3, 3]
        orders = node.beat()
        assert [verdict.outcome for _, verdict in orders.verdicts] == ["accepted", "accepted"]
    found = audit(
        rows(world.place.path if False else world.place / "ledger.sqlite"), public_of(read_key(world.place / "run.key"))
    )
    assert found.fault == ""
    assert found.accounts.nodes[node.client.node].earned == 24
