"""The dispatcher sends requests to lanes in order; each request gets one response, even if lanes are lost.

The lanes of these tests respond on demand.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from typing import Any

import pytest

from sandbox import Cancelled, ExecutionLost, Program, SandboxError
from sandbox.backends._dispatch import Job, Lane, LaneLost, RequestDispatcher
from sandbox.errors import KilledExternally
from sandbox.request import RunRequest

NOTHING = RunRequest(Program(""))


class ScriptedLane(Lane):
    """A lane that records its requests, and responds on demand."""

    layers: dict[str, str] = {}

    def __init__(self, name: str, workers: int = 1, slots: int = 1, max_failures: int = 1) -> None:
        super().__init__(workers=workers, slots=slots, name=name)
        self.max_failures = max_failures
        self.got: list[Job] = []
        self.cancelled: list[Job] = []
        self.ended = ""

    def open(self) -> None: ...

    def send(self, jobs: Sequence[Job]) -> None:
        self.got += jobs

    def cancel(self, job: Job) -> None:
        self.cancelled.append(job)

    def join(self, why: str) -> str:
        self.ended = why
        return why

    def answers(self, *answers: Any) -> None:
        """Respond to the oldest requests."""
        jobs, self.got = self.got[: len(answers)], self.got[len(answers) :]
        self.dispatcher.deliver((self, job, answer) for job, answer in zip(jobs, answers, strict=True))


@pytest.fixture
def dispatcher() -> Iterator[RequestDispatcher]:
    dispatcher = RequestDispatcher()
    yield dispatcher
    dispatcher.close()


def attach(dispatcher: RequestDispatcher, *lanes: ScriptedLane) -> tuple[ScriptedLane, ...]:
    for lane in lanes:
        dispatcher.attach(lane)
    return lanes


def submit(dispatcher: RequestDispatcher, count: int = 1) -> list["Future[Any]"]:
    answers: list[Future[Any]] = [Future() for _ in range(count)]
    for answer in answers:
        dispatcher.submit(NOTHING, answer.set_result)
    return answers


def lose(lane: ScriptedLane, why: str = "gone") -> None:
    """Lose a lane, and wait until other lanes have its requests."""
    lane.dispatcher.drop_lane(lane, why)
    wait_for_helpers(lane.dispatcher)


def wait_for_helpers(dispatcher: RequestDispatcher) -> None:
    """Wait until no lane is being started or ended."""
    with dispatcher._changed:
        assert dispatcher._changed.wait_for(lambda: not dispatcher._n_helpers, 20)


def test_idle_workers_get_requests_before_busy_lanes(dispatcher: RequestDispatcher) -> None:
    a, b = attach(dispatcher, ScriptedLane("a", 4, 5), ScriptedLane("b", 4, 5))
    submit(dispatcher, 8 + 8)
    assert (len(a.got), len(b.got)) == (4, 4)  # the others would find an idle worker soon, wherever that is
    submit(dispatcher, 2)
    assert (len(a.got), len(b.got)) == (5, 5)  # now so many wait that lanes take some ahead
    b.answers("first", "second")
    assert (len(a.got), len(b.got)) == (5, 4)


def test_a_batch_of_responses_frees_as_many_slots(dispatcher: RequestDispatcher) -> None:
    (lane,) = attach(dispatcher, ScriptedLane("a", 3, 3))
    answers = submit(dispatcher, 6)
    lane.answers(1, 2, 3)
    assert len(lane.got) == 3
    lane.answers(4, ValueError("five"), 6)
    assert [repr(answer.result()) for answer in answers] == ["1", "2", "3", "4", "ValueError('five')", "6"]


class ExitedLane(ScriptedLane):
    """A lane that exited while it was idle, unnoticed until the next request."""

    def send(self, jobs: Sequence[Job]) -> None:
        raise LaneLost("it exited while it was idle")


def test_lanes_lost_while_idle_do_not_count_as_attempts(dispatcher: RequestDispatcher) -> None:
    *ended, alive = attach(dispatcher, ScriptedLane("alive"), *(ExitedLane("ended") for _ in range(5)))[::-1]
    answers = submit(dispatcher, 2)
    wait_for_helpers(dispatcher)
    assert [lane.ended for lane in ended] == ["it exited while it was idle"] * 5
    alive.answers(1)
    alive.answers(2)
    assert [answer.result(20) for answer in answers] == [1, 2]


def test_a_lost_request_goes_to_another_lane_before_those_that_came_later(dispatcher: RequestDispatcher) -> None:
    a, b = attach(dispatcher, ScriptedLane("a", 2, 2), ScriptedLane("b"))
    answers = submit(dispatcher, 5)
    assert len(a.got) == 2
    lost = list(a.got)
    lose(a)
    attach(dispatcher, again := ScriptedLane("a"))
    assert not set(again.got) & set(lost)  # the node on which they were lost gets others
    b.answers("b's own")
    assert b.got == lost[:1]
    b.answers("lost")
    assert b.got == lost[1:]
    assert sum(answer.done() for answer in answers) == 2


def test_without_another_lane_a_lost_request_goes_to_the_same_one_three_times(dispatcher: RequestDispatcher) -> None:
    (answer,) = submit(dispatcher)
    for number in range(3):
        assert not answer.done()
        (lane,) = attach(dispatcher, ScriptedLane("a"))
        lose(lane, f"reason {number}")
    assert isinstance(answer.result(), ExecutionLost)
    assert "3 sandbox workers exited while running the same request: reason 2" in str(answer.result())


@pytest.mark.parametrize(
    ("error", "lanes"), [(ExecutionLost("e"), 1), (KilledExternally("k"), 2)], ids=["lost", "killed"]
)
def test_a_lane_that_lost_a_run_is_ended_before_its_answer_counts(
    dispatcher: RequestDispatcher, error: SandboxError, lanes: int
) -> None:
    (answer,) = submit(dispatcher)
    for _ in range(lanes):
        assert not answer.done()
        (lane,) = attach(dispatcher, ScriptedLane("a"))
        lane.answers(error)
        wait_for_helpers(dispatcher)
        assert lane.ended == "it failed 1 times in a row"
    assert answer.result(20) is error


def test_a_worker_that_dies_and_a_program_that_is_killed_are_counted_apart(dispatcher: RequestDispatcher) -> None:
    (answer,) = submit(dispatcher)
    for _ in range(2):
        (lane,) = attach(dispatcher, ScriptedLane("a"))
        lose(lane)
    (lane,) = attach(dispatcher, ScriptedLane("a"))
    lane.answers(KilledExternally("once"))
    lose(lane)
    (lane,) = attach(dispatcher, ScriptedLane("a"))
    lane.answers("judged")
    assert answer.result(20) == "judged"


def test_only_failures_in_a_row_end_a_lane(dispatcher: RequestDispatcher) -> None:
    (lane,) = attach(dispatcher, ScriptedLane("a", 4, 4, max_failures=2))
    answers = submit(dispatcher, 4)
    failed = ExecutionLost("no memory")
    lane.answers(failed, "well", failed)
    ended = lane.ended
    lane.answers(failed)
    wait_for_helpers(dispatcher)
    assert (ended, lane.ended) == ("", "it failed 2 times in a row")
    wait(answers, 20)
    assert [answer.result() for answer in answers] == [failed, "well", failed, failed]


def test_a_request_that_is_cancelled_while_it_runs_raises_cancelled_even_if_its_lane_is_lost(
    dispatcher: RequestDispatcher,
) -> None:
    (lane,) = attach(dispatcher, ScriptedLane("a", 3, 3))
    answers = submit(dispatcher, 3)
    jobs = list(lane.got)
    for job in jobs:
        dispatcher.cancel(job)
    assert lane.cancelled == jobs
    lane.answers(SandboxError("killed"), "it had ended before")
    lose(lane)
    assert isinstance(answers[0].result(20), Cancelled)
    assert answers[1].result(20) == "it had ended before"
    assert isinstance(answers[2].result(20), Cancelled)


def test_a_lane_that_cannot_be_sent_to_is_lost_and_a_request_that_cannot_be_sent_is_answered(
    dispatcher: RequestDispatcher,
) -> None:
    class Refusing(ScriptedLane):
        def send(self, jobs: Sequence[Job]) -> None:
            raise next(errors)

    errors = iter([TypeError("what is this?"), BrokenPipeError("hung up")])
    attach(dispatcher, lane := Refusing("a"))
    first, second = submit(dispatcher, 2)
    assert isinstance(first.result(), TypeError)
    (other,) = attach(dispatcher, ScriptedLane("b"))
    wait_for_helpers(dispatcher)
    assert lane.ended == "hung up"
    other.answers("judged")
    assert second.result(20) == "judged"


def test_lanes_are_started_when_requests_wait_and_no_more_than_allowed() -> None:
    started: list[ScriptedLane] = []

    def start() -> Lane:
        started.append(ScriptedLane(""))
        return started[-1]

    dispatcher = RequestDispatcher(start, max_lanes=2)
    answers = submit(dispatcher, 1)
    wait_for_helpers(dispatcher)
    assert len(started) == 1
    answers += submit(dispatcher, 3)
    wait_for_helpers(dispatcher)
    assert len(started) == 2
    for _ in range(2):
        for lane in started:
            lane.answers("judged")
    assert [answer.result(20) for answer in answers] == ["judged"] * 4
    dispatcher.close()
    assert all(lane.ended for lane in started)


def test_a_lane_that_cannot_be_started_is_an_error_of_the_request_that_waits_for_it() -> None:
    attempts = []

    def start() -> Lane:
        attempts.append(1)
        raise LaneLost("no room")

    dispatcher = RequestDispatcher(start, max_lanes=1)
    for answer in submit(dispatcher, 2):
        assert "3 sandbox workers exited during their start: no room" in str(answer.result(20))
    assert len(attempts) == 6
    dispatcher.close()


def test_whoever_waits_when_it_stops_gets_the_reason_and_later_lanes_are_ended(dispatcher: RequestDispatcher) -> None:
    attach(dispatcher, ScriptedLane("a"))
    answers = submit(dispatcher, 2)
    dispatcher.stop(SandboxError("the head is gone"))
    answers += submit(dispatcher)
    assert [str(answer.result(20)) for answer in answers] == ["the head is gone"] * 3
    (late,) = attach(dispatcher, ScriptedLane("b"))
    assert late.ended == "the head is gone"
