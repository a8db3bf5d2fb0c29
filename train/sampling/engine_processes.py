"""vLLM engines in child processes, on other GPUs than the trainer's. Weights arrive by shared memory or NCCL.

The trainer restarts an engine that exits, loads the newest weights, and requests the missing completions with the same
seeds. More than engine.restarts_per_hour restarts raise SamplerError.
"""

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from torch import Tensor

from train import config
from train.child import RestartBudget
from train.errors import ParityError, SamplerError, TransferError
from train.sampling.engine_spec import clear_trainer_environment, resolve_visible_devices, split_gpus_by_engine
from train.sampling.proof import CHECKED_SHARE_METRIC, prove
from train.sampling.protocol import SampledCompletion, SamplingParams, SeededPrompt
from train.weights.manifest import Probe, WeightManifest
from train.weights.nccl import BACKEND, NcclSender
from train.weights.source import SharedMemoryTransport

log = logging.getLogger(__name__)

_POLL_SECONDS = 1.0  # interval of liveness checks


class EngineProcesses:
    """A sampler with one engine per `tensor_parallel` GPUs. Raises SamplerError if an engine does not start."""

    def __init__(self, model: str, settings: config.EngineConfig, options: dict[str, Any]) -> None:
        size = settings.tensor_parallel
        self._settings = settings
        self._arguments = [(model, gpus, options) for gpus in split_gpus_by_engine(settings.gpus, size)]
        # One version suffices, because all engines have read it when `update_weights` returns.
        self._memory = SharedMemoryTransport(max_versions=1)
        self._manifest: WeightManifest | None = None  # manifest of the newest weights
        self._version = 0  # version of the weights in transfer by NCCL
        self._sender: NcclSender | None = None
        self._restarts = RestartBudget(settings.restarts_per_hour)
        self._closed = False
        self._engines: list[_Engine] = []
        try:
            if settings.transfer == BACKEND:
                self._sender = NcclSender([size] * len(self._arguments), self._call)
            self._engines += [_Engine(*arguments) for arguments in self._arguments]
            for engine in self._engines:
                engine.expect("ready", settings.load_seconds)
        except BaseException as error:
            self.close()
            if isinstance(error, TransferError):
                raise SamplerError(str(error)) from error
            raise

    def sample(
        self, prompts: Iterable[SeededPrompt], sampling: SamplingParams
    ) -> Iterator[tuple[int, SampledCompletion | ValueError]]:
        """Yield (index, completion) as completions finish, as `Sampler` does. Reads all prompts first."""
        missing: list[dict[int, SeededPrompt]] = [{} for _ in self._engines]
        for index, prompt in enumerate(prompts):
            missing[index % len(missing)][index] = prompt
        for number, engine in enumerate(self._engines):
            if missing[number]:
                engine.send("sample", list(missing[number].items()), sampling)
        try:
            while any(missing) and not self._closed:
                numbers = {engine.connection: number for number, engine in enumerate(self._engines) if missing[number]}
                readable = wait(list(numbers), timeout=_POLL_SECONDS)
                for number in numbers.values():
                    engine = self._engines[number]
                    try:
                        if engine.connection in readable:
                            index, completion = engine.receive("answer")
                            del missing[number][index]
                            yield index, completion
                        elif not engine.process.is_alive():
                            raise SamplerError("its process has ended")
                    except SamplerError as error:
                        self._restart(number, error)
                        self._engines[number].send("sample", list(missing[number].items()), sampling)
            if self._closed:
                raise SamplerError("the sampler was closed while it was sampling")
        finally:
            if any(missing) and not self._closed:  # the caller stopped early
                self.close()

    def update_weights(
        self, weights: Iterable[tuple[str, Tensor]], version: int, probe: Probe | None, max_error: float
    ) -> dict[str, float]:
        try:
            if self._sender is None or self._manifest is None:
                self._manifest = self._memory.publish(weights, version, probe, max_error)
            else:  # the first transfer established names and shapes, and verified the rest
                self._version = version
                sent = self._sender.send(weights, self._manifest.tensors)
                self._manifest = WeightManifest(version, tensors=tuple(sent), probe=probe, max_error=max_error)
                self._memory.close()
        except TransferError as error:
            raise SamplerError(str(error)) from error
        for engine in self._engines:
            engine.send("load" if self._manifest.files else "prove", self._manifest)
        metrics: list[dict[str, float]] = []
        for number, engine in enumerate(self._engines):
            try:
                metrics += engine.expect("loaded", self._settings.sync_seconds)
            except SamplerError as error:
                metrics += self._restart(number, error)
        # Report the worst engine for each metric. Lower is better for all metrics but one.
        return {
            name: (min if name == CHECKED_SHARE_METRIC else max)(each[name] for each in metrics) for name in metrics[0]
        }

    def _call(self, method: str, arguments: Sequence[Mapping[str, Any]]) -> None:
        """Run one phase of an NCCL transfer in all engines; see `CallEngines` in train/weights/nccl.py."""
        for engine, of_engine in zip(self._engines, arguments, strict=True):
            engine.send("receive", method, of_engine, self._version)
        for engine in self._engines:
            engine.expect("received", self._settings.sync_seconds)

    def sleep(self) -> None:
        """Do nothing: engines and trainer share no GPU."""

    def close(self) -> None:
        self._closed = True
        for engine in self._engines:
            engine.end()
        if self._sender is not None:
            self._sender.close()
        self._memory.close()

    def _restart(self, number: int, error: SamplerError) -> list[dict[str, float]]:
        """Restart an engine, and load the newest weights, if any. Return the metrics of their proof."""
        if self._closed:  # another thread closed the sampler, so the engine did not fail
            raise error
        if self._sender is not None and self._manifest is not None and not self._manifest.files:
            raise SamplerError(
                f'an engine failed, and with engine.transfer = "nccl" the others cannot continue without it: {error}. '
                "The same command with --resume continues."
            ) from error
        if not self._restarts.spend(time.monotonic()):
            raise SamplerError(
                f"engines failed more than engine.restarts_per_hour = {self._restarts.per_hour} times within an hour, "
                f"the last time with: {error}"
            ) from error
        log.warning("an engine failed and is restarted: %s", error)
        self._engines[number].end()
        engine = self._engines[number] = _Engine(*self._arguments[number])
        if self._closed:
            engine.end()
        engine.expect("ready", self._settings.load_seconds)
        if self._manifest is None:
            return []
        engine.send("load", self._manifest)
        return engine.expect("loaded", self._settings.sync_seconds)


class _Engine:
    def __init__(self, model: str, gpus: Sequence[int], options: dict[str, Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        # Not daemonic: daemonic processes cannot have children, and vLLM starts one for each GPU.
        self.process = context.Process(target=_serve, args=(theirs, model, tuple(gpus), options), name="sampler")
        self.process.start()
        theirs.close()

    def send(self, *message: Any) -> None:
        try:
            self.connection.send(message)
        except OSError:
            log.debug("cannot send to an engine, which has exited; the next `receive` raises SamplerError")

    def expect(self, kind: str, seconds: float) -> list[Any]:
        """Wait for the engine's next message. Raises SamplerError if it is of another kind, and after the timeout."""
        deadline = time.monotonic() + seconds
        while not self.connection.poll(_POLL_SECONDS):
            if not self.process.is_alive():
                raise SamplerError(f"its process has ended with status {self.process.exitcode}")
            if time.monotonic() > deadline:
                raise SamplerError(f"timed out: it did not send {kind!r} within {seconds:g} s")
        return self.receive(kind)

    def receive(self, kind: str) -> list[Any]:
        try:
            message: tuple[Any, ...] = self.connection.recv()
        except (EOFError, OSError):
            raise SamplerError("its process has ended") from None
        message_kind, *content = message
        if message_kind == "differs":
            raise ParityError(str(content[0]))
        if message_kind == "failed":
            raise SamplerError(str(content[0]))
        if message_kind != kind:
            raise SamplerError(f"it sent {message_kind!r} instead of {kind!r}")
        return content

    def end(self) -> None:
        self.connection.close()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _serve(connection: Connection, model: str, gpus: Sequence[int], options: dict[str, Any]) -> None:
    """Run an engine in this process, and execute the trainer's messages until the connection is closed."""
    # Ctrl-C and torchrun signal all processes of a run, but the trainer needs the engine until it has saved.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    clear_trainer_environment()
    try:
        os.environ["CUDA_VISIBLE_DEVICES"] = resolve_visible_devices(gpus)
        from train.sampling.vllm import VllmSampler

        sampler, source = VllmSampler(model, **options), SharedMemoryTransport()
        connection.send(("ready",))
        while True:
            try:
                kind, *content = connection.recv()
            except (EOFError, OSError):
                return  # the trainer closed the connection
            if kind in ("load", "prove"):
                (manifest,) = content
                if kind == "load":
                    sampler.load(source.fetch(manifest), manifest.version)
                connection.send(("loaded", prove(sampler, manifest)))
            elif kind == "receive":
                sampler.receive(*content)
                connection.send(("received",))
            else:
                numbered, sampling = content
                for index, completion in sampler.sample([prompt for _, prompt in numbered], sampling):
                    connection.send(("answer", numbered[index][0], completion))
    except ParityError as error:
        connection.send(("differs", str(error)))
    except ConnectionError:
        return  # the trainer closed the connection
    except (SamplerError, TransferError, OSError) as error:
        connection.send(("failed", str(error)))


def _end_with_parent() -> None:
    """Wait until the trainer exits, then end this process, even during a completion."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
