"""Engines that die are started again, but not without end."""

from train.child import RestartBudget


def test_engines_may_be_started_again_so_many_times_within_an_hour():
    budget = RestartBudget(2)
    assert [budget.spend(now) for now in (0, 10, 20, 3000, 3601, 3605, 3611)] == [
        True, True, False, False, True, False, True,
    ]  # fmt: skip
    assert not RestartBudget(0).spend(0)
