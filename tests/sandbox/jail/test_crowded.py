"""On a machine that is too busy, a slow program is told from a slow machine: no right answer becomes a time limit."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from busy import busy_processes

from sandbox import Limits, Outcome, Program, Sandbox
from sandbox.jail.child import RunParams
from sandbox.jail.run_spec import make_run_spec

RUN = Program("")


def job(wall_seconds: float, cpu_seconds: float | None = None) -> RunParams:
    return make_run_spec("run", RUN, Limits(wall_seconds=wall_seconds, cpu_seconds=cpu_seconds), seed=None).run_params


def test_a_run_is_starved_only_by_less_than_a_twentieth_of_a_processor() -> None:
    assert job(6).is_starved(cpu_seconds=1.4, elapsed_seconds=30.1)
    assert not job(6).is_starved(cpu_seconds=1.6, elapsed_seconds=30.1)


def test_a_run_has_five_times_its_limit_and_ten_seconds_at_least_before_it_can_be_starved() -> None:
    assert not job(6).is_starved(cpu_seconds=0, elapsed_seconds=29)
    assert not job(0.1).is_starved(cpu_seconds=0, elapsed_seconds=9)
    assert job(0.1).is_starved(cpu_seconds=0, elapsed_seconds=11)


@pytest.mark.parametrize(("wall_seconds", "cpu_seconds"), [(0.1, None), (6, None), (1, 30), (30, 1)])
def test_a_run_ends_within_its_longest_time_whatever_it_gets(wall_seconds: float, cpu_seconds: float | None) -> None:
    longest = job(wall_seconds, cpu_seconds).max_seconds
    for share in (0, 0.01, 0.04, 0.05, 0.1, 0.5):
        used_up = share * longest >= max(wall_seconds, cpu_seconds or 0)
        assert used_up or job(wall_seconds, cpu_seconds).is_starved(share * longest, longest * 1.001)


@contextmanager
def crowd(n_processes: int) -> Iterator[None]:
    """Keep one processor busy, and pin this process to it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        with busy_processes(n_processes):
            yield
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.thorough
def test_in_a_crowd_an_endless_loop_is_a_time_limit_and_a_program_within_its_limit_is_not() -> None:
    almost = "import time\nwhile time.process_time() < 0.4: pass\nprint('in time')"
    limits = Limits(wall_seconds=0.5)
    with crowd(13), Sandbox(workers=1) as box:
        assert box.run(Program("while True: pass"), limits=limits).outcome is Outcome.TIMED_OUT
        assert box.run(Program(almost), limits=limits).stdout == b"in time\n"
        assert box.run(Program("import time\ntime.sleep(60)"), limits=limits).outcome is Outcome.TIMED_OUT
