"""The leases that a node has, and their answers until the whole group can be uploaded.

The worker knows a lease by a number of its own, counted from 0: how the trainer numbers its groups is not the node's
business, and a node may get the same group twice.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from train.asynchronous.messages import Lease, LeaseKey, SampleResult
from train.swarm.lease_file import encode_lease_file
from train.swarm.messages import SwarmLease


@dataclass(slots=True)
class HeldLease:
    """A lease, and its answers by their numbers. `expires_at` is when it runs out."""

    lease: SwarmLease
    expires_at: float
    answers: dict[int, SampleResult] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether all answers are there; the first one speaks for all if the engine cannot take the prompt."""
        return len(self.answers) == len(self.lease.lease.seeds) or self._refusal is not None

    def content(self) -> bytes:
        """Return the file of the lease: the same bytes however often they have to be sent."""
        lease, refusal = self.lease.lease, self._refusal
        answers = [refusal or self.answers[number] for number in range(len(lease.seeds))]
        return encode_lease_file(
            [
                replace(answer, group=lease.group, attempt=lease.attempt, number=number)
                for number, answer in enumerate(answers)
            ]
        )

    @property
    def _refusal(self) -> SampleResult | None:
        return next((answer for answer in self.answers.values() if answer.finish_reason == "refused"), None)


class HeldLeases:
    """What a node has. One thread at a time uses it."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._held: dict[int, HeldLease] = {}
        self._n_taken = 0

    def add_leases(self, leases: Iterable[SwarmLease]) -> tuple[Lease, ...]:
        """Take what the coordinator gave, and return it as the worker gets it. What has run out is forgotten."""
        self._held = {number: held for number, held in self._held.items() if held.expires_at > self._now()}
        taken = []
        for given in leases:
            self._held[self._n_taken] = HeldLease(given, self._now() + given.lease.expires_in_seconds)
            taken.append(replace(given.lease, group=self._n_taken, attempt=0))
            self._n_taken += 1
        return tuple(taken)

    def add(self, answer: SampleResult) -> bool:
        """Take an answer of the worker, and return whether its lease is still held."""
        held = self._held.get(answer.group)
        if held is None:
            return False
        held.answers[answer.number] = answer
        return True

    def complete_leases(self) -> list[tuple[int, HeldLease]]:
        """Return the leases that have all their answers, with the worker's numbers for them."""
        return [(number, held) for number, held in self._held.items() if held.is_complete]

    def discard(self, number: int) -> None:
        """Forget a lease that was uploaded, or is not ours any more."""
        self._held.pop(number, None)

    def lease_ids(self, keys: Iterable[LeaseKey]) -> tuple[bytes, ...]:
        """Return the ids of the leases that the worker names."""
        return tuple(self._held[number].lease.id for number, _ in keys if number in self._held)

    def drop_by_ids(self, ids: Iterable[bytes]) -> tuple[LeaseKey, ...]:
        """Forget leases by their ids, and return their names as the worker knows them."""
        gone = set(ids)
        numbers = [number for number, held in self._held.items() if held.lease.id in gone]
        for number in numbers:
            del self._held[number]
        return tuple((number, 0) for number in numbers)
