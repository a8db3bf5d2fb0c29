"""The next turn goes to the client that has had the least, and a full queue makes room at the cost of the greediest."""

import pytest

from sandbox.service.fair_queue import FairQueue, Turn
from sandbox.service.service_errors import ShuttingDown, TooManyRequests


def entered(queue: FairQueue[Turn], client: str, *, admitted: bool = False) -> Turn:
    turn = Turn(client, admitted)
    queue.enter(turn)
    return turn


def test_turns_alternate_between_clients_however_many_requests_each_has() -> None:
    queue = FairQueue[Turn](max_running=1, max_waiting=100)
    running = entered(queue, "a")
    many = [entered(queue, "a") for _ in range(5)]
    few = [entered(queue, "b"), entered(queue, "c")]
    order = []
    while (following := queue.end(running)) is not None:
        order.append(following)
        running = following
    assert set(map(id, order[:2])) == set(map(id, few))
    assert order[2:] == many  # those of one client in order
    assert (queue.waiting, queue.n_running) == (0, 0)


def test_a_client_with_turns_in_progress_waits_for_one_without() -> None:
    queue = FairQueue[Turn](max_running=3, max_waiting=100)
    first, _, other = entered(queue, "a"), entered(queue, "a"), entered(queue, "c")
    again, new = entered(queue, "a"), entered(queue, "b")
    assert queue.n_running == 3
    assert queue.end(other) is new
    assert queue.end(first) is again


def test_a_full_queue_turns_away_the_last_request_of_the_greediest_client() -> None:
    queue = FairQueue[Turn](max_running=1, max_waiting=4)
    entered(queue, "a")
    greedy = [entered(queue, "a") for _ in range(2)]
    later_parts = [entered(queue, "a", admitted=True) for _ in range(2)]
    assert queue.make_room("b") is greedy[-1]
    entered(queue, "b")
    with pytest.raises(TooManyRequests):
        queue.make_room("a")
    assert queue.make_room("c") is greedy[0]
    entered(queue, "c")
    with pytest.raises(TooManyRequests):  # what is left of the greediest has been admitted as a whole
        queue.make_room("d")
    assert queue.waiting == 4
    waiting = queue.drop_waiting()
    assert all(turn in waiting for turn in later_parts)


def test_a_turn_that_leaves_is_passed_over() -> None:
    queue = FairQueue[Turn](max_running=1, max_waiting=4)
    running, leaving, last = entered(queue, "a"), entered(queue, "b"), entered(queue, "c")
    queue.leave(leaving)
    assert queue.end(running) is last
    assert queue.end(last) is None


def test_no_one_may_wait_once_the_service_stops() -> None:
    queue = FairQueue[Turn](max_running=1, max_waiting=4)
    running, waiting = entered(queue, "a"), entered(queue, "b")
    assert queue.drop_waiting() == [waiting]
    assert queue.end(running) is None
    with pytest.raises(ShuttingDown):
        queue.make_room("a")
