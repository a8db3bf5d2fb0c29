"""The states of groups: events in, the group that changed out. There is no clock, no file and no thread here.

    waiting -> leased -> finished -> scored -> ready -> used
       ^         |                      |
       +- lost --+                      +-> rejected

A group that is lost waits to be asked again: with the same position, so the same prompt and seeds, but as the next
attempt and with a new birth. A group that is lost for the second time goes on with the answers that it has. The missing
ones are left out, which for the learner is the same as an unknown reward. Groups that are used or rejected are
forgotten.
"""

from collections import Counter

from train.asynchronous.groups import events, staleness
from train.asynchronous.groups.events import Asked, Event, Scored, Waiting
from train.asynchronous.groups.open_group import OpenGroup, State

MOST_LOSSES = 2


class Groups:
    """All groups of a run that are neither used nor rejected.

    open           groups by number, without those that wait to be asked again
    waiting        these, the oldest first
    cuts           batches taken so far
    next_group     number of the next new group
    next_position  position in the data of its prompt
    lessons        what the groups since the last cut teach, by the words of Accepted and Rejected
    n_rejected     groups that were rejected since the last cut, or since the run was resumed
    """

    def __init__(self, *, cuts: int = 0, next_group: int = 0, next_position: int = 0) -> None:
        self.open: dict[int, OpenGroup] = {}
        self.waiting: dict[int, Waiting] = {}
        self.cuts = cuts
        self.next_group = next_group
        self.next_position = next_position
        self.lessons: Counter[str] = Counter()
        self.n_rejected = 0

    def capacity(self, loaded: int, *, prompts: int, most_stale: int, steps: int) -> int:
        """Return how many groups a worker with this version may be given."""
        return staleness.capacity(loaded, self.cuts, len(self.open), prompts=prompts, staleness=most_stale, steps=steps)

    def to_ask(self) -> Waiting:
        """Return the group that is to be asked next: one that was lost, or a new one."""
        if self.waiting:
            return self.waiting[min(self.waiting)]
        return Waiting(self.next_group, 0, self.next_position, 0)

    def to_cut(self, *, prompts: int, most_stale: int, short: bool) -> list[int] | None:
        """Return the numbers of the groups that can be trained on now, or None; see staleness.cut."""
        return staleness.cut(
            self.cuts,
            [(group.asked.birth, number) for number, group in self.open.items() if group.state is State.READY],
            [group.asked.birth for group in self.open.values()],
            prompts=prompts,
            staleness=most_stale,
            short=short,
        )

    def header(self) -> events.Begun:
        """Return what a segment of the journal that begins now has to say."""
        return events.Begun(self.cuts, self.next_group, self.next_position, tuple(self.waiting.values()))

    @property
    def n_leased(self) -> int:
        return sum(group.state is State.LEASED for group in self.open.values())

    def resumed(self, step: int) -> events.Resumed:
        """Return the event that the controller starts again: what is being sampled will be lost."""
        leased = self.in_state(State.LEASED)
        return events.Resumed(step, tuple(_again(group.asked, losses=group.asked.losses) for group in leased))

    def lost(self, number: int, attempt: int, reason: str) -> events.Lost | None:
        """Return the event that a lease ends before all answers came, or None if they did."""
        group = self._current(number, attempt)
        if group is None or group.state is not State.LEASED:
            return None
        losses = group.asked.losses + (reason != events.GIVEN_BACK)
        return events.Lost(
            number, attempt, reason, _again(group.asked, losses=losses) if losses < MOST_LOSSES else None
        )

    def in_state(self, state: State) -> list[OpenGroup]:
        return [group for group in self.open.values() if group.state is state]

    def apply(self, event: Event) -> OpenGroup | None:
        """Change the state as the event says, and return its group, if it has one that is still known.

        Events about another attempt than the current one change nothing.
        """
        match event:
            case events.Begun():
                self._begin(event)
            case events.Resumed():
                self._resume(event)
            case events.Asked():
                return self._ask(event)
            case events.Answered(answer=answer):
                return self._answer(self._current(answer.group, answer.attempt), event)
            case events.Scored():
                return self._score(self._current(event.group, event.attempt), event)
            case events.Accepted():
                return self._accept(self._current(event.group, event.attempt), event.lesson)
            case events.Rejected():
                return self._reject(self._current(event.group, event.attempt), event.lesson)
            case events.Lost():
                return self._lose(self._current(event.group, event.attempt), event)
            case events.Cut():
                self.take(event)
        return None

    def take(self, cut: events.Cut) -> list[OpenGroup]:
        """Take the groups of a cut, and return them in its order."""
        self.cuts = cut.version + 1
        self.lessons.clear()
        self.n_rejected = 0
        return [self.open.pop(number) for number, _, _ in cut.groups if number in self.open]

    def _current(self, number: int, attempt: int) -> OpenGroup | None:
        group = self.open.get(number)
        return group if group is not None and group.asked.attempt == attempt else None

    def _begin(self, begun: events.Begun) -> None:
        if begun.cuts != self.cuts:  # batches were taken without this journal: what was open is given up
            self.open.clear()
            self.lessons.clear()
            self.n_rejected = 0
        self.cuts, self.next_group, self.next_position = begun.cuts, begun.next_group, begun.next_position
        self.waiting = {waiting.group: waiting for waiting in begun.waiting}

    def _resume(self, resumed: events.Resumed) -> None:
        for waiting in resumed.waiting:
            self.open.pop(waiting.group, None)
            self.waiting[waiting.group] = waiting
        # Otherwise a run that ended because nothing taught anything would end again at once.
        self.lessons.clear()
        self.n_rejected = 0

    def _ask(self, asked: Asked) -> OpenGroup:
        self.waiting.pop(asked.group, None)
        self.next_group = max(self.next_group, asked.group + 1)
        self.next_position = max(self.next_position, asked.position + 1)
        group = self.open[asked.group] = OpenGroup(asked)
        return group

    def _answer(self, group: OpenGroup | None, answered: events.Answered) -> OpenGroup | None:
        if group is not None and group.state is State.LEASED:
            group.answers.setdefault(answered.answer.number, answered)
            if len(group.answers) == group.asked.completions:
                _advance(group)
        return group

    def _score(self, group: OpenGroup | None, scored: Scored) -> OpenGroup | None:
        if group is not None and scored.number in group.answers:
            group.scores.setdefault(scored.number, scored)
            if group.state is State.FINISHED:
                _advance(group)
        return group

    def _accept(self, group: OpenGroup | None, lesson: str) -> OpenGroup | None:
        if group is not None:
            group.state = State.READY
            self.lessons[lesson] += 1
        return group

    def _reject(self, group: OpenGroup | None, lesson: str) -> OpenGroup | None:
        if group is not None:
            del self.open[group.asked.group]
            self.lessons[lesson] += 1
            self.n_rejected += 1
        return group

    def _lose(self, group: OpenGroup | None, lost: events.Lost) -> OpenGroup | None:
        if lost.again is not None:
            self.open.pop(lost.group, None)
            self.waiting[lost.group] = lost.again
        elif group is not None:
            _advance(group)
        return group


def _again(asked: Asked, *, losses: int) -> Waiting:
    return Waiting(asked.group, asked.attempt + 1, asked.position, losses)


def _advance(group: OpenGroup) -> None:
    """No further answers come: the group is finished, and scored if all that it has is scored."""
    group.state = State.SCORED if len(group.scores) == len(group.answers) else State.FINISHED
