"""The events of groups, as the journal records them. Folding them gives the state of all groups (group_states.py).

A group is identified by its number and the attempt. Versions count weights; `cuts` counts batches. Events that make
groups wait say all that has to be known of them, since the segment of the journal in which they were asked may be gone.
"""

from msgspec import Struct, field

from train.asynchronous.messages import SampleResult


class PendingGroup(Struct, frozen=True, array_like=True):
    """A group that was lost and has to be asked again, with this attempt."""

    group: int
    attempt: int
    position: int
    n_lost: int = field(name="losses")


class SegmentStarted(Struct, frozen=True, array_like=True, tag="begun"):
    """The first event of each segment of the journal: all that is not known from the events of open groups."""

    batches_taken: int = field(name="cuts")
    next_group: int
    next_position: int
    pending_groups: tuple[PendingGroup, ...] = field(name="waiting", default=())


class RunResumed(Struct, frozen=True, array_like=True, tag="resumed"):
    """The controller started again at this step. waiting: the groups that were being sampled, and now wait."""

    step: int
    pending_groups: tuple[PendingGroup, ...] = field(name="waiting", default=())


class WeightsPublished(Struct, frozen=True, array_like=True, tag="published"):
    """New weights can be fetched. digest: of the checksums of their tensors; empty if there are none."""

    version: int
    digest: str = ""


class GroupDispatched(Struct, frozen=True, array_like=True, tag="asked"):
    """A worker was given a group.

    start_version  the version that the worker had loaded
    n_lost         how often the group was lost before
    prompt         token ids, 4 bytes each, little-endian and unsigned
    source         where the problem comes from
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
    """A worker sent an answer; `text` is what its tokens mean."""

    answer: SampleResult
    text: str


class ResultScored(Struct, frozen=True, array_like=True, tag="scored"):
    """An answer has its reward; value: None if the reward is unknown; parts and steps: as in Rollout."""

    group: int
    attempt: int
    number: int
    reward: float | None = field(name="value")
    verdict: str
    seconds: float
    reward_components: tuple[tuple[str, float], ...] = field(name="parts", default=())
    step_rewards: tuple[tuple[int, float], ...] = field(name="steps", default=())


class GroupAccepted(Struct, frozen=True, array_like=True, tag="accepted"):
    """All answers are scored, and the group will be trained on. lesson: see
    train.rollouts.groups.group_signal."""

    group: int
    attempt: int
    signal: str


class GroupRejected(Struct, frozen=True, array_like=True, tag="rejected"):
    """The group will not be trained on: it teaches nothing, its prompt was refused, or it was lost too often."""

    group: int
    attempt: int
    signal: str


RELEASED_REASON = "given back"  # by a worker that ends; this loss does not count against the group


class LeaseLost(Struct, frozen=True, array_like=True, tag="lost"):
    """The lease has ended before all answers came. again: how it waits; None: it goes on with the answers it has."""

    group: int
    attempt: int
    reason: str
    pending_group: PendingGroup | None = field(name="again")


class BatchTaken(Struct, frozen=True, array_like=True, tag="cut"):
    """A batch was taken. groups: number, attempt and birth of each, in the order in which they are trained on."""

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
