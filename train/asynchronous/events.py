"""The events of groups in the journal, from which group_states.py computes the state of all groups.

A group is identified by its number and the attempt. Events that return groups to the queue have all fields of the next
dispatch, since the segment with the first dispatch may be pruned.
"""

from msgspec import Struct, field

from train.asynchronous.messages import SampleResult


class PendingGroup(Struct, frozen=True, array_like=True):
    """A lost group, to be dispatched again as this attempt."""

    group: int
    attempt: int
    position: int
    n_lost: int = field(name="losses")


class SegmentStarted(Struct, frozen=True, array_like=True, tag="begun"):
    """The first event of each segment: the counters and waiting groups before its events."""

    batches_taken: int = field(name="cuts")
    next_group: int
    next_position: int
    pending_groups: tuple[PendingGroup, ...] = field(name="waiting", default=())


class RunResumed(Struct, frozen=True, array_like=True, tag="resumed"):
    """A resumption of the run at this step. pending_groups: groups that were being sampled."""

    step: int
    pending_groups: tuple[PendingGroup, ...] = field(name="waiting", default=())


class WeightsPublished(Struct, frozen=True, array_like=True, tag="published"):
    """A publication of weights. digest: SHA-256 of the checksums of their tensors; empty without checksums."""

    version: int
    digest: str = ""


class GroupDispatched(Struct, frozen=True, array_like=True, tag="asked"):
    """A lease of a group to a worker.

    start_version  version that the worker had loaded
    n_lost         number of previous losses of the group
    prompt         token ids, 4 bytes each, little-endian and unsigned
    source         data source of the problem
    """

    group: int
    attempt: int
    position: int
    start_version: int
    worker: str
    n_completions: int = field(name="completions")
    max_tokens: int
    problem_id: str
    prompt: bytes
    source: str = ""
    n_lost: int = field(name="losses", default=0)


class ResultReceived(Struct, frozen=True, array_like=True, tag="answered"):
    """A completion from a worker. text: its decoded tokens."""

    result: SampleResult
    text: str


class ResultScored(Struct, frozen=True, array_like=True, tag="scored"):
    """The score of a completion.

    reward                           None if unknown
    reward_components, step_rewards  as in Rollout
    """

    group: int
    attempt: int
    number: int
    reward: float | None = field(name="value")
    verdict: str
    seconds: float
    reward_components: tuple[tuple[str, float], ...] = field(name="parts", default=())
    step_rewards: tuple[tuple[int, float], ...] = field(name="steps", default=())


class GroupAccepted(Struct, frozen=True, array_like=True, tag="accepted"):
    """The acceptance of a group as trainable, after all its completions are scored.

    signal: as `classify_group_signal` returns it
    """

    group: int
    attempt: int
    signal: str


class GroupRejected(Struct, frozen=True, array_like=True, tag="rejected"):
    """The rejection of a group without a signal, with a refused prompt, or lost too often."""

    group: int
    attempt: int
    signal: str


RELEASED_REASON = "given back"  # reason of a released lease, which does not count as a loss of the group


class LeaseLost(Struct, frozen=True, array_like=True, tag="lost"):
    """The end of a lease before all completions arrived.

    pending_group: the group's next attempt; None if there is none, and the group keeps the completions it has
    """

    group: int
    attempt: int
    reason: str
    pending_group: PendingGroup | None = field(name="again")


class BatchTaken(Struct, frozen=True, array_like=True, tag="cut"):
    """A batch of the trainer. groups: number, attempt and start version of each, in training order."""

    version: int
    groups: tuple[tuple[int, int, int], ...]


Event = (
    SegmentStarted
    | RunResumed
    | WeightsPublished
    | GroupDispatched
    | ResultReceived
    | ResultScored
    | GroupAccepted
    | GroupRejected
    | LeaseLost
    | BatchTaken
)
