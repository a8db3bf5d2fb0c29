"""A batch is sampled, scored, ordered, filtered and refilled."""

import math
import time
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rewards.reward import Reward, Task
from train.config import Config, DataConfig, ModelConfig, OptimizerConfig, RunConfig, StageConfig
from train.config import RolloutConfig as Settings
from train.errors import RolloutError
from train.rollouts.groups import BatchCollector, group_rewards, group_signal
from train.rollouts.pipeline import BatchPipeline
from train.rollouts.prompt_dataset import TrainingPrompt
from train.sampling.protocol import SampledCompletion, SamplingParams

SETTINGS = Settings(prompts=3, completions=2, max_rounds=4)
SAMPLING = SamplingParams(temperature=1.0, top_p=1.0, max_tokens=5, logprobs=True)


class Endless:
    """An endless series of questions, which are named after their positions."""

    def prompt_at(self, position):
        return TrainingPrompt(f"q{position}", (position,), Task())


class Sampler:
    """A sampler that repeats its prompts as answers, in the given order."""

    def __init__(self, order=lambda indices: indices):
        self.asked = []
        self._order = order

    def sample(self, prompts, sampling):
        asked = list(prompts)
        self.asked += [(str(ids[0]), seed) for ids, seed in asked]
        for index in self._order(list(range(len(asked)))):
            text = f"{asked[index][0][0]} {index % 2}"
            yield index, SampledCompletion(text, "stop", 1, (1,), (2,), (-0.5,), (7,))

    def sleep(self):
        """Lend the memory to the learner."""


def known(value, verdict="accepted"):
    future = Future()
    future.set_result(Reward(value, verdict, 0.25))
    return future


def by_number(answer, task):
    """Score every other answer as right."""
    return known(float(answer.text.endswith("0")))


def batch(sampler=None, submit=by_number, settings=SETTINGS, position=0):
    return BatchCollector(Endless(), position, settings, SAMPLING, sampler=sampler or Sampler(), submit=submit, seed=0)


def test_groups_come_in_the_order_of_their_prompts_whatever_finishes_first():
    sampler = Sampler(order=lambda indices: reversed(indices))
    groups = list(batch(sampler))
    assert [[rollout.problem_id for rollout in group] for group in groups] == [["q0"] * 2, ["q1"] * 2, ["q2"] * 2]
    assert [rollout.text for rollout in groups[1]] == ["1 0", "1 1"]
    assert [rollout.reward for rollout in groups[1]] == [1.0, 0.0]


def test_a_group_is_handed_out_before_the_others_are_sampled():
    going = iter(
        batch(Sampler(order=lambda indices: (each for each in indices if each < 2 or seen.append(each) is None)))
    )
    seen = []
    assert next(going)[0].problem_id == "q0"
    assert seen == []


def test_groups_that_teach_nothing_are_replaced_until_the_batch_is_full():
    def odd_ones(answer, task):
        return by_number(answer, task) if int(answer.text.split()[0]) % 2 else known(1.0)

    made = batch(submit=odd_ones)
    assert [group[0].problem_id for group in made] == ["q1", "q3", "q5"]
    assert made.position == 6
    assert made.counts == {"rounds": 3, "all": 3, "some": 3}


def test_refilling_ends_after_max_rounds():
    made = batch(submit=lambda answer, task: known(0.0))
    assert list(made) == []
    assert made.counts == {"rounds": 4, "none": 12}
    assert made.position == 12


def test_without_the_filter_everything_is_kept():
    made = batch(submit=lambda answer, task: known(0.0), settings=replace(SETTINGS, online_filter=False))
    assert len(list(made)) == 3


def test_no_signal_is_not_a_zero():
    made = batch(submit=lambda answer, task: known(None, "sandbox_failed"), settings=replace(SETTINGS, max_rounds=1))
    assert list(made) == []
    assert made.counts["unknown"] == 3
    (first, *_) = batch(submit=lambda answer, task: known(None) if answer.text.endswith("0") else known(1.0),
                        settings=replace(SETTINGS, online_filter=False))  # fmt: skip
    assert math.isnan(first[0].reward)
    assert group_signal(first) == "all"


def test_answers_that_were_cut_off_may_be_unknown():
    (group, *_) = batch()
    cut = (replace(group[0], truncated=True), *group[1:])
    assert [rollout.reward for rollout in cut] == [1.0, 0.0]
    assert group_rewards(cut) == [1.0, 0.0]
    assert group_signal(cut) == "some"
    assert math.isnan(group_rewards(cut, count_truncated=False)[0])
    assert group_signal(cut, count_truncated=False) == "none"
    assert group_signal(cut[:1], count_truncated=False) == "cut_off"


def test_a_refused_prompt_is_counted_and_replaced():
    class Refusing(Sampler):
        def sample(self, prompts, sampling):
            for index, answer in super().sample(prompts, sampling):
                yield index, ValueError("too long") if answer.text.startswith("1 ") else answer

    made = batch(Refusing())
    assert [group[0].problem_id for group in made] == ["q0", "q2", "q3"]
    assert made.counts["refused"] == 1


def test_a_sampler_without_log_probabilities_is_refused():
    class Bare(Sampler):
        def sample(self, prompts, sampling):
            for index, answer in super().sample(prompts, sampling):
                yield index, replace(answer, logprobs=())

    with pytest.raises(RolloutError, match="returns no log-probabilities or versions"):
        list(batch(Bare()))


def test_no_seed_is_used_twice_and_a_repeated_run_uses_the_same_seeds():
    first, again, later = Sampler(), Sampler(), Sampler()
    list(batch(first)), list(batch(again)), list(batch(later, position=3))
    assert first.asked == again.asked
    assert len({seed for _, seed in first.asked + later.asked}) == 12


def pipeline(way, sampler, minibatches=2, last_step=3, *, submit=by_number, position=0, ahead=None, **settings):
    config = Config(
        ModelConfig("none"),
        DataConfig("none"),
        (StageConfig(SAMPLING.max_tokens),),
        rollout=replace(SETTINGS, **{"prompts": 4, "pipeline": way, **settings}),
        optimizer=OptimizerConfig(minibatches=minibatches),
        run=RunConfig(steps=last_step),
    )
    timeline = SimpleNamespace(clock=time.monotonic, record=lambda *part, batch: None)
    return BatchPipeline(
        config, sampler, None, Endless(), submit, timeline,
        step=0, position=position, ahead=ahead, max_tokens=SAMPLING.max_tokens,
    )  # fmt: skip


def names(stretches):
    return [[[group[0].problem_id for group in minibatch] for minibatch in stretch] for stretch in stretches]


@pytest.mark.parametrize("way", ["sync", "minibatch", "one-off"])
def test_every_pipeline_hands_out_the_same_groups(way):
    made = pipeline(way, Sampler())
    found = []
    for step in (1, 2, 3):
        found += [minibatch for stretch in names(made.ready_minibatches(step)) for minibatch in stretch]
        made.wait_for_sampling()
    assert found == [[f"q{n}", f"q{n + 1}"] for n in range(0, 12, 2)]
    assert made.resume_point() == (12, None)


def test_one_off_samples_the_next_batch_while_it_trains_on_this_one():
    sampler = Sampler()
    made = pipeline("one-off", sampler)
    for _ in made.ready_minibatches(1):
        made.wait_for_sampling()  # instead of learning
        assert len(sampler.asked) == 16
    position, groups = made.resume_point()
    assert position == 8
    assert [group[0].problem_id for group in groups] == ["q4", "q5", "q6", "q7"]
    resumed = pipeline("one-off", Sampler(), position=position, ahead=groups)
    assert names(resumed.ready_minibatches(2)) == [[["q4", "q5"], ["q6", "q7"]]]
    assert names(resumed.ready_minibatches(3)) == [[["q8", "q9"], ["q10", "q11"]]]


def test_errors_while_sampling_are_raised_where_the_batch_is_taken():
    class Broken(Sampler):
        def sample(self, prompts, sampling):
            raise OSError("gone")
            yield

    with pytest.raises(OSError, match="gone"):
        list(pipeline("sync", Broken()).ready_minibatches(1))


def test_a_batch_that_does_not_arrive_is_explained():
    def never(answer, task):
        return Future()

    made = pipeline("sync", Sampler(), submit=never, max_seconds=0.2)
    with pytest.raises(RolloutError, match=r"no whole batch within 0\.2 s, only 0 groups"):
        list(made.ready_minibatches(1))
