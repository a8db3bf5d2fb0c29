"""A run's controller with all that works around it: journal, publisher, timer, server, and this machine's workers."""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from secrets import token_urlsafe
from socket import gethostname
from typing import Any

from train.asynchronous.controller import Controller
from train.asynchronous.dispatcher import ControllerSettings
from train.asynchronous.journal import FOLDER, RunJournal
from train.asynchronous.local_workers import LocalWorkers
from train.asynchronous.messages import ReleaseRequest
from train.asynchronous.pipeline import AsynchronousPipeline
from train.asynchronous.rollout_process import TOKEN_VARIABLE
from train.asynchronous.rollout_worker import RolloutWorker
from train.asynchronous.server import ControllerServer
from train.config import Config
from train.learning.learner import Learner
from train.rollouts.groups import SubmitForReward
from train.rollouts.prompt_dataset import PromptDataset
from train.sampling.open_engine import engine_spec, open_engine_in_process
from train.sampling.text import tokenize_prompt
from train.weights.shared_memory import SharedMemoryTransport
from train.weights.source import InProcessTransport

log = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1:0"
_LOGS = "workers"  # folder of a run, for what its workers say
_CHECK_SECONDS = 1.0
_SHUTDOWN_SECONDS = 10.0


@contextmanager
def open_async_pipeline(
    config: Config,
    run: Path,
    learner: Learner,
    questions: PromptDataset,
    tokenizer: Any,
    submit: SubmitForReward,
    *,
    step: int,
    position: int,
    max_tokens: int,
) -> Iterator[AsynchronousPipeline]:
    """Yield the asynchronous pipeline of a run, with the controller and the workers that belong to it.

    run         folder of the run; its journal is continued
    tokenizer   a tokenizer of transformers
    submit      has an answer scored
    step        the step that was made last
    position    the position in the data of the next prompt, if there is no journal
    max_tokens  length limit of the answers

    Raises CheckpointError if the journal is damaged, SamplerError if an engine cannot be started, and ConfigError.
    """
    with ExitStack() as stack:
        controller = Controller(
            questions,
            controller_settings(config, max_tokens, vocabulary=_vocabulary(config.model.path)),
            RunJournal.open(run / FOLDER),
            submit=submit,
            decode=lambda ids: str(tokenizer.decode(ids, skip_special_tokens=True)),
            encode=lambda prompt: tokenize_prompt(tokenizer, prompt, config.prompt.template_arguments),
            seed=config.run.seed,
            step=step,
            position=position,
        )
        stack.callback(controller.close)
        stack.enter_context(_repeated(controller.expire_leases, _CHECK_SECONDS))
        in_processes = config.workers.local and bool(config.engine.gpus)
        serves = in_processes or bool(config.workers.listen)
        weights = stack.enter_context(closing(SharedMemoryTransport() if serves else InProcessTransport()))
        pipeline = AsynchronousPipeline(config, controller, learner, weights, questions)
        if config.workers.local and not in_processes:
            engine = stack.enter_context(closing(open_engine_in_process(config)))
            worker = RolloutWorker(controller, engine, weights, name="trainer", loaded=pipeline.record_load_metrics)
            stack.enter_context(_at_work(worker, controller))
        if serves:
            token = _token(config)
            server = stack.enter_context(_server(config, run, controller, token))
            if in_processes:
                stack.enter_context(_local_workers(config, run, controller, server.url, token))
        stack.enter_context(_over_if_all_is_well(controller))
        yield pipeline


def _token(config: Config) -> str | None:
    """Return what workers must know. Without a choice of the user's, other users of this machine must not get in."""
    return os.environ.get(TOKEN_VARIABLE) or (None if config.workers.listen else token_urlsafe())


def _server(config: Config, run: Path, controller: Controller, token: str | None) -> ControllerServer:
    """Return the server for workers in other processes, on this machine only unless the configuration says more."""
    listens = config.workers.listen
    server = ControllerServer(
        controller,
        listens or _LOOPBACK,
        token=token,
        run=run.name,
        spec=engine_spec(config, run.name),
        fail=controller.fail,
    )
    if listens:
        url = server.url.replace("//0.0.0.0:", f"//{gethostname()}:").replace("//[::]:", f"//{gethostname()}:")
        log.warning("workers can join: curate rollout --controller %s", url)
    return server


def _local_workers(config: Config, run: Path, controller: Controller, url: str, token: str | None) -> LocalWorkers:
    return LocalWorkers(
        config.engine,
        url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:"),
        token,
        run / _LOGS,
        gone=lambda name: controller.release(ReleaseRequest(name)),
        fail=controller.fail,
    )


def controller_settings(config: Config, max_tokens: int, *, vocabulary: int) -> ControllerSettings:
    """Return what the controller has to know of the configuration."""
    rollout = config.rollout
    return ControllerSettings(
        prompts_per_batch=rollout.prompts,
        completions_per_prompt=rollout.completions,
        total_steps=config.run.steps,
        max_tokens=max_tokens,
        max_staleness=rollout.staleness,
        max_running_groups=rollout.most_running,
        online_filter=rollout.online_filter,
        max_rounds=rollout.max_rounds,
        temperature=rollout.temperature,
        count_truncated_rewards=config.objective.overlong != "unknown",
        process_supervision=config.objective.supervision == "process",
        weight_load_timeout_seconds=config.engine.sync_seconds,
        vocab_size=vocabulary,
    )


def _vocabulary(path: str) -> int:
    """Return the number of tokens of a model, which can be more than its tokenizer knows."""
    from transformers import AutoConfig

    settings = AutoConfig.from_pretrained(str(Path(path).expanduser())).get_text_config()
    return int(settings.vocab_size)


@contextmanager
def _repeated(call: Callable[[], None], seconds: float) -> Iterator[None]:
    """Call a function again and again in another thread."""
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
def _at_work(worker: RolloutWorker, controller: Controller) -> Iterator[None]:
    """Let a worker work in another thread. If it fails, the trainer gets the error at its next call."""

    def work() -> None:
        try:
            worker.run()
        except BaseException as error:
            controller.fail(error)

    thread = threading.Thread(target=work, name="worker", daemon=True)
    thread.start()
    try:
        yield
    finally:
        controller.close()
        worker.leave()
        thread.join(_SHUTDOWN_SECONDS)


@contextmanager
def _over_if_all_is_well(controller: Controller) -> Iterator[None]:
    """Tell workers that the run is over if it is. After an error they wait for it to be continued."""
    yield
    controller.close()
