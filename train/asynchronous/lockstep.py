"""The pipelines with one sampler, whose weights change between batches: sync, minibatch and one-off.

A batch is sampled in rounds. A round samples the expected number of groups that the batch still needs, given the
previous share of groups with a learning signal. Once all of them have rewards, the next round replaces the groups
without a signal (DAPO's dynamic sampling). A repeated run samples the same groups together, and gets bit-identical
completions.

Sampling runs in another thread, so the trainer can time out after rollout.max_seconds.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from math import ceil, inf

from train.asynchronous.controller import Controller
from train.asynchronous.events import Event
from train.asynchronous.messages import Lease, SubmitRequest
from train.asynchronous.pipeline import (
    Pipeline,
    TimelineWriter,
    count_filtered_groups,
    select_probe_prompts,
    split_into_minibatches,
)
from train.asynchronous.rollout_worker import encode_refusal, encode_result
from train.config import Config
from train.errors import RolloutError
from train.learning.learner import Learner
from train.rollouts.groups import Group
from train.rollouts.prompt_dataset import PromptDataset
from train.rollouts.weight_sync import compare_samples, make_probe, publish
from train.sampling.protocol import UpdatableSampler
from train.weights.manifest import WeightManifest

_WORKER = "trainer"  # worker name under which the sampler takes leases


class LockstepPipeline(Pipeline):
    """A pipeline with one sampler and a controller whose staleness bound is 0, or 1 in one-off.

    controller  has the open groups of the checkpoint, if any
    step        last completed step
    share       share of that step's groups with a signal
    """

    sampler: UpdatableSampler

    def __init__(
        self,
        config: Config,
        controller: Controller,
        sampler: UpdatableSampler,
        learner: Learner,
        prompts: PromptDataset,
        timeline: TimelineWriter,
        *,
        step: int,
        share: float,
    ) -> None:
        self.sampler = sampler
        self._config = config
        self._controller = controller
        self._learner = learner
        self._prompts = prompts
        self._timeline = timeline
        self._step = step
        self._position = controller.position  # position in the data after this step's batch
        self._sampling_thread: threading.Thread | None = None  # samples the next batch
        self._deadline = inf  # for the next batch
        self._n_rounds = 0
        self._share = share

    def publish(self, step: int, groups: Sequence[Group] = ()) -> dict[str, float]:
        engine = self._config.engine
        # The time limit allows for the restart of an engine that has exited.
        limits = {"max_error": self._config.max_parity_error, "seconds": engine.load_seconds + engine.sync_seconds}
        metrics = publish(self._learner, self.sampler, step, make_probe(self._learner, groups), **limits)
        if not groups:
            prompts, temperature = select_probe_prompts(self._prompts, step), self._config.rollout.temperature
            metrics |= compare_samples(self._learner, self.sampler, step, prompts, temperature=temperature, **limits)
            # A second load resets the engine's cache, so later samples do not depend on the comparison.
            publish(self._learner, self.sampler, step, None, **limits)
        self._controller.publish_weights(WeightManifest(step))
        return metrics

    def yield_minibatches(self, step: int) -> Iterator[list[list[Group]]]:
        pipeline, n_minibatches = self._config.rollout.pipeline, self._config.optimizer.minibatches
        self._step = step
        self.wait_seconds = self.sampling_seconds = 0.0
        if self._sampling_thread is None:
            self._start_sampling(batch=step)
        if pipeline == "minibatch":
            start, n_prompts = 0, self._config.rollout.prompts
            for end in (number * n_prompts // n_minibatches for number in range(1, n_minibatches + 1)):
                if groups := self._wait_for_groups(end)[start:end]:
                    yield [groups]
                start = end
        groups = self._take_batch(step)
        if groups and pipeline == "one-off" and step < self._config.run.steps:
            self._start_sampling(batch=step + 1)
        if groups and pipeline == "sync" and self._config.evaluation.where != "idle":
            self.sampler.sleep()
        if groups and pipeline != "minibatch":
            yield split_into_minibatches(groups, n_minibatches)

    def wait_until_idle(self) -> None:
        if self._sampling_thread is not None:
            self._sampling_thread.join()

    def wait_for_sampling(self) -> None:
        if self._sampling_thread is not None:
            self._wait_for_groups(inf)

    def get_resume_point(self) -> tuple[int, float, Sequence[Event]]:
        return self._controller.position, self._share, self._controller.export_open_groups()

    def set_max_tokens(self, max_tokens: int) -> None:
        self._controller.set_max_tokens(max_tokens)

    def collect_metrics(self) -> dict[str, float]:
        return {"epoch": self._position / len(self._prompts)}

    def _wait_for_groups(self, n: float) -> list[Group]:
        start_time = time.monotonic()
        try:
            return self._controller.wait_for_groups(n, self._deadline - start_time)
        finally:
            self.wait_seconds += time.monotonic() - start_time

    def _take_batch(self, step: int) -> list[Group]:
        """Wait for this step's batch, and take it. It is partial if max_rounds rounds did not fill it."""
        self._wait_for_groups(inf)
        groups = self._controller.try_take_batch(step - 1)
        assert groups is not None  # `_wait_for_groups` returned, so the batch is complete
        self._sampling_thread = None
        self.signal_counts = count_filtered_groups(self._controller, self._n_rounds)
        self._position = self._controller.position
        return groups

    def _start_sampling(self, *, batch: int) -> None:
        self._n_rounds = 0
        self._deadline = time.monotonic() + self._config.rollout.max_seconds
        self._sampling_thread = threading.Thread(target=self._sample, args=(batch,), name="rollouts", daemon=True)
        self._sampling_thread.start()

    def _sample(self, batch: int) -> None:
        try:
            rollout, n_leased = self._config.rollout, 0
            limit = rollout.max_rounds * rollout.prompts
            while (missing := rollout.prompts - self._controller.n_ready) > 0 and n_leased < limit:
                leases = self._controller.lease_groups(_WORKER, min(ceil(missing / self._share), limit - n_leased))
                self._n_rounds += 1
                self._sample_round(leases, batch)
                n_leased += len(leases)
                self._share = max(self._controller.n_ready, 1) / n_leased
            self._controller.complete_batch()
        except BaseException as error:
            self._controller.fail(error)

    def _sample_round(self, leases: Sequence[Lease], batch: int) -> None:
        """Sample the completions of these leases, and wait until they are scored."""
        completions = [(lease, number) for lease in leases for number in range(len(lease.seeds))]
        prompts = ((lease.prompt, lease.seeds[number]) for lease, number in completions)
        step, clock = self._step, self._timeline.clock
        start_time = clock()
        for index, completion in self.sampler.sample(prompts, leases[0].sampling_params):
            lease, number = completions[index]
            if isinstance(completion, ValueError):
                result = encode_refusal(lease, number)
            else:
                result = encode_result(lease, number, completion)
            (status,) = self._controller.submit_results(SubmitRequest(_WORKER, (result,)))
            if status == "broken":
                raise RolloutError("the sampler's results are invalid; see the warning above")
        sampled_at = clock()
        self.sampling_seconds += sampled_at - start_time
        self._timeline.record(step, "sample", start_time, sampled_at, batch=batch)
        self._controller.wait_until_scored()
        # Most rewards are computed during sampling; this interval begins after the last completion.
        self._timeline.record(step, "reward", sampled_at, clock(), batch=batch)
