"""Groups are asked under leases, answered, scored and cut; workers may die, repeat themselves, or send nonsense."""

import math
import threading
import time
from concurrent.futures import Future
from dataclasses import replace

import fleet
import pytest
from fleet import SETTINGS, Clock, Worker, answer_to, publish
from journal_audit import audit_journal

from rewards.reward import Reward
from train.asynchronous.journal import RunJournal
from train.asynchronous.messages import (
    LeaseRequest,
    ReleaseRequest,
    SampleResult,
    pack_logprobs,
    pack_tokens,
)
from train.errors import ControllerUnreachable, RolloutError, SamplerError
from train.sampling.protocol import SamplingParams


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def controller(clock):
    made = fleet.controller(SETTINGS, now=clock)
    publish(made, 0)
    return made


def test_as_many_groups_are_asked_as_the_bound_allows_and_a_batch_is_cut_when_it_is_ready(controller):
    worker = Worker(controller)
    leases = worker.ask()
    assert [lease.group for lease in leases] == [0, 1, 2, 3]
    assert worker.ask() == []
    assert controller.try_take_batch(0) is None
    worker.finish(leases[3])
    worker.finish(leases[1])
    assert controller.try_take_batch(0) is not None  # 0 and 2 may still be used at version 1
    assert controller.try_take_batch(1) is None


def test_a_cut_waits_for_groups_that_would_be_too_old_afterwards(controller):
    worker = Worker(controller)
    first = worker.ask()
    for lease in first[:2]:
        worker.finish(lease)
    controller.try_take_batch(0)
    publish(controller, 1)
    worker.load()
    second = worker.ask()
    assert [lease.version for lease in second] == [1, 1]
    for lease in second:
        worker.finish(lease)
    assert controller.try_take_batch(1) is None  # ready are two groups, but those of version 0 have to come first
    for lease in first[2:]:
        worker.finish(lease)
    assert [group[0].problem_id for group in controller.try_take_batch(1)] == ["q2", "q3"]


def test_with_no_staleness_batches_come_in_the_order_of_the_data_whatever_finishes_first():
    made = fleet.controller(replace(SETTINGS, max_staleness=0), seed=7)
    publish(made, 0)
    worker = Worker(made)
    for version in range(3):
        leases = worker.ask()
        assert len(leases) == 2
        for lease in reversed(leases):
            worker.finish(lease)
        batch = made.try_take_batch(version)
        assert [group[0].problem_id for group in batch] == [f"q{2 * version}", f"q{2 * version + 1}"]
        assert made.position == 2 * version + 2
        publish(made, version + 1)
        worker.load()


def test_a_worker_with_old_weights_gets_only_what_can_still_be_used_in_time(controller):
    fast, slow = Worker(controller, "fast"), Worker(controller, "slow")
    for version in range(2):
        for lease in fast.ask(slots=2 * 3):
            fast.finish(lease)
        assert controller.try_take_batch(version)
        publish(controller, version + 1)
        fast.load()
    assert slow.ask() == []  # what it begins now would be used at version 2, and be two versions old
    assert {lease.version for lease in fast.ask()} == {2}


def test_groups_of_a_slow_worker_are_as_old_as_its_weights(controller):
    fast, slow = Worker(controller, "fast"), Worker(controller, "slow")
    for lease in fast.ask(slots=2 * 3):
        fast.finish(lease)
    controller.try_take_batch(0)
    publish(controller, 1)
    fast.load()
    (of_slow,) = slow.ask(slots=1)
    of_fast = fast.ask()
    assert (of_slow.version, [lease.version for lease in of_fast]) == (0, [1, 1, 1])
    for lease in of_fast:
        fast.finish(lease)
    assert controller.try_take_batch(1) is None
    assert slow.finish(of_slow) == ["taken"] * 3
    assert [group[0].versions[0] for group in controller.try_take_batch(1)] == [0, 1]


def test_no_more_groups_are_generated_at_once_than_the_configuration_says(clock):
    made = fleet.controller(replace(SETTINGS, max_running_groups=1), now=clock)
    publish(made, 0)
    worker = Worker(made)
    (lease,) = worker.ask()
    worker.finish(lease)
    assert len(worker.ask()) == 1


def test_nothing_is_asked_that_the_run_cannot_use():
    made = fleet.controller(replace(SETTINGS, total_steps=1, max_staleness=4))
    publish(made, 0)
    assert len(Worker(made).ask()) == 2


def test_groups_that_teach_nothing_are_replaced(clock):
    def odd_groups_teach(answer, task):
        first, *_ = map(int, answer.text.split())
        return fleet.scored(float(first))

    made = fleet.controller(replace(SETTINGS, online_filter=True, max_staleness=0), now=clock, submit=odd_groups_teach)
    publish(made, 0)
    worker = Worker(made)
    first = worker.ask()
    worker.leases.remove(first[0])
    worker.send(*(answer_to(first[0], number, tokens=(0,)) for number in range(3)))
    worker.finish(first[1])
    (replacement,) = worker.ask()
    assert replacement.group == 2
    worker.finish(replacement)
    assert [group[0].problem_id for group in made.try_take_batch(0)] == ["q1", "q2"]
    assert made.count_signals() == {"none": 1, "some": 2}


def test_after_the_rounds_a_batch_is_cut_short_or_empty(clock):
    made = fleet.controller(
        replace(SETTINGS, online_filter=True, max_staleness=0, max_rounds=2), now=clock,
        submit=lambda answer, task: fleet.scored(float(answer.text == "0")),
    )  # fmt: skip
    publish(made, 0)
    worker = Worker(made)

    def answered(tokens):
        lease = worker.ask(slots=1)[0]
        worker.leases.remove(lease)
        worker.send(*(answer_to(lease, number, tokens=tokens(number)) for number in range(3)))

    answered(lambda number: (number,))
    for _ in range(3):
        assert made.try_take_batch(0) is None
        answered(lambda number: (1,))
    (group,) = made.try_take_batch(0)
    assert [rollout.reward for rollout in group] == [1.0, 0.0, 0.0]
    publish(made, 1)
    worker.load()
    for _ in range(4):
        assert made.try_take_batch(1) is None
        answered(lambda number: (1,))
    assert made.try_take_batch(1) == []


def test_a_run_that_ended_because_nothing_taught_anything_tries_again_when_it_is_resumed():
    journal, settings = fleet.MemoryJournal(), replace(SETTINGS, online_filter=True, max_rounds=1)
    ended = fleet.controller(settings, journal, submit=lambda answer, task: fleet.scored(None))
    publish(ended, 0)
    worker = Worker(ended)
    for lease in worker.ask():
        worker.finish(lease)
    assert ended.try_take_batch(0) == []
    resumed = fleet.controller(settings, journal)
    publish(resumed, 0)
    assert resumed.try_take_batch(0) is None
    worker = Worker(resumed)
    for lease in worker.ask():
        worker.finish(lease)
    assert len(resumed.try_take_batch(0)) == 2


def test_groups_whose_rewards_are_unknown_are_not_cut_and_others_are_asked_when_the_run_is_resumed():
    journal = fleet.MemoryJournal()
    ended = fleet.controller(SETTINGS, journal, submit=lambda answer, task: fleet.scored(None))
    publish(ended, 0)
    worker = Worker(ended)
    for lease in worker.ask():
        worker.finish(lease)
    assert ended.try_take_batch(0) == []
    assert ended.count_signals() == {"unknown": 4}
    resumed = fleet.controller(SETTINGS, journal)
    publish(resumed, 0)
    worker = Worker(resumed)
    leases = worker.ask()
    assert [lease.group for lease in leases] == [4, 5, 6, 7]
    for lease in leases:
        worker.finish(lease)
    assert [group[0].problem_id for group in resumed.try_take_batch(0)] == ["q4", "q5"]
    assert audit_journal(journal.archive, staleness=1).findings == []


def test_a_prompt_that_the_engine_refuses_is_replaced(controller):
    worker = Worker(controller)
    refused = worker.ask()[0]
    assert worker.send(SampleResult(refused.group, 0, 0, b"", b"", (), "refused")) == ["taken"]
    assert [lease.group for lease in worker.ask()] == [4]


def test_answers_can_be_sent_again(controller):
    worker = Worker(controller)
    lease = worker.ask()[0]
    answer = answer_to(lease, 0)
    assert worker.send(answer, answer) == ["taken", "again"]
    assert worker.send(answer) == ["again"]


def test_a_dead_worker_is_named_within_20_seconds_and_its_groups_are_asked_again(controller, clock, caplog):
    dying, living = Worker(controller, "dying"), Worker(controller, "living")
    lost = dying.ask(slots=6)
    while "dying is dead" not in caplog.text:
        clock.seconds += 1
        assert clock.seconds <= 20
        living.beat()
        controller.expire_leases()
    assert controller.collect_metrics()["workers/dead"] == 1
    again = living.ask()[:2]
    assert [lease.group for lease in again] == [lease.group for lease in lost]
    assert [lease.seeds for lease in again] == [lease.seeds for lease in lost]
    assert [lease.attempt for lease in again] == [1, 1]
    assert dying.send(answer_to(lost[0], 0)) == ["stale"]
    dying.beat()
    assert dying.leases == []


def test_a_worker_that_beats_but_draws_nothing_loses_its_groups(controller, clock, caplog):
    hanging = Worker(controller, "hanging")
    hanging.ask()
    for _ in range(13):
        clock.seconds += 5
        hanging.beat(tokens_per_second=0.0)
    assert "hanging lost group 0: late" in caplog.text
    assert hanging.leases == []


def test_a_worker_that_loads_new_weights_may_draw_nothing_meanwhile(controller, clock):
    worker = Worker(controller)
    leases = worker.ask()
    publish(controller, 1)
    for _ in range(100):
        clock.seconds += 5
        worker.beat(tokens_per_second=0.0)
    assert worker.leases == leases
    for _ in range(40):
        clock.seconds += 5
        worker.beat(tokens_per_second=0.0)
    assert worker.leases == []


def test_groups_that_are_given_back_are_not_counted_as_lost(controller):
    for attempt in range(4):
        leaving = Worker(controller, f"w{attempt}")
        assert [lease.attempt for lease in leaving.ask()] == [attempt] * 4
        controller.release(ReleaseRequest(leaving.name))


def test_long_answers_are_not_lost_while_tokens_are_drawn(controller, clock):
    worker = Worker(controller)
    leases = worker.ask()
    for _ in range(1000):
        clock.seconds += 5
        worker.beat()
    assert worker.leases == leases
    assert worker.finish(leases[0]) == ["taken"] * 3


def test_a_group_whose_lease_never_reached_the_worker_is_asked_again(controller, clock):
    worker = Worker(controller)
    worker.ask()
    worker.leases.clear()  # the reply was lost on its way
    for _ in range(4):
        clock.seconds += 5
        worker.beat()
    assert [(lease.group, lease.attempt) for lease in worker.ask()] == [(0, 1), (1, 1), (2, 1), (3, 1)]


def test_a_pause_of_the_controller_itself_kills_no_worker(controller, clock):
    worker = Worker(controller)
    leases = worker.ask()
    clock.seconds += 500
    controller.expire_leases()
    assert worker.finish(leases[0]) == ["taken"] * 3


def test_after_a_pause_of_the_controller_a_beat_from_before_the_lease_does_not_end_it(controller, clock):
    worker = Worker(controller)
    lease = worker.ask()[0]
    clock.seconds += 20
    late, worker.leases = worker.leases, []
    worker.beat()  # it was sent before the reply with the leases came
    worker.leases = late
    clock.seconds += 1
    controller.expire_leases()
    assert worker.finish(lease) == ["taken"] * 3


def test_a_group_that_is_lost_twice_goes_on_with_what_it_has(controller, clock):
    for name in ("first", "second"):
        worker, other = Worker(controller, name), Worker(controller, "other")
        lease = worker.ask(slots=1)[0]
        worker.send(answer_to(lease, 0), answer_to(lease, 2))
        for _ in range(20):
            clock.seconds += 1
            other.beat()
    for lease in other.ask(slots=3):
        other.finish(lease)
    first, second = controller.try_take_batch(0)
    assert [rollout.problem_id for rollout in first] == ["q0", "q0"]
    assert [rollout.problem_id for rollout in second] == ["q1"] * 3


def test_a_group_that_is_lost_twice_without_any_answer_is_replaced(controller, clock):
    other = Worker(controller, "other")
    for name in ("first", "second"):
        assert Worker(controller, name).ask(slots=1)[0].group == 0
        for _ in range(20):
            clock.seconds += 1
            other.beat()
    assert [lease.group for lease in other.ask()] == [1, 2, 3, 4]


BROKEN = {
    "tokens that are not whole numbers": {"tokens": b"12345"},
    "a log-probability too few": {"logprobs": pack_logprobs([-1.0, -1.0, -1.0])},
    "a log-probability that is not a number": {"logprobs": pack_logprobs([-1.0, math.nan, -1.0, -1.0])},
    "an impossible token": {"logprobs": pack_logprobs([-1.0, -math.inf, -1.0, -1.0])},
    "a probability above 1": {"logprobs": pack_logprobs([-1.0, 0.5, -1.0, -1.0])},
    "a gap between spans": {"spans": ((0, 0, 2), (0, 3, 4))},
    "spans that overlap": {"spans": ((0, 0, 3), (0, 2, 4))},
    "spans that end early": {"spans": ((0, 0, 3),)},
    "spans that end late": {"spans": ((0, 0, 5),)},
    "an empty span": {"spans": ((0, 0, 4), (0, 4, 4))},
    "no span": {"spans": ()},
    "a version that does not exist": {"spans": ((0, 0, 2), (1, 2, 4))},
    "a version before the birth": {"spans": ((-1, 0, 4),)},
    "too many tokens": {"tokens": pack_tokens(range(9)), "logprobs": pack_logprobs([-1.0] * 9), "spans": ((0, 0, 9),)},
    "a token that does not exist": {"tokens": pack_tokens([1, 2, 3, 100])},
    "a number beyond the group": {"number": 3},
    "a negative number": {"number": -1},
    "an unknown ending": {"finish_reason": "abort"},
    "no bytes at all": {"tokens": None},
    "spans of text": {"spans": (("0", 0, 4),)},
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN.keys())
def test_an_answer_that_makes_no_sense_is_refused_with_a_reason_and_its_group_is_asked_again(clock, caplog, change):
    made = fleet.controller(replace(SETTINGS, vocab_size=100), now=clock)
    publish(made, 0)
    worker = Worker(made)
    lease = worker.ask()[0]
    sound = answer_to(lease, 1)
    fields = {name: getattr(sound, name) for name in SampleResult.__struct_fields__}
    assert worker.send(SampleResult(**{**fields, **change})) == ["broken"]
    assert "w sent an invalid result (group 0" in caplog.text
    assert [(lease.group, lease.attempt) for lease in worker.ask()] == [(0, 1)]
    assert made.try_take_batch(0) is None  # the run goes on


def test_a_worker_that_sends_nothing_but_broken_answers_gets_no_more_work(controller, caplog):
    worker = Worker(controller)
    for lease in worker.ask()[:3]:
        worker.send(answer_to(lease, 0, spans=((5, 0, 4),)))
    assert worker.ask() == []
    assert "gets no more leases" in caplog.text
    assert Worker(controller, "sound").ask() != []


def test_answers_to_groups_that_never_were_are_stale(controller):
    lease = replace_group(Worker(controller).ask()[0], 99)
    assert Worker(controller).send(answer_to(lease, 0)) == ["stale"]


def replace_group(lease, group):
    fields = {name: getattr(lease, name) for name in type(lease).__struct_fields__}
    return type(lease)(**{**fields, "group": group})


def test_a_worker_with_weights_of_another_life_waits_and_is_told_to_load(controller, caplog):
    worker = Worker(controller, loaded=7)
    assert worker.ask() == []
    assert "w has weights 7, which this run has not published" in caplog.text
    assert controller.wait_for_weights(7, 0).version == 0


def test_work_is_dealt_to_the_worker_that_has_the_least(clock):
    made = fleet.controller(replace(SETTINGS, prompts_per_batch=4), now=clock)
    publish(made, 0)
    workers = [Worker(made, name) for name in "abcd"]
    for worker in workers:
        worker.controller.request_leases(LeaseRequest(worker.name, 0, 0))
    first = workers[0].ask(slots=3)
    assert len(first) == 1
    rest = [len(worker.ask(slots=12)) for worker in workers[1:]]
    assert sum(rest) == 7


def test_parts_and_steps_of_rewards_reach_the_batch_and_the_filter():
    def process(answer, task):
        future = Future()
        steps = ((len(answer.text.split()[0]), 1.0), (len(answer.text), 0.0))
        future.set_result(Reward(1.0, "accepted", parts=(("mine", 1.0),), steps=steps))
        return future

    for by_steps, found in ((True, ["q0", "q1"]), (False, [])):
        settings = replace(SETTINGS, online_filter=True, process_supervision=by_steps, max_rounds=1)
        made = fleet.controller(settings, submit=process)
        publish(made, 0)
        worker = Worker(made)
        for lease in worker.ask()[:2]:
            worker.finish(lease)
        batch = made.try_take_batch(0) or ()
        assert [group[0].problem_id for group in batch] == found
        for group in batch:
            assert [(rollout.reward_components, rollout.step_rewards) for rollout in group] == [
                ((("mine", 1.0),), ((1, 1.0), (4, 0.0))) for _ in group
            ]


def with_failing_judge(error):
    """Return a controller whose judge has failed on the first answer, and the worker that sent it."""

    def failing(answer, task):
        future = Future()
        future.set_exception(error)
        return future

    made = fleet.controller(SETTINGS, submit=failing)
    publish(made, 0)
    worker = Worker(made)
    worker.send(answer_to(worker.ask()[0], 0))
    return made, worker


@pytest.mark.parametrize(("kind", "told"), [(RuntimeError, RuntimeError), (SystemExit, RolloutError)])
def test_a_reward_that_fails_ends_the_run_at_the_trainers_next_call(kind, told):
    made, worker = with_failing_judge(kind("the judge has died"))
    with pytest.raises(told, match="the judge has died"):
        made.wait_for_batch(0, 10)
    with pytest.raises(ControllerUnreachable, match="the judge has died"):
        worker.ask()


def test_only_an_error_of_the_journal_is_called_one():
    made, _ = with_failing_judge(ConnectionError("the judge is not there"))
    with pytest.raises(ConnectionError, match=r"^the judge is not there$"):
        made.wait_for_batch(0, 10)


def test_waiting_for_a_cut_ends_with_words_when_there_is_no_worker(controller):
    with pytest.raises(RolloutError, match="No worker has requested prompts. If engines"):
        controller.wait_for_batch(0, 0.01)


def test_a_waiting_trainer_is_woken_by_the_last_reward():
    futures = []

    def later(answer, task):
        futures.append(Future())
        return futures[-1]

    made = fleet.controller(SETTINGS, submit=later)
    publish(made, 0)
    worker = Worker(made)
    for lease in worker.ask()[:2]:
        worker.finish(lease)
    threading.Timer(0.05, lambda: [future.set_result(Reward(1.0, "accepted")) for future in futures]).start()
    assert len(made.wait_for_batch(0, 60)) == 2


def test_a_worker_that_waits_for_weights_is_woken_by_them(controller):
    threading.Timer(0.05, lambda: publish(controller, 1)).start()
    assert controller.wait_for_weights(0, 60).version == 1
    assert controller.wait_for_weights(1, 0) is None


def test_groups_keep_the_length_limit_that_they_were_asked_with(controller):
    worker = Worker(controller)
    before = worker.ask(slots=3)[0]
    controller.set_max_tokens(16)
    after = worker.ask(slots=3)[0]
    assert [before.sampling_params.max_tokens, after.sampling_params.max_tokens] == [8, 16]
    assert worker.send(answer_to(after, 0, tokens=range(12))) == ["taken"]
    assert worker.send(answer_to(before, 0, tokens=range(12))) == ["broken"]


def test_when_the_run_is_over_workers_are_told_so(controller):
    worker = Worker(controller)
    lease = worker.ask()[0]
    controller.close()
    assert controller.request_leases(LeaseRequest("w", 0, 1)).run_ended
    assert worker.send(answer_to(lease, 0)) == ["stale"]


def test_a_worker_that_leaves_after_the_end_keeps_no_other_from_hearing_of_it(tmp_path):
    made = fleet.controller(SETTINGS, RunJournal.open(tmp_path))
    publish(made, 0)
    Worker(made).ask()
    made.close()
    made.release(ReleaseRequest("w"))
    assert made.request_leases(LeaseRequest("other", 0, 1)).run_ended


def test_evaluation_is_drawn_by_workers_with_the_newest_weights_before_anything_else(controller):
    sampler, old, new = controller.create_sampler(), Worker(controller, "old"), Worker(controller, "new")
    publish(controller, 1)
    new.load()

    def work():
        samples = [lease for _ in range(50) for lease in new.ask(slots=2) if lease.group < 0]
        for lease in samples:
            new.finish(lease)
        return samples

    def draw():
        prompts = (((number,), number) for number in range(5))
        done.update(dict(sampler.sample(prompts, SamplingParams(0.5, 0.9, 6))))

    done = {}
    drawing = threading.Thread(target=draw)
    drawing.start()
    samples = []
    while drawing.is_alive():
        assert all(lease.group >= 0 for lease in old.ask(slots=1))
        samples += work()
    assert sorted(done) == [0, 1, 2, 3, 4]
    assert {lease.sampling_params.top_p for lease in samples} == {0.9}
    assert [done[index].prompt_ids for index in range(5)] == [(0,), (1,), (2,), (3,), (4,)]
    assert done[0].versions == (1, 1, 1, 1)


def test_evaluation_gives_workers_the_stops_and_leaves_them_out_of_the_text(controller):
    sampler, worker = controller.create_sampler(), Worker(controller)
    publish(controller, 1)
    worker.load()
    done = []
    sampling = SamplingParams(0.5, 0.9, 6, stop=("no such", " "))
    drawing = threading.Thread(target=lambda: done.extend(sampler.sample([((1,), 0)], sampling)))
    drawing.start()
    leases = []
    while drawing.is_alive():
        for lease in worker.ask(slots=1):
            leases += [lease] if lease.group < 0 else []
            worker.finish(lease)
    drawing.join()
    ((_, answer),) = done
    assert {lease.sampling_params.stop for lease in leases} == {("no such", " ")}
    assert answer.token_ids[0] == 0
    assert (answer.text, answer.n_tokens, answer.n_prompt_tokens) == ("0", 4, 1)


def test_evaluation_goes_on_after_a_prompt_that_is_refused():
    def encode(prompt):
        if prompt == "no":
            raise ValueError("refused")
        return (1,)

    made = fleet.controller(SETTINGS, encode=encode)
    publish(made, 1)
    worker = Worker(made)
    worker.load()
    done = {}
    prompts = [("no", 0), ("yes", 1)]
    drawing = threading.Thread(
        target=lambda: done.update(made.create_sampler().sample(prompts, SamplingParams(0.5, 0.9, 6)))
    )
    drawing.start()
    while drawing.is_alive():
        for lease in worker.ask(slots=1):
            worker.finish(lease)
    drawing.join()
    assert str(done[0]) == "refused"
    assert done[1].prompt_ids == (1,)


def test_evaluation_does_not_wait_for_ever(controller):
    sampler = controller.create_sampler(timeout_seconds=0.01)
    with pytest.raises(SamplerError, match="no sample within .* Start workers"):
        list(sampler.sample([((1,), 0)], SamplingParams(1.0, 1.0, 8)))
    assert all(lease.group >= 0 for lease in Worker(controller).ask())


def test_a_sample_that_worker_after_worker_loses_is_given_up(controller, clock):
    done, living = [], Worker(controller, "living", -1)
    sampling = SamplingParams(1.0, 1.0, 8)
    drawing = threading.Thread(target=lambda: done.extend(controller.create_sampler().sample([((1,), 0)], sampling)))
    drawing.start()
    for name in "abc":
        while not any(lease.group < 0 for lease in Worker(controller, name).ask(slots=1)):
            time.sleep(0.01)
        for _ in range(20):
            clock.seconds += 1
            living.beat()
    drawing.join(60)
    ((index, error),) = done
    assert (index, str(error)) == (0, "lost by 3 workers in succession")


def test_a_sample_that_workers_give_back_is_not_lost(controller):
    done, sampling = [], SamplingParams(1.0, 1.0, 8)
    drawing = threading.Thread(target=lambda: done.extend(controller.create_sampler().sample([((1,), 0)], sampling)))
    drawing.start()
    for number in range(20):
        worker = Worker(controller, f"w{number}")
        while not any(lease.group < 0 for lease in worker.ask(slots=1)):
            time.sleep(0.01)
        if number % 2:
            keys = tuple((lease.group, lease.attempt) for lease in worker.leases)
            controller.release(ReleaseRequest(worker.name, keys))
        else:
            controller.release(ReleaseRequest(worker.name))
    last = Worker(controller, "last")
    while not (sample := [lease for lease in last.ask(slots=1) if lease.group < 0]):
        time.sleep(0.01)
    last.finish(sample[0])
    drawing.join(60)
    assert not drawing.is_alive()
    assert not isinstance(done[0][1], ValueError)


def test_a_worker_that_must_not_evaluate_gets_no_samples(controller):
    sampler = controller.create_sampler()
    drawing = threading.Thread(target=lambda: list(sampler.sample([((1,), 0)], SamplingParams(1.0, 1.0, 8))))
    drawing.start()
    while not controller._evaluation.waiting:
        time.sleep(0.01)
    leases = controller.request_leases(LeaseRequest("w", 0, 10**6, can_evaluate=False)).leases
    assert leases
    assert all(lease.group >= 0 for lease in leases)
    other = Worker(controller, "other")
    [sample] = other.ask(slots=1)
    assert sample.group == -1
    other.finish(sample)
    drawing.join(60)
    assert not drawing.is_alive()


def test_length_bias_is_known_only_of_births_that_were_seen_whole(clock):
    kept = fleet.MemoryJournal()
    before = fleet.controller(SETTINGS, kept, now=clock)
    publish(before, 0)
    worker = Worker(before)
    for lease in worker.ask():
        worker.finish(lease)
    made = fleet.controller(SETTINGS, kept, now=clock)
    publish(made, 0)
    biases = []
    for version in range(4):
        worker = Worker(made, "new", version)
        for lease in worker.ask():
            worker.finish(lease)
        made.try_take_batch(version)
        publish(made, version + 1)
        biases.append(made.collect_metrics()["length_bias"])
    assert [math.isnan(bias) for bias in biases] == [True, True, False, False]


def test_figures_tell_ages_losses_and_whether_short_answers_are_preferred(controller, clock):
    worker = Worker(controller)
    leases = worker.ask()
    for lease in leases:
        n = 2 + 2 * (lease.group >= 2)
        worker.leases.remove(lease)
        worker.send(*(answer_to(lease, number, tokens=(number,) * n) for number in range(3)))
    controller.try_take_batch(0)
    assert math.isnan(controller.collect_metrics()["length_bias"])  # groups of that birth are still to be used
    publish(controller, 1)
    controller.try_take_batch(1)
    figures = controller.collect_metrics()
    assert figures["groups/age_max"] == 1
    assert figures["length_bias"] == 1.0
