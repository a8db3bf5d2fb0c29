"""The controller under faults that chance decides: nothing too old is trained on, and no prompt is lost or doubled."""

import logging
from collections import Counter

import chaos
import pytest
from fleet import MemoryJournal
from journal_audit import audit_journal


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """Faults are logged, and there are very many."""
    caplog.set_level(logging.CRITICAL)


def run_and_audit(seed, *, steps=6, max_faults=120, **settings):
    journal = MemoryJournal()
    run = chaos.Run(seed, steps=steps, journal=journal, max_faults=max_faults, **settings)
    run.run()
    result = audit_journal(journal.archive, staleness=run.settings.max_staleness)
    assert result.findings == []
    assert max(Counter(run.used()).values(), default=1) == 1
    assert result.n_used == len(run.used())
    assert result.n_dispatched == result.n_used + sum(result.rejection_counts.values()) + result.n_open
    assert result.n_dispatched == run.controller.position
    return run, result


def test_nothing_is_too_old_lost_or_doubled_in_a_hundred_schedules():
    runs = [run_and_audit(seed) for seed in range(100)]
    assert sum(run.restarts for run, _ in runs) > 30
    assert sum(result.rejection_counts.get("lost", 0) for _, result in runs) > 3
    assert max(result.max_staleness for _, result in runs) == 4


@pytest.mark.thorough
def test_nothing_is_too_old_lost_or_doubled_in_eight_hundred_schedules():
    for seed in range(100, 900):
        run_and_audit(seed)


@pytest.mark.thorough
@pytest.mark.parametrize("staleness", [2])
def test_nothing_is_too_old_lost_or_doubled_in_two_thousand_steps(staleness):
    run, result = run_and_audit(
        0, steps=2_000, max_faults=10**7, prompts_per_batch=2, completions_per_prompt=2, max_staleness=staleness,
        online_filter=True, max_rounds=100, max_running_groups=0,
    )  # fmt: skip
    assert result.n_batches == len(run.trained) == 2_000
    assert result.n_used == 4_000
    assert run.restarts > 200
