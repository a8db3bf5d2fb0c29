"""Groups are dealt to the worker that has the least to do."""

from train.asynchronous.dispatcher import WorkerLoad, count_groups_for_worker


def test_each_group_goes_to_the_worker_with_the_least_to_do():
    rooms = {
        "busy": WorkerLoad(n_leases=3, free_group_slots=4, capacity=9),
        "idle": WorkerLoad(n_leases=0, free_group_slots=9, capacity=9),
    }
    assert [count_groups_for_worker(rooms, name, 3) for name in rooms] == [0, 3]
    assert [count_groups_for_worker(rooms, name, 7) for name in rooms] == [2, 5]


def test_a_worker_gets_no_more_than_it_has_room_for():
    rooms = {
        "small": WorkerLoad(n_leases=0, free_group_slots=1, capacity=9),
        "large": WorkerLoad(n_leases=5, free_group_slots=9, capacity=9),
    }
    assert [count_groups_for_worker(rooms, name, 6) for name in rooms] == [1, 5]


def test_nothing_is_kept_for_a_worker_whose_weights_are_too_old_for_it():
    rooms = {
        "old": WorkerLoad(n_leases=0, free_group_slots=9, capacity=0),
        "new": WorkerLoad(n_leases=5, free_group_slots=9, capacity=3),
    }
    assert [count_groups_for_worker(rooms, name, 3) for name in rooms] == [0, 3]


def test_of_equals_the_one_that_asks_comes_first():
    rooms = {name: WorkerLoad(n_leases=0, free_group_slots=1, capacity=1) for name in "abc"}
    assert [count_groups_for_worker(rooms, name, 1) for name in rooms] == [1, 1, 1]
