"""A free slot goes to the client with the least usage, and a full queue evicts an entry of the longest client."""

import pytest

from sandbox.service.fair_queue import FairQueue, QueueEntry
from sandbox.service.service_errors import ServiceShutdown, TooManyRequests


def add_entry(queue: FairQueue[QueueEntry], client: str, *, is_admitted: bool = False) -> QueueEntry:
    entry = QueueEntry(client, is_admitted)
    queue.add(entry)
    return entry


def test_slots_alternate_between_clients_with_many_and_few_requests() -> None:
    queue = FairQueue[QueueEntry](max_running=1, max_waiting=100)
    running = add_entry(queue, "a")
    many = [add_entry(queue, "a") for _ in range(5)]
    few = [add_entry(queue, "b"), add_entry(queue, "c")]
    order = []
    while (following := queue.finish(running)) is not None:
        order.append(following)
        running = following
    assert set(map(id, order[:2])) == set(map(id, few))
    assert order[2:] == many  # one client's requests stay in order
    assert (queue.n_waiting, queue.n_running) == (0, 0)


def test_a_client_with_running_requests_waits_for_one_without() -> None:
    queue = FairQueue[QueueEntry](max_running=3, max_waiting=100)
    first, _, other = add_entry(queue, "a"), add_entry(queue, "a"), add_entry(queue, "c")
    again, new = add_entry(queue, "a"), add_entry(queue, "b")
    assert queue.n_running == 3
    assert queue.finish(other) is new
    assert queue.finish(first) is again


def test_a_full_queue_evicts_the_last_entry_of_the_longest_client() -> None:
    queue = FairQueue[QueueEntry](max_running=1, max_waiting=4)
    add_entry(queue, "a")
    longest = [add_entry(queue, "a") for _ in range(2)]
    batch = [add_entry(queue, "a", is_admitted=True) for _ in range(2)]
    assert queue.admit("b") is longest[-1]
    add_entry(queue, "b")
    with pytest.raises(TooManyRequests):
        queue.admit("a")
    assert queue.admit("c") is longest[0]
    add_entry(queue, "c")
    with pytest.raises(TooManyRequests):  # the rest of the longest client is an admitted batch
        queue.admit("d")
    assert queue.n_waiting == 4
    waiting = queue.drain()
    assert all(entry in waiting for entry in batch)


def test_a_removed_entry_never_starts() -> None:
    queue = FairQueue[QueueEntry](max_running=1, max_waiting=4)
    running, removed, last = add_entry(queue, "a"), add_entry(queue, "b"), add_entry(queue, "c")
    queue.remove(removed)
    assert queue.finish(running) is last
    assert queue.finish(last) is None


def test_a_draining_queue_rejects_requests() -> None:
    queue = FairQueue[QueueEntry](max_running=1, max_waiting=4)
    running, waiting = add_entry(queue, "a"), add_entry(queue, "b")
    assert queue.drain() == [waiting]
    assert queue.finish(running) is None
    with pytest.raises(ServiceShutdown):
        queue.admit("a")
