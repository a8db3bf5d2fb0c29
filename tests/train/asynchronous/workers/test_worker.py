"""A worker with a real engine samples for a real controller of the same process."""

import random
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import fleet
import pytest
import tiny_world
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rewards.reward import Task
from train.asynchronous.dispatcher import ControllerSettings
from train.asynchronous.rollout_worker import RolloutWorker
from train.engine_options import EngineOptions
from train.errors import ControllerUnreachable, ParityError
from train.rollouts.groups import derive_sample_seed
from train.rollouts.prompt_dataset import TrainingPrompt
from train.sampling.open_engine import open_sampler
from train.sampling.protocol import SamplingParams
from train.sampling.transformers import TransformersSampler
from train.weights.source import InProcessTransport

pytestmark = pytest.mark.filterwarnings("ignore")  # of vLLM, torch and transformers about each other

SETTINGS = ControllerSettings(
    prompts_per_batch=3, completions_per_prompt=4, total_steps=5, max_tokens=24, max_staleness=0, online_filter=False
)
SECONDS = 120


@pytest.fixture(scope="module")
def model(tiny_model):
    return AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)


@pytest.fixture(scope="module")
def prompts(tiny_model):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    return Named(
        {
            name: tuple(
                tokenizer.apply_chat_template(
                    tiny_world.chat(tiny_world.statement(name)), add_generation_prompt=True, return_dict=False
                )
            )
            for name in ("larger", "product", "sum", "difference")
        }
    )


class Named:
    """The questions of tests/tiny_world.py, again and again."""

    def __init__(self, ids):
        self.ids = ids

    def get_prompt(self, position):
        name = list(self.ids)[position % len(self.ids)]
        return TrainingPrompt(name, self.ids[name], Task())


@pytest.fixture
def engine(tiny_model):
    return TransformersSampler(str(tiny_model))


def controller_of(prompts, settings=SETTINGS, **changes):
    return fleet.controller(settings, prompts=prompts, now=time.monotonic, submit=length_decides, **changes)


def length_decides(answer, task):
    return fleet.scored(float(answer.n_tokens % 2))


@contextmanager
def working(*workers):
    """Run workers in threads until the block ends; their errors are in the list that it gets."""
    errors = []

    def run(worker):
        try:
            worker.run()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        yield errors
    finally:
        for worker in workers:
            worker.leave()
        for thread in threads:
            thread.join(SECONDS)
        assert not any(thread.is_alive() for thread in threads)


def publish(controller, source, model, version):
    controller.publish_weights(source.publish(model.named_parameters(), version, None, 1.001))


@pytest.mark.parametrize("kind", ["transformers", pytest.param("vllm", marks=pytest.mark.thorough)])
def test_with_no_staleness_it_draws_what_the_sync_pipeline_draws_to_the_last_bit(kind, tiny_model, model, prompts):
    settings = replace(
        SETTINGS, prompts_per_batch=6, completions_per_prompt=14
    )  # more answers than either engine draws at once
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**tiny_world.ENVIRONMENT, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}.items():
            patch.setenv(name, value)
        opened = (
            TransformersSampler(str(tiny_model))
            if kind == "transformers"
            else open_sampler(str(tiny_model), None, EngineOptions.from_table({"concurrency": 16}))
        )
    try:
        source = InProcessTransport()
        controller = controller_of(prompts, settings, seed=7)
        opened.load([(name, tensor.detach()) for name, tensor in model.named_parameters()], 0)
        asked = [
            (prompts.get_prompt(place).prompt_ids, derive_sample_seed(7, place, n))
            for place in range(6)
            for n in range(14)
        ]
        drawn = dict(opened.sample(asked, SamplingParams(1.0, 1.0, 24, logprobs=True)))
        publish(controller, source, model, 0)
        with working(RolloutWorker(controller, opened, source, name="w")):
            groups = controller.wait_for_batch(0, SECONDS)
    finally:
        opened.close()
    wanted = [(drawn[index].token_ids, drawn[index].logprobs) for index in range(len(asked))]
    assert [(rollout.token_ids, rollout.logprobs) for group in groups for rollout in group] == wanted


def test_answers_go_on_under_new_weights_and_are_taken(engine, model, prompts):
    source = InProcessTransport()
    controller = controller_of(prompts, replace(SETTINGS, max_staleness=2))
    loads = []
    worker = RolloutWorker(
        controller, engine, source, name="w", on_loaded=lambda manifest, _: loads.append(manifest.version)
    )
    publish(controller, source, model, 0)
    with working(worker) as errors:
        seen = set()
        for version in range(4):
            for group in controller.wait_for_batch(version, SECONDS):
                for rollout in group:
                    assert all(version - drawn <= 2 for drawn in rollout.versions)
                    seen |= set(rollout.versions)
            publish(controller, source, model, version + 1)
    assert errors == []
    assert loads == sorted(loads)
    assert len(seen) > 1


def test_a_worker_that_draws_whole_leases_changes_its_weights_only_between_them(engine, model, prompts):
    source = InProcessTransport()
    controller = controller_of(prompts, replace(SETTINGS, max_staleness=2))
    worker = RolloutWorker(controller, engine, source, name="w", whole_leases=True)
    publish(controller, source, model, 0)
    with working(worker) as errors:
        seen = []
        for version in range(5):
            for group in controller.wait_for_batch(version, SECONDS):
                (drawn_with,) = {drawn for rollout in group for drawn in rollout.versions}
                seen.append(drawn_with)
            publish(controller, source, model, version + 1)
    assert errors == []
    assert len(set(seen)) > 1  # it has loaded new weights, between two groups


class Damaged(InProcessTransport):
    """Weights of version 1 arrive with one tensor off by a hundredth."""

    def fetch(self, manifest):
        weights = super().fetch(manifest)
        (name, tensor), *others = weights
        return [(name, tensor + 0.01), *others] if manifest.version == 1 else weights


def test_weights_that_did_not_arrive_end_the_worker_and_nothing_is_drawn_with_them(engine, model, prompts):
    source = Damaged()
    controller = controller_of(prompts)
    publish(controller, source, model, 0)
    with working(RolloutWorker(controller, engine, source, name="w")) as errors:
        controller.wait_for_batch(0, SECONDS)
        publish(controller, source, model, 1)
        while not errors:
            time.sleep(0.05)
    assert isinstance(errors[0], ParityError)
    assert controller.try_take_batch(1) is None
    assert controller.collect_metrics()["groups/outstanding"] == 0


class Gone:
    """A controller that cannot be reached for a number of calls; then it can lose a quarter of its replies."""

    def __init__(self, controller, calls, *, loses=True):
        self.loses = loses
        self.controller = controller
        self.left = calls
        self.luck = random.Random(0)  # every fourth reply could be that to the same call, again and again
        self.lock = threading.Lock()

    def __getattr__(self, name):
        def call(*arguments):
            with self.lock:
                self.left -= 1
                gone, lost = self.left > 0, self.loses and self.luck.random() < 0.25
            if gone:
                raise ControllerUnreachable("nothing listens there")
            if name == "wait_for_weights":  # a connection would break, a call in the same process would wait on
                arguments = arguments[0], min(arguments[1], 0.2)
            result = getattr(self.controller, name)(*arguments)
            if lost:
                raise ControllerUnreachable("the reply was lost")
            return result

        return call


def test_a_worker_waits_for_a_controller_that_is_gone_and_repeats_what_was_lost(engine, model, prompts):
    source = InProcessTransport()
    settings = replace(SETTINGS, max_staleness=1, worker_timeout_seconds=1.0)
    controller = controller_of(prompts, settings)
    publish(controller, source, model, 0)
    with working(RolloutWorker(Gone(controller, 5), engine, source, name="w", beat_seconds=0.2)) as errors:
        for version in range(3):
            groups = controller.wait_for_batch(version, SECONDS)
            assert [len(group) for group in groups] == [4, 4, 4]
            publish(controller, source, model, version + 1)
    assert errors == []


@pytest.mark.parametrize(
    "step",
    [pytest.param(0, id="an earlier step"), pytest.param(1, id="the same step", marks=pytest.mark.thorough)],
)
def test_a_run_that_continues_from_an_earlier_step_gets_its_own_weights_loaded(engine, model, prompts, step):
    source = InProcessTransport()
    killed = controller_of(prompts)
    publish(killed, source, model, 0)
    calls = Gone(killed, 0, loses=False)
    loads = []
    worker = RolloutWorker(calls, engine, source, name="w", on_loaded=lambda new, _: loads.append(new.version))
    with working(worker) as errors:
        killed.wait_for_batch(0, SECONDS)
        publish(killed, source, model, 1)
        while loads != [0, 1]:
            time.sleep(0.02)
        continued = controller_of(prompts, step=step, position=3 * step)
        with torch.no_grad():
            model.lm_head.weight += 0.01
        publish(continued, source, model, step)
        calls.controller, calls.left = continued, 5  # the trainer is killed and started again
        killed.close()
        assert len(continued.wait_for_batch(step, SECONDS)) == 3
    with torch.no_grad():
        model.lm_head.weight -= 0.01
    assert errors == []
    assert loads == [0, 1, step]


def test_patience_ends_with_words(engine, model, prompts):
    worker = RolloutWorker(Gone(None, 10**9), engine, InProcessTransport(), name="w", retry_timeout_seconds=0.5)
    with pytest.raises(ControllerUnreachable, match=r"nothing listens there .tried for .* s.. Start the worker again"):
        worker.run()


def test_a_worker_that_leaves_gives_its_groups_back_and_another_one_draws_them(tiny_model, engine, model, prompts):
    source = InProcessTransport()
    settings = replace(SETTINGS, max_tokens=400)
    controller = controller_of(prompts, settings)
    publish(controller, source, model, 0)
    first = RolloutWorker(controller, engine, source, name="first")
    with working(first):
        while controller.collect_metrics()["groups/running"] < 3:
            time.sleep(0.02)
    assert controller.collect_metrics()["groups/running"] == 0
    with working(RolloutWorker(controller, TransformersSampler(str(tiny_model)), source, name="second")):
        assert len(controller.wait_for_batch(0, SECONDS)) == 3


def test_a_prompt_that_the_engine_cannot_take_is_given_up(engine, model, prompts):
    source = InProcessTransport()
    with_long = Named({**prompts.ids, "long": (5,) * 2000})
    controller = controller_of(with_long, replace(SETTINGS, prompts_per_batch=5))
    publish(controller, source, model, 0)
    with working(RolloutWorker(controller, engine, source, name="w")):
        groups = controller.wait_for_batch(0, SECONDS)
    assert "long" not in {group[0].problem_id for group in groups}
    assert controller.count_signals()["refused"] == 1


def test_a_run_that_is_over_ends_its_workers(engine, model, prompts):
    source = InProcessTransport()
    controller = controller_of(prompts)
    publish(controller, source, model, 0)
    worker = RolloutWorker(controller, engine, source, name="w")
    thread = threading.Thread(target=worker.run)
    thread.start()
    controller.wait_for_batch(0, SECONDS)
    controller.close()
    thread.join(SECONDS)
    assert not thread.is_alive()
