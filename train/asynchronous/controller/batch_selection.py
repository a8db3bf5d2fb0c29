"""The next batch: which groups are in it, and when it is ready."""

from math import isnan

from train.asynchronous.controller.settings import ControllerSettings
from train.asynchronous.groups.open_group import GroupState, OpenGroup
from train.asynchronous.groups.states import Groups
from train.rollouts.batch_collector import signal_from_rewards

_LOST = "lost"


def next_batch(groups: Groups, settings: ControllerSettings) -> list[OpenGroup] | None:
    """Return the groups that can be trained on now, or None if they are not ready.

    The list is empty if nothing can be learned: max_rounds rounds of groups taught nothing, or no reward is known. Such
    a cut is not recorded, since a recorded one would end the run again whenever it is resumed.
    """
    n_most_rejected = settings.max_rounds * settings.prompts_per_batch
    if groups.n_rejected >= n_most_rejected and not groups.groups_in_state(GroupState.READY):
        return []
    short = groups.n_rejected > n_most_rejected - settings.prompts_per_batch
    numbers = groups.select_batch(
        prompts=settings.prompts_per_batch, max_staleness=settings.max_staleness, allow_partial=short
    )
    if numbers is None:
        return None
    batch = [groups.open[number] for number in numbers]
    return [] if all(has_no_known_reward(group) for group in batch) else batch


def rejection_reason(group: OpenGroup, taught: str, settings: ControllerSettings) -> str:
    """Return why a scored group that taught this (`open_group_signal`) is given up, or "" if it can be trained on."""
    return taught if not group.answers or (settings.online_filter and taught != "some") else ""


def open_group_signal(group: OpenGroup, settings: ControllerSettings) -> str:
    """Return what a scored group teaches (train.rollouts.batch_collector.signal_from_rewards), or "lost" if all of its
    answers were lost."""
    if not group.answers:
        return _LOST
    of_steps = group.step_rewards() if settings.process_supervision else ()
    return signal_from_rewards(group.rewards(), count_truncated=settings.count_truncated_rewards, step_rewards=of_steps)


def has_no_known_reward(group: OpenGroup) -> bool:
    """Return whether no reward of the group is known."""
    return all(isnan(value) for value, _ in group.rewards())
