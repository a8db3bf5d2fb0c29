"""Asynchronous pipeline with its controller, server and workers, and the pipeline that replays a journal.

Sampling never waits for training. Training never waits for engines to load weights: `publish` returns once workers can
fetch them.
"""

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from math import nan
from pathlib import Path
from secrets import token_urlsafe
from socket import gethostname

from train.asynchronous import journal
from train.asynchronous.controller import Controller
from train.asynchronous.events import Event
from train.asynchronous.local_workers import LocalWorkers
from train.asynchronous.messages import ReleaseRequest
from train.asynchronous.pipeline import Pipeline, count_filtered_groups, select_probe_prompts, split_into_minibatches
from train.asynchronous.rollout_process import TOKEN_VARIABLE
from train.asynchronous.rollout_worker import RolloutWorker
from train.asynchronous.server import ControllerServer, replace_wildcard
from train.config import Config
from train.errors import CheckpointError, NoRunError, RolloutError
from train.learning.learner import Learner
from train.rollouts.groups import Group
from train.rollouts.prompt_dataset import PromptDataset
from train.rollouts.weight_sync import compare_samples, make_probe
from train.sampling.open_engine import build_engine_spec, open_engine_in_process
from train.sampling.sampler_thread import build_start_timeout, use_own_stream
from train.weights.manifest import WeightManifest
from train.weights.source import InProcessTransport, SharedMemoryTransport, WeightPublisher, WeightSource

log = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1:0"
_LOGS = "workers"  # subfolder of a run with the logs of its workers
_CHECK_SECONDS = 1.0
_SHUTDOWN_SECONDS = 10.0


class AsynchronousPipeline(Pipeline):
    """A pipeline that takes its batches from a controller with asynchronous workers."""

    sampling_seconds = nan  # the metric idle/sampler comes from the workers instead

    def __init__(
        self,
        config: Config,
        controller: Controller,
        learner: Learner,
        publisher: WeightPublisher,
        prompts: PromptDataset,
    ) -> None:
        self.sampler = controller.create_sampler(config.rollout.max_seconds)
        self._config = config
        self._controller = controller
        self._learner = learner
        self._publisher = publisher
        self._prompts = prompts
        self._load_metrics: dict[str, float] = {}

    def publish(self, step: int, groups: Sequence[Group] = ()) -> dict[str, float]:
        parity, probe = self._config.max_parity_error, make_probe(self._learner, groups)
        self._controller.publish_weights(self._publisher.publish(self._learner.export_weights(), step, probe, parity))
        if groups or not self._config.workers.local:
            return self._load_metrics
        rollout, prompts = self._config.rollout, select_probe_prompts(self._prompts, step)
        compared = compare_samples(
            self._learner, self.sampler, step, prompts, temperature=rollout.temperature, max_error=parity,
            seconds=rollout.max_seconds,
        )  # fmt: skip
        return {**self._load_metrics, **compared}

    def record_load_metrics(self, manifest: WeightManifest, metrics: dict[str, float]) -> None:
        """Record the metrics of a weight load by the worker in this process."""
        self._load_metrics = metrics

    def yield_minibatches(self, step: int) -> Iterator[list[list[Group]]]:
        start_time = time.monotonic()
        groups = self._controller.wait_for_batch(step - 1, self._config.rollout.max_seconds)
        self.wait_seconds = time.monotonic() - start_time
        n_groups = sum(self._controller.count_signals().values())
        self.signal_counts = count_filtered_groups(self._controller, -(-n_groups // self._config.rollout.prompts))
        if groups:
            yield split_into_minibatches(groups, self._config.optimizer.minibatches)

    def get_resume_point(self) -> tuple[int, float, Sequence[Event]]:
        return self._controller.position, 1.0, ()  # the journal restores the open groups

    def set_max_tokens(self, max_tokens: int) -> None:
        self._controller.set_max_tokens(max_tokens)

    def on_checkpoint_saved(self, oldest_step: int) -> None:
        if not self._config.run.keep_journal:
            self._controller.prune_journal(oldest_step)

    def collect_metrics(self) -> dict[str, float]:
        return {**self._controller.collect_metrics(), "epoch": self._controller.position / len(self._prompts)}


@contextmanager
def open_async_pipeline(
    config: Config, run: Path, controller: Controller, learner: Learner, prompts: PromptDataset
) -> Iterator[AsynchronousPipeline]:
    """Start the server and workers of an asynchronous run, yield its pipeline, and stop them on exit.

    run         folder of the run
    controller  with the run's journal; closed on exit

    Raises SamplerError if an engine cannot be started, and ConfigError for invalid settings.
    """
    with ExitStack() as stack:
        stack.callback(controller.close)
        stack.enter_context(_call_periodically(controller.expire_leases, _CHECK_SECONDS))
        in_processes = config.workers.local and bool(config.engine.gpus)
        serves = in_processes or bool(config.workers.listen)
        weights = stack.enter_context(closing(SharedMemoryTransport() if serves else InProcessTransport()))
        pipeline = AsynchronousPipeline(config, controller, learner, weights, prompts)
        if config.workers.local and not in_processes:
            stack.enter_context(_run_worker_in_thread(config, controller, weights, pipeline.record_load_metrics))
        if serves:
            token = _choose_worker_token(config)
            server = stack.enter_context(_start_server(config, run, controller, token))
            if in_processes:
                stack.enter_context(_start_local_workers(config, run, controller, server.url, token))
        stack.enter_context(_close_on_success(controller))
        yield pipeline


def _choose_worker_token(config: Config) -> str | None:
    """Return CURATE_TOKEN. If it is unset: None with workers.listen, else a random token for local workers."""
    return os.environ.get(TOKEN_VARIABLE) or (None if config.workers.listen else token_urlsafe())


def _start_server(config: Config, run: Path, controller: Controller, token: str | None) -> ControllerServer:
    """Start the server for workers in other processes, on the loopback address unless workers.listen is set."""
    address = config.workers.listen
    server = ControllerServer(
        controller,
        address or _LOOPBACK,
        token=token,
        run=run.name,
        spec=build_engine_spec(config, run.name),
        fail=controller.fail,
    )
    if address:
        log.warning("workers can join: curate rollout --controller %s", replace_wildcard(server.url, gethostname()))
    return server


def _start_local_workers(
    config: Config, run: Path, controller: Controller, url: str, token: str | None
) -> LocalWorkers:
    return LocalWorkers(
        config.engine,
        replace_wildcard(url),
        token,
        run / _LOGS,
        on_exit=lambda name: controller.release(ReleaseRequest(name)),
        fail=controller.fail,
    )


@contextmanager
def _call_periodically(call: Callable[[], None], seconds: float) -> Iterator[None]:
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(seconds):
            call()

    thread = threading.Thread(target=repeat, name="controller-timer", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def _run_worker_in_thread(
    config: Config,
    controller: Controller,
    source: WeightSource,
    on_loaded: Callable[[WeightManifest, dict[str, float]], None],
) -> Iterator[None]:
    """Start an engine and its worker in another thread, for the reason in train/sampling/sampler_thread.py.

    The trainer's next call raises errors of that thread. Raises SamplerError if the engine does not start in time.
    """
    started: Future[RolloutWorker] = Future()

    def run_worker() -> None:
        try:
            use_own_stream()
            with closing(open_engine_in_process(config)) as engine:
                worker = RolloutWorker(
                    controller,
                    engine,
                    source,
                    name="trainer",
                    whole_leases=not config.rollout.interrupt,
                    on_loaded=on_loaded,
                )
                started.set_result(worker)
                worker.run()
        except BaseException as error:
            controller.fail(error)
            if not started.done():
                started.set_exception(error)

    thread = threading.Thread(target=run_worker, name="engine", daemon=True)
    thread.start()
    try:
        worker = started.result(config.engine.load_seconds)
    except TimeoutError as error:
        raise build_start_timeout(config.engine.load_seconds) from error
    try:
        yield
    finally:
        controller.close()
        worker.leave()
        thread.join(_SHUTDOWN_SECONDS)


@contextmanager
def _close_on_success(controller: Controller) -> Iterator[None]:
    """Close the controller if the block succeeds. After a failure, workers must retry until the run resumes."""
    yield
    controller.close()


class ReplayPipeline(Pipeline):
    """A pipeline that replays the batches of a journal in order, without engines, rewards or evaluations.

    With the run's own configuration, training reproduces the run's weights.

    run_folder   folder of the run with the journal
    minibatches  number of minibatches in each batch
    step         last completed step

    Raises NoRunError if the run has no journal.
    """

    def __init__(self, run_folder: Path, minibatches: int, *, step: int) -> None:
        folder = run_folder / journal.FOLDER
        if not folder.is_dir():
            raise NoRunError(f'{run_folder} has no journal: only runs with rollout.pipeline = "async" can be replayed')
        self.signal_counts: Counter[str] = Counter()  # stays empty: rejected groups are not counted in a replay
        self._run_folder = run_folder
        self._minibatches = minibatches
        self._batches = journal.read_batches(folder, step)

    def yield_minibatches(self, step: int) -> Iterator[list[list[Group]]]:
        version, groups = next(self._batches, (-1, []))
        if version < 0:
            raise RolloutError(
                f"the journal of {self._run_folder} ends before step {step}. Finish that run with --resume, or "
                f"replay fewer steps: --set run.steps={step - 1}"
            )
        if version != step - 1:
            raise CheckpointError(
                f"step {step} cannot be replayed: the journal of {self._run_folder} begins with step {version + 1}. "
                "Runs with run.keep_journal = true keep earlier steps."
            )
        yield split_into_minibatches(groups, self._minibatches)
