"""The bound on staleness, as two pure rules: how many groups may be asked, and which batch may be trained on.

B        prompts in a batch
eta      rollout.staleness: a group is trained on at version birth + eta at the latest
birth    the version that the worker had loaded when the group was asked; no token of the group is older
version  v counts the batches that were taken. The batch that is taken at version v is trained on by weights v.
N        B * batches taken, the one in training included, + groups outstanding (asked, neither used nor given up)

The rules keep one invariant. Before the batch of version v is taken, for each k >= v:

    #{outstanding: birth <= k - eta}  <=  (k - v + 1) B

These groups have to be used at versions v to k, and that many places there are. For k = v + eta and beyond, the left
side counts all that is outstanding, since no birth is above v.

Asking keeps it. A group is asked by a worker with weights b only while N < (b + eta + 1) B. So afterwards at most
(b + eta + 1 - v) B groups are outstanding, and the new one counts only for k >= b + eta, where that is at most
(k - v + 1) B. A worker with old weights falls under the same rule, with its own b.

Cutting keeps it, because the cut is refused otherwise: without the groups of the cut, the invariant has to hold for
v + 1, and nothing may be left that had to be used at v. A group that is given up (lost, rejected, refused) only makes
the left side smaller, and asking it again is a new birth.

Nothing can block for ever. Once all that is outstanding is ready, the B oldest are a cut that is allowed.
"Oldest ready first" without this rule breaks the bound: younger groups overtake long answers, which are too old then.
"""

from bisect import bisect_right
from collections.abc import Iterable


def dispatch_capacity(
    loaded_version: int, batches: int, outstanding: int, *, prompts: int, staleness: int, steps: int
) -> int:
    """Return how many further groups a worker with these weights may be given.

    loaded_version  version of the worker's weights
    batches         batches taken so far, the one in training included
    outstanding     groups that were asked and neither used nor given up
    prompts         groups in a batch
    steps           batches that the run takes in all: nothing is asked that could not be used
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
    """Return the groups to train on at this version, the oldest first, or None if more groups must be ready before.

    ready          birth and number of each group that is ready
    outstanding    the births of all groups that were asked and neither used nor given up, the ready ones included
    allow_partial  whether fewer groups than `prompts` will do; they count as a whole batch
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
