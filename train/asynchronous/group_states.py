"""The states of groups, as a pure state machine over the events of the journal.

    waiting -> leased -> finished -> scored -> ready -> used
       ^         |                      |
       +- lost --+                      +-> rejected

A lost group waits for its next attempt, with the same prompt and seeds, and a new start version. A group lost for the
second time keeps the completions it has; the learner treats missing ones as completions with unknown rewards. Used and
rejected groups are dropped.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from rewards.form import compute_task_reward
from train.asynchronous import events, staleness
from train.asynchronous.events import Event, GroupDispatched, PendingGroup, ResultScored
from train.asynchronous.messages import SampleResult, unpack_logprobs, unpack_tokens
from train.rollouts.groups import Group, Rollout


class GroupState(Enum):
    LEASED = "leased"  # a worker samples it
    FINISHED = "finished"  # all completions have arrived
    SCORED = "scored"  # all rewards have arrived
    READY = "ready"  # trainable


@dataclass(slots=True)
class OpenGroup:
    """A group from its dispatch until it is used, lost or rejected."""

    dispatched: GroupDispatched
    state: GroupState = GroupState.LEASED
    results: dict[int, events.ResultReceived] = field(default_factory=dict)
    scores: dict[int, ResultScored] = field(default_factory=dict)

    def compute_task_rewards(self) -> list[tuple[float, bool]]:
        """Return each completion's task reward, nan if unknown, and whether it was truncated."""
        scores = [self.scores[number] for number in sorted(self.results)]
        rewards = [
            compute_task_reward(_convert_none_to_nan(scored.reward), scored.reward_components) for scored in scores
        ]
        truncated = [received.result.finish_reason == "length" for _, received in sorted(self.results.items())]
        return list(zip(rewards, truncated, strict=True))

    def list_step_rewards(self) -> list[list[float]]:
        """Return each completion's step rewards."""
        return [[value for _, value in self.scores[number].step_rewards] for number in sorted(self.results)]

    def build_rollouts(self) -> Group:
        """Return the rollouts for the learner. All completions must be scored."""
        prompt_ids = tuple(unpack_tokens(self.dispatched.prompt))
        return tuple(
            self._build_rollout(prompt_ids, received.result, received.text, self.scores[number])
            for number, received in sorted(self.results.items())
        )

    def _build_rollout(
        self, prompt_ids: tuple[int, ...], result: SampleResult, text: str, scored: ResultScored
    ) -> Rollout:
        return Rollout(
            problem_id=self.dispatched.problem_id,
            prompt_ids=prompt_ids,
            token_ids=tuple(unpack_tokens(result.tokens)),
            logprobs=tuple(unpack_logprobs(result.logprobs)),
            versions=tuple(version for version, start, end in result.spans for _ in range(start, end)),
            truncated=result.finish_reason == "length",
            text=text,
            reward=_convert_none_to_nan(scored.reward),
            verdict=scored.verdict,
            reward_seconds=scored.seconds,
            source=self.dispatched.source,
            reward_components=scored.reward_components,
            step_rewards=scored.step_rewards,
        )


def _convert_none_to_nan(value: float | None) -> float:
    return math.nan if value is None else value


MAX_TIMES_LOST = 2


class Groups:
    """The groups of a run that are neither used nor rejected.

    open           groups by number, except lost groups that wait for their next attempt
    waiting        these lost groups, by number
    batches_taken  number of batches taken
    next_group     number of the next new group
    next_position  position in the data of that group's prompt
    signal_counts  groups accepted or rejected since the last batch, by signal
    n_rejected     groups rejected since the last batch or resumption
    """

    def __init__(self, *, batches: int = 0, next_group: int = 0, next_position: int = 0) -> None:
        self.open: dict[int, OpenGroup] = {}
        self.waiting: dict[int, PendingGroup] = {}
        self.batches_taken = batches
        self.next_group = next_group
        self.next_position = next_position
        self.signal_counts: Counter[str] = Counter()
        self.n_rejected = 0

    def compute_capacity(self, loaded_version: int, *, prompts: int, max_staleness: int, steps: int) -> int:
        """Return the result of `staleness.compute_dispatch_capacity` for a worker with this version."""
        return staleness.compute_dispatch_capacity(
            loaded_version, self.batches_taken, len(self.open), prompts=prompts, staleness=max_staleness, steps=steps
        )

    def peek_next_group(self) -> PendingGroup:
        """Return the next group to dispatch: a lost one first, otherwise a new one."""
        if self.waiting:
            return self.waiting[min(self.waiting)]
        return PendingGroup(self.next_group, 0, self.next_position, 0)

    def select_batch(self, *, prompts: int, max_staleness: int, allow_partial: bool) -> list[int] | None:
        """Return the group numbers of the next batch; None if it is incomplete. See `staleness.select_batch`."""
        return staleness.select_batch(
            self.batches_taken,
            [
                (group.dispatched.start_version, number)
                for number, group in self.open.items()
                if group.state is GroupState.READY
            ],
            [group.dispatched.start_version for group in self.open.values()],
            prompts=prompts,
            staleness=max_staleness,
            allow_partial=allow_partial,
        )

    def build_segment_header(self) -> events.SegmentStarted:
        """Return the first event of a new segment of the journal."""
        return events.SegmentStarted(
            self.batches_taken, self.next_group, self.next_position, tuple(self.waiting.values())
        )

    def build_open_events(self) -> Iterator[Event]:
        """Yield the events that restore the open groups, without GroupAccepted events."""
        for group in self.open.values():
            yield group.dispatched
            yield from group.results.values()
            yield from group.scores.values()

    @property
    def n_leased(self) -> int:
        return sum(group.state is GroupState.LEASED for group in self.open.values())

    def build_resumption_event(self, step: int) -> events.RunResumed:
        """Return the event of a resumption, which puts leased groups back into the queue."""
        leased = self.list_groups_in_state(GroupState.LEASED)
        return events.RunResumed(
            step, tuple(_create_next_attempt(group.dispatched, n_lost=group.dispatched.n_lost) for group in leased)
        )

    def build_lease_lost_event(self, number: int, attempt: int, reason: str) -> events.LeaseLost | None:
        """Return the event of a lost lease; None if the group is not leased in this attempt."""
        group = self._find_group(number, attempt)
        if group is None or group.state is not GroupState.LEASED:
            return None
        n_lost = group.dispatched.n_lost + (reason != events.RELEASED_REASON)
        pending = _create_next_attempt(group.dispatched, n_lost=n_lost) if n_lost < MAX_TIMES_LOST else None
        return events.LeaseLost(number, attempt, reason, pending)

    def list_groups_in_state(self, state: GroupState) -> list[OpenGroup]:
        return [group for group in self.open.values() if group.state is state]

    def apply(self, event: Event) -> OpenGroup | None:
        """Apply an event, and return its group if it is open.

        Ignores events about an attempt other than the current one.
        """
        match event:
            case events.SegmentStarted():
                self._start_segment(event)
            case events.RunResumed():
                self._resume(event)
            case events.BatchTaken():
                self.take(event)
            case events.GroupDispatched():
                return self._dispatch(event)
            case events.LeaseLost(pending_group=PendingGroup() as pending):
                group = self._find_group(event.group, event.attempt)
                self.open.pop(event.group, None)
                self.waiting[event.group] = pending
                return group
            case events.ResultReceived(result=result):
                return self._apply_to_group(self._find_group(result.group, result.attempt), event)
            case events.ResultScored() | events.GroupAccepted() | events.GroupRejected() | events.LeaseLost():
                return self._apply_to_group(self._find_group(event.group, event.attempt), event)
        return None

    def take(self, batch: events.BatchTaken) -> list[OpenGroup]:
        """Remove and return the groups of a batch, in the order of the batch."""
        self.batches_taken = batch.version + 1
        self.signal_counts.clear()
        self.n_rejected = 0
        return [self.open.pop(number) for number, _, _ in batch.groups if number in self.open]

    def _find_group(self, number: int, attempt: int) -> OpenGroup | None:
        group = self.open.get(number)
        return group if group is not None and group.dispatched.attempt == attempt else None

    def _start_segment(self, header: events.SegmentStarted) -> None:
        if header.batches_taken != self.batches_taken:  # the journal lacks batches, so open groups are lost
            self.open.clear()
            self.signal_counts.clear()
            self.n_rejected = 0
        self.batches_taken, self.next_group = header.batches_taken, header.next_group
        self.next_position = header.next_position
        self.waiting = {pending.group: pending for pending in header.pending_groups}

    def _resume(self, resumed: events.RunResumed) -> None:
        for pending in resumed.pending_groups:
            self.open.pop(pending.group, None)
            self.waiting[pending.group] = pending
        # Otherwise a run that ended because no group had a signal would end again immediately.
        self.signal_counts.clear()
        self.n_rejected = 0

    def _dispatch(self, dispatched: GroupDispatched) -> OpenGroup:
        self.waiting.pop(dispatched.group, None)
        self.next_group = max(self.next_group, dispatched.group + 1)
        self.next_position = max(self.next_position, dispatched.position + 1)
        self.open[dispatched.group] = OpenGroup(dispatched)
        return self.open[dispatched.group]

    def _apply_to_group(self, group: OpenGroup | None, event: Event) -> OpenGroup | None:
        if group is None:
            return None
        match event:
            case events.ResultReceived() if group.state is GroupState.LEASED:
                group.results.setdefault(event.result.number, event)
                if len(group.results) == group.dispatched.n_completions:
                    _advance(group)
            case ResultScored() if event.number in group.results:
                group.scores.setdefault(event.number, event)
                if group.state is GroupState.FINISHED:
                    _advance(group)
            case events.LeaseLost():
                _advance(group)
            case events.GroupAccepted(signal=signal):
                group.state = GroupState.READY
                self.signal_counts[signal] += 1
            case events.GroupRejected(signal=signal):
                del self.open[group.dispatched.group]
                self.signal_counts[signal] += 1
                self.n_rejected += 1
        return group


def _create_next_attempt(dispatched: GroupDispatched, *, n_lost: int) -> PendingGroup:
    return PendingGroup(dispatched.group, dispatched.attempt + 1, dispatched.position, n_lost)


def _advance(group: OpenGroup) -> None:
    """Move a group without outstanding completions to SCORED if all have scores, else to FINISHED."""
    group.state = GroupState.SCORED if len(group.scores) == len(group.results) else GroupState.FINISHED
