"""The bound on staleness, as two pure rules: the capacity for dispatch, and the selection of a batch.

B      prompts in a batch
eta    rollout.staleness: the last version that may train on a group is its start version + eta
start  a group's start version: the one its worker had loaded at dispatch; no token of the group is older
v      version: the number of batches taken. Weights v train on the batch taken at version v.
N      B * batches taken, including the one in training, + outstanding groups (dispatched, neither used nor rejected)

The rules keep one invariant. Before the batch of version v is taken, for each k >= v:

    #{outstanding: start <= k - eta}  <=  (k - v + 1) B

The left side counts the groups that must be used at versions v to k, the right side the groups in these batches. For k
= v + eta and beyond, the left side counts all outstanding groups, since no start version is above v.

Dispatch preserves it. A worker with weights b gets a group only while N < (b + eta + 1) B. So afterwards at most (b +
eta + 1 - v) B groups are outstanding. The new one counts only for k >= b + eta, and for these k the right side is at
least as large. The rule holds for each worker with its own b, also with old weights.

A batch is taken only under two conditions: without its groups, the invariant holds for v + 1; and no remaining group
had to be used at v.

There is no deadlock: once all outstanding groups are ready, the B oldest form an allowed batch. Without the second
condition, groups with long completions would be overtaken by younger ones until they exceed the bound.
"""

from bisect import bisect_right
from collections.abc import Iterable


def compute_dispatch_capacity(
    loaded_version: int, batches: int, outstanding: int, *, prompts: int, staleness: int, steps: int
) -> int:
    """Return the number of further groups that a worker with these weights may get.

    loaded_version  version of the worker's weights
    batches         number of batches taken, including the one in training
    outstanding     groups dispatched and neither used nor rejected
    prompts         groups in a batch
    steps           batches in the whole run; limits dispatch to groups that the run can still use
    """
    return max(0, min(loaded_version + staleness + 1, steps) * prompts - batches * prompts - outstanding)


def select_batch(
    version: int,
    ready: Iterable[tuple[int, int]],
    outstanding: Iterable[int],
    *,
    prompts: int,
    staleness: int,
    allow_partial: bool = False,
) -> list[int] | None:
    """Select the groups to train on at this version, the oldest first; None if more groups must be ready first.

    ready          start version and number of each ready group
    outstanding    start versions of all groups dispatched and neither used nor rejected, including ready ones
    allow_partial  whether a batch may have fewer than `prompts` groups; it counts as a whole batch
    """
    oldest = sorted(ready)[:prompts]
    if not oldest or (len(oldest) < prompts and not allow_partial):
        return None
    start_versions, chosen = sorted(outstanding), [start_version for start_version, _ in oldest]
    for k in range(version, version + staleness + 1):
        left = bisect_right(start_versions, k - staleness) - bisect_right(chosen, k - staleness)
        if left > (k - version) * prompts:
            return None
    return [number for _, number in oldest]
