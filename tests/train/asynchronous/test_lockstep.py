"""A sampler draws batches in lockstep: they are scored, ordered, filtered and refilled."""

import math
import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import fleet
import pytest
from fleet import Endless

from rewards.reward import Reward
from train.asynchronous.controller import Controller
from train.asynchronous.journal import CheckpointJournal, read_event_file, write_events
from train.asynchronous.lockstep import LockstepPipeline
from train.asynchronous.pipeline import build_controller_settings
from train.config import Config, DataConfig, ModelConfig, OptimizerConfig, RunConfig, StageConfig
from train.config import RolloutConfig as Settings
from train.errors import RolloutError
from train.rollouts.groups import classify_group_signal, list_group_rewards
from train.sampling.protocol import SampledCompletion
from train.weights.manifest import WeightManifest


class Sampler:
    """A sampler that answers with the prompt and the number of the answer, in the given order."""

    def __init__(self, order=lambda indices: indices):
        self.asked = []
        self.version = 0
        self._order = order

    def sample(self, prompts, sampling):
        asked = list(prompts)
        self.asked += [(str(ids[0]), seed) for ids, seed in asked]
        for index in self._order(list(range(len(asked)))):
            tokens = (*asked[index][0], index % 2)
            yield (
                index,
                SampledCompletion(
                    fleet.text_of(tokens), "stop", 2, asked[index][0], tokens, (-0.5,) * 2, (self.version,) * 2
                ),
            )

    def sleep(self):
        """Lend the memory to the learner."""


def known(value, verdict="accepted"):
    future = Future()
    future.set_result(Reward(value, verdict, 0.25))
    return future


def by_number(answer, task):
    """Score every other answer as right."""
    return known(float(answer.text.endswith("0")))


def lockstep(
    sampler=None,
    way="sync",
    minibatches=1,
    last_step=3,
    *,
    submit=by_number,
    position=0,
    step=0,
    share=1.0,
    ahead=(),
    **settings,
):
    """Return a pipeline whose weights have just been published, and its controller."""
    config = Config(
        ModelConfig("none"),
        DataConfig("none"),
        (StageConfig(5),),
        rollout=replace(Settings(prompts=3, completions=2, max_rounds=4), pipeline=way, **settings),
        optimizer=OptimizerConfig(minibatches=minibatches),
        run=RunConfig(steps=last_step),
    )
    controller = Controller(
        Endless(), build_controller_settings(config, 5, vocabulary=2000), CheckpointJournal(ahead),
        submit=submit, decode=fleet.text_of, step=step, position=position,
    )  # fmt: skip
    timeline = SimpleNamespace(clock=time.monotonic, record=lambda *part, batch: None)
    pipeline = LockstepPipeline(
        config, controller, sampler or Sampler(), None, Endless(), timeline, step=step, share=share
    )
    controller.publish_weights(WeightManifest(step))
    return pipeline, controller


def first_batch(*arguments, **settings):
    """Return the groups of the first batch, and its pipeline."""
    pipeline, _ = lockstep(*arguments, **settings)
    return [group for minibatches in pipeline.yield_minibatches(1) for each in minibatches for group in each], pipeline


def counted(pipeline):
    return {signal: n for signal, n in pipeline.signal_counts.items() if n}


def test_groups_come_in_the_order_of_their_prompts_whatever_finishes_first():
    sampler = Sampler(order=lambda indices: reversed(indices))
    groups, _ = first_batch(sampler)
    assert [[rollout.problem_id for rollout in group] for group in groups] == [["q0"] * 2, ["q1"] * 2, ["q2"] * 2]
    assert [rollout.text for rollout in groups[1]] == ["1 0", "1 1"]
    assert [rollout.reward for rollout in groups[1]] == [1.0, 0.0]


def test_a_minibatch_is_handed_out_before_the_others_are_sampled():
    class Halting(Sampler):
        def sample(self, prompts, sampling):
            for index, completion in super().sample(prompts, sampling):
                if index == 2:
                    assert handed_out.wait(10)
                yield index, completion

    handed_out = threading.Event()
    pipeline, _ = lockstep(Halting(), "minibatch", minibatches=3)
    batch = pipeline.yield_minibatches(1)
    assert names([next(batch)]) == [[["q0"]]]
    handed_out.set()
    assert names(batch) == [[["q1"]], [["q2"]]]


def odd_ones(answer, task):
    """Score every other answer to a question with an odd number as right, and all others."""
    return by_number(answer, task) if int(answer.text.split()[0]) % 2 else known(1.0)


def test_groups_that_teach_nothing_are_replaced_until_the_batch_is_full():
    groups, made = first_batch(submit=odd_ones)
    assert [group[0].problem_id for group in groups] == ["q1", "q3", "q5"]
    # A third of the first round taught something, so the second has three times what is missing.
    assert counted(made) == {"rounds": 2, "all": 5, "some": 4, "surplus": 1}
    assert made.get_resume_point() == (6, 4 / 9, [])  # what was drawn in vain is asked again


def test_a_batch_begins_with_as_many_groups_as_it_is_expected_to_need():
    groups, made = first_batch(submit=odd_ones, share=0.5)
    assert [group[0].problem_id for group in groups] == ["q1", "q3", "q5"]
    assert counted(made) == {"rounds": 1, "all": 3, "some": 3}
    assert made.get_resume_point() == (6, 0.5, [])


def test_refilling_ends_after_max_rounds():
    groups, made = first_batch(submit=lambda answer, task: known(0.0))
    assert groups == []
    assert counted(made) == {"rounds": 2, "none": 12}
    assert made.get_resume_point() == (12, 1 / 12, [])


def test_a_batch_that_max_rounds_did_not_fill_is_short():
    groups, made = first_batch(
        submit=lambda answer, task: by_number(answer, task) if answer.text.startswith("2 ") else known(0.0)
    )
    assert [group[0].problem_id for group in groups] == ["q2"]
    assert counted(made) == {"rounds": 3, "none": 11, "some": 1}


def test_without_the_filter_everything_is_kept():
    groups, _ = first_batch(submit=lambda answer, task: known(0.0), online_filter=False)
    assert len(groups) == 3


def test_no_signal_is_not_a_zero():
    groups, made = first_batch(submit=lambda answer, task: known(None, "sandbox_failed"), max_rounds=1)
    assert groups == []
    assert made.signal_counts["unknown"] == 3
    (first, *_), _ = first_batch(
        submit=lambda answer, task: known(None) if answer.text.endswith("0") else known(1.0), online_filter=False
    )
    assert math.isnan(first[0].reward)
    assert classify_group_signal(first) == "all"


def test_answers_that_were_cut_off_may_be_unknown():
    (group, *_), _ = first_batch()
    cut = (replace(group[0], truncated=True), *group[1:])
    assert [rollout.reward for rollout in cut] == [1.0, 0.0]
    assert list_group_rewards(cut) == [1.0, 0.0]
    assert classify_group_signal(cut) == "some"
    assert math.isnan(list_group_rewards(cut, count_truncated=False)[0])
    assert classify_group_signal(cut, count_truncated=False) == "none"
    assert classify_group_signal(cut[:1], count_truncated=False) == "cut_off"


def test_a_refused_prompt_is_counted_and_replaced():
    class Refusing(Sampler):
        def sample(self, prompts, sampling):
            for index, answer in super().sample(prompts, sampling):
                yield index, ValueError("too long") if answer.text.startswith("1 ") else answer

    groups, made = first_batch(Refusing())
    assert [group[0].problem_id for group in groups] == ["q0", "q2", "q3"]
    assert made.signal_counts["refused"] == 1


def test_a_sampler_without_log_probabilities_is_refused(caplog):
    class Bare(Sampler):
        def sample(self, prompts, sampling):
            for index, answer in super().sample(prompts, sampling):
                yield index, replace(answer, logprobs=())

    with pytest.raises(RolloutError, match="results are invalid"):
        first_batch(Bare())
    assert "2 tokens and 0 log-probabilities" in caplog.text


def test_an_answer_that_is_missing_ends_the_run():
    class Forgetful(Sampler):
        def sample(self, prompts, sampling):
            yield from list(super().sample(prompts, sampling))[1:]

    with pytest.raises(RolloutError, match="q0: the sampler lost a completion"):
        first_batch(Forgetful())


def test_no_seed_is_used_twice_and_a_repeated_run_uses_the_same_seeds():
    first, again, later = Sampler(), Sampler(), Sampler()
    first_batch(first), first_batch(again), first_batch(later, position=3)
    assert first.asked == again.asked
    assert len({seed for _, seed in first.asked + later.asked}) == 12


def names(stretches):
    return [[[group[0].problem_id for group in minibatch] for minibatch in stretch] for stretch in stretches]


@pytest.mark.parametrize("way", ["sync", "minibatch", "one-off"])
def test_every_pipeline_hands_out_the_same_groups(way):
    sampler = Sampler()
    made, controller = lockstep(sampler, way, minibatches=2, prompts=4)
    found = []
    for step in (1, 2, 3):
        found += [minibatch for stretch in names(made.yield_minibatches(step)) for minibatch in stretch]
        made.wait_for_sampling()
        controller.publish_weights(WeightManifest(step))
        sampler.version = step
    assert found == [[f"q{n}", f"q{n + 1}"] for n in range(0, 12, 2)]
    assert made.get_resume_point() == (12, 1.0, [])


@pytest.mark.parametrize("way", ["sync", "minibatch", "one-off"])
def test_a_batch_has_as_many_minibatches_as_configured_even_if_they_do_not_divide_it(way):
    made, _ = lockstep(way=way, minibatches=3, prompts=4)
    found = [minibatch for stretch in names(made.yield_minibatches(1)) for minibatch in stretch]
    assert found == [["q0"], ["q1"], ["q2", "q3"]]
    made.wait_for_sampling()


def test_one_off_samples_the_next_batch_while_it_trains_on_this_one(tmp_path):
    sampler = Sampler()
    made, _ = lockstep(sampler, "one-off", minibatches=2, prompts=4)
    for _ in made.yield_minibatches(1):
        made.wait_for_sampling()  # instead of learning
        assert len(sampler.asked) == 16
    position, _, ahead = made.get_resume_point()
    assert position == 8
    write_events(tmp_path / "ahead", ahead)
    sampler.version = 1
    resumed, controller = lockstep(
        sampler, "one-off", minibatches=2, prompts=4, step=1, position=position,
        ahead=read_event_file(tmp_path / "ahead"),
    )  # fmt: skip
    assert names(resumed.yield_minibatches(2)) == [[["q4", "q5"], ["q6", "q7"]]]
    resumed.wait_for_sampling()
    controller.publish_weights(WeightManifest(2))
    assert names(resumed.yield_minibatches(3)) == [[["q8", "q9"], ["q10", "q11"]]]
    assert len(sampler.asked) == 24


def test_errors_while_sampling_are_raised_where_the_batch_is_taken():
    class Broken(Sampler):
        def sample(self, prompts, sampling):
            raise OSError("gone")
            yield

    with pytest.raises(OSError, match="gone"):
        first_batch(Broken())


def test_a_batch_that_does_not_arrive_is_explained():
    with pytest.raises(RolloutError, match=r"the batch has only 0 groups"):
        first_batch(submit=lambda answer, task: Future(), max_seconds=0.2)
