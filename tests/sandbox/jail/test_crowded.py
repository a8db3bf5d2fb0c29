"""On a busy machine, the sandbox tells a slow program from a slow machine: no correct program times out."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from busy import busy_processes

from sandbox import Limits, Outcome, Program, Sandbox
from sandbox.jail.child import RunParams
from sandbox.jail.run_spec import make_run_spec

RUN = Program("")


def make_params(wall_seconds: float, cpu_seconds: float | None = None) -> RunParams:
    return make_run_spec("run", RUN, Limits(wall_seconds=wall_seconds, cpu_seconds=cpu_seconds), seed=None).run_params


def test_a_run_is_starved_only_by_less_than_a_twentieth_of_a_processor() -> None:
    assert make_params(6).is_starved(cpu_seconds=1.4, elapsed_seconds=30.1)
    assert not make_params(6).is_starved(cpu_seconds=1.6, elapsed_seconds=30.1)


def test_a_run_is_starved_only_after_five_times_its_limit_and_ten_seconds() -> None:
    assert not make_params(6).is_starved(cpu_seconds=0, elapsed_seconds=29)
    assert not make_params(0.1).is_starved(cpu_seconds=0, elapsed_seconds=9)
    assert make_params(0.1).is_starved(cpu_seconds=0, elapsed_seconds=11)


@pytest.mark.parametrize(("wall_seconds", "cpu_seconds"), [(0.1, None), (6, None), (1, 30), (30, 1)])
def test_a_run_ends_within_max_seconds_for_any_cpu_share(wall_seconds: float, cpu_seconds: float | None) -> None:
    longest = make_params(wall_seconds, cpu_seconds).max_seconds
    for share in (0, 0.01, 0.04, 0.05, 0.1, 0.5):
        used_up = share * longest >= max(wall_seconds, cpu_seconds or 0)
        assert used_up or make_params(wall_seconds, cpu_seconds).is_starved(share * longest, longest * 1.001)


@contextmanager
def load_processor(n_processes: int) -> Iterator[None]:
    """Pin this process to one processor, and keep that busy."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        with busy_processes(n_processes):
            yield
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.thorough
def test_on_a_busy_processor_only_programs_beyond_their_limit_time_out() -> None:
    almost = "import time\nwhile time.process_time() < 0.4: pass\nprint('in time')"
    limits = Limits(wall_seconds=0.5)
    with load_processor(13), Sandbox(workers=1) as box:
        assert box.run(Program("while True: pass"), limits=limits).outcome is Outcome.TIMED_OUT
        assert box.run(Program(almost), limits=limits).stdout == b"in time\n"
        assert box.run(Program("import time\ntime.sleep(60)"), limits=limits).outcome is Outcome.TIMED_OUT
