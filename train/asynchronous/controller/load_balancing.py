"""Least-loaded assignment of groups to waiting workers."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """A worker that waits for groups.

    load              groups that it samples now
    free_group_slots  further groups for which it has room
    capacity          further groups that the bound on staleness allows it, with its weights
    """

    load: int
    free_group_slots: int
    capacity: int


def count_groups_for_worker(loads: Mapping[str, WorkerLoad], name: str, max_groups: int) -> int:
    """Return how many of at most `max_groups` groups a worker gets if each goes to the worker with the least to do.

    A worker that asks first must not be filled while others stay idle: a step ends with its slowest worker.
    """
    heap = [(room.load, other != name, other) for other, room in loads.items() if room.free_group_slots]
    heapq.heapify(heap)
    given: dict[str, int] = {}
    for dealt in range(max_groups):
        while heap and (
            given.get(heap[0][2], 0) >= loads[heap[0][2]].free_group_slots or dealt >= loads[heap[0][2]].capacity
        ):
            heapq.heappop(heap)
        if not heap:
            break
        load, is_other, first = heap[0]
        given[first] = given.get(first, 0) + 1
        heapq.heapreplace(heap, (load + 1, is_other, first))
    return given.get(name, 0)
