"""The next batch: which groups are in it, and when it is ready."""

from math import isnan

from train.asynchronous.controller.settings import Settings
from train.asynchronous.groups.open_group import OpenGroup, State
from train.asynchronous.groups.states import Groups
from train.rollouts.batch import lesson

_LOST = "lost"


def next_batch(groups: Groups, settings: Settings) -> list[OpenGroup] | None:
    """Return the groups that can be trained on now, or None if they are not ready.

    The list is empty if nothing can be learned: max_rounds rounds of groups taught nothing, or no reward is known. Such
    a cut is not recorded, since a recorded one would end the run again whenever it is resumed.
    """
    n_most_rejected = settings.max_rounds * settings.prompts
    if groups.n_rejected >= n_most_rejected and not groups.in_state(State.READY):
        return []
    short = groups.n_rejected > n_most_rejected - settings.prompts
    numbers = groups.to_cut(prompts=settings.prompts, most_stale=settings.staleness, short=short)
    if numbers is None:
        return None
    batch = [groups.open[number] for number in numbers]
    return [] if all(is_unknown(group) for group in batch) else batch


def reason_to_reject(group: OpenGroup, taught: str, settings: Settings) -> str:
    """Return why a scored group that taught this (`lesson_of`) is given up, or "" if it can be trained on."""
    return taught if not group.answers or (settings.online_filter and taught != "some") else ""


def lesson_of(group: OpenGroup, settings: Settings) -> str:
    """Return what a scored group teaches (train.rollouts.batch.lesson), or "lost" if all of its answers were lost."""
    if not group.answers:
        return _LOST
    of_steps = group.rewards_of_steps() if settings.process else ()
    return lesson(group.rewards(), cut_off_known=settings.cut_off_known, of_steps=of_steps)


def is_unknown(group: OpenGroup) -> bool:
    """Return whether no reward of the group is known."""
    return all(isnan(value) for value, _ in group.rewards())
