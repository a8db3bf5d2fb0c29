"""vLLM engines in processes of their own, on other GPUs than the trainer's. New weights travel as a file in memory.

An engine that dies is started again with the newest weights, and samples what it still owed: seeds make the answers
the same. One that dies too often ends the run with words.
"""

import logging
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from torch import Tensor

from train import config
from train.sampling.protocol import Completion, Prompt, SamplerError, Sampling

log = logging.getLogger(__name__)

_RESTARTS = 3  # of all engines, in a run
_LOOK_SECONDS = 1.0  # between looks whether those that say nothing are still there
_MEMORY = Path("/dev/shm")
# How the names of the variables begin that torchrun sets.
_TORCHRUN = ("TORCHELASTIC_", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
             "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_")  # fmt: skip


class SamplerProcesses:
    """One engine for each `tensor_parallel` GPUs. options are vLLM's. Raises SamplerError if one does not start."""

    def __init__(self, model: str, settings: config.Engine, options: dict[str, Any]) -> None:
        size = settings.tensor_parallel
        if len(settings.gpus) % size:
            raise SamplerError(f"engine.gpus: {len(settings.gpus)} are not a multiple of tensor_parallel = {size}")
        self._settings = settings
        self._arguments = [
            (model, settings.gpus[first : first + size], options) for first in range(0, len(settings.gpus), size)
        ]
        self._folder: Path | None = None
        self._weights: tuple[Path, int] | None = None
        self._restarts = 0
        self._closed = False
        self._engines: list[_Engine] = []
        try:
            self._engines += [_Engine(*arguments) for arguments in self._arguments]
            for engine in self._engines:
                engine.expect("ready", settings.load_seconds)
        except BaseException:
            self.close()
            raise

    def sample(self, prompts: Iterable[Prompt], sampling: Sampling) -> Iterator[tuple[int, Completion | ValueError]]:
        """(index, completion) as they finish; see protocol.py. The prompts are read to their end at once."""
        owed: list[dict[int, Prompt]] = [{} for _ in self._engines]
        for index, prompt in enumerate(prompts):
            owed[index % len(owed)][index] = prompt
        for number, engine in enumerate(self._engines):
            if owed[number]:
                engine.send("sample", list(owed[number].items()), sampling)
        try:
            while any(owed) and not self._closed:
                asked = {engine.connection: number for number, engine in enumerate(self._engines) if owed[number]}
                answering = wait(list(asked), timeout=_LOOK_SECONDS)
                for number in asked.values():
                    engine = self._engines[number]
                    try:
                        if engine.connection in answering:
                            index, answer = engine.receive("answer")
                            del owed[number][index]
                            yield index, answer
                        elif not engine.alive():
                            raise SamplerError("its process has ended")
                    except SamplerError as error:
                        self._restart(number, error)
                        self._engines[number].send("sample", list(owed[number].items()), sampling)
            if self._closed:
                raise SamplerError("the sampler was closed while it had work")
        finally:
            if any(owed) and not self._closed:  # whoever asked has left: what is on the way would confuse the next
                self.close()

    def load(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take whole tensors under their names in the model's files; see train/sampling/protocol.py."""
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        # Tied tensors share their memory, which that form does not allow.
        tensors = {name: tensor.detach().cpu().clone() for name, tensor in weights}
        if self._folder is None:
            size = sum(tensor.nbytes for tensor in tensors.values())
            roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 2.2 * size  # the old ones and the new ones
            self._folder = Path(tempfile.mkdtemp(prefix="curate-weights-", dir=_MEMORY if roomy else None))
        old, path = self._weights, self._folder / f"{version}.safetensors"
        try:
            save_file(tensors, path)
        except (OSError, SafetensorError) as error:
            raise SamplerError(f"cannot write new weights to {path}: {error}. Make room there.") from error
        self._weights = path, version
        for engine in self._engines:
            engine.send("load", path, version)
        for number, engine in enumerate(self._engines):
            try:
                engine.expect("loaded", self._settings.sync_seconds)
            except SamplerError as error:
                self._restart(number, error)
        if old is not None and old[0] != path:
            old[0].unlink(missing_ok=True)

    def sleep(self) -> None:
        """They have GPUs of their own."""

    def close(self) -> None:
        """End the processes."""
        self._closed = True
        for engine in self._engines:
            engine.end()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _restart(self, number: int, error: SamplerError) -> None:
        if self._closed:  # by another thread: that is why this one has lost its engine
            raise error
        self._restarts += 1
        if self._restarts > _RESTARTS:
            raise SamplerError(f"engines have failed {self._restarts} times, the last time: {error}") from error
        log.warning("an engine failed and is started again: %s", error)
        self._engines[number].end()
        self._engines[number] = _Engine(*self._arguments[number])
        if self._closed:
            self._engines[number].end()
        self._engines[number].expect("ready", self._settings.load_seconds)
        if self._weights is not None:
            self._engines[number].send("load", *self._weights)
            self._engines[number].expect("loaded", self._settings.sync_seconds)


class _Engine:
    """A process with an engine in it, seen from outside."""

    def __init__(self, model: str, gpus: Sequence[int], options: dict[str, Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        # Not daemonic: such processes may have none of their own, and vLLM has one for each GPU.
        self._process = context.Process(target=_serve, args=(theirs, model, tuple(gpus), options), name="sampler")
        self._process.start()
        theirs.close()

    def alive(self) -> bool:
        return self._process.is_alive()

    def send(self, *message: Any) -> None:
        try:
            self.connection.send(message)
        except OSError:
            log.debug("an engine is gone; whoever waits for its answer will notice")

    def expect(self, kind: str, seconds: float) -> Any:
        """Its next message, which is of this kind. Raises SamplerError if none comes in time, or another."""
        deadline = time.monotonic() + seconds
        while not self.connection.poll(_LOOK_SECONDS):
            if not self.alive():
                raise SamplerError(f"its process has ended with status {self._process.exitcode}")
            if time.monotonic() > deadline:
                raise SamplerError(f"it did not say {kind!r} within {seconds:g} s")
        return self.receive(kind)

    def receive(self, kind: str) -> Any:
        try:
            said, *rest = self.connection.recv()
        except (EOFError, OSError):
            raise SamplerError("its process has ended") from None
        if said != kind:
            raise SamplerError(str(rest[0]) if said == "failed" else f"it said {said!r} instead of {kind!r}")
        return rest

    def end(self) -> None:
        self.connection.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(connection: Connection, model: str, gpus: Sequence[int], options: dict[str, Any]) -> None:
    """In the process: an engine that does what it is told until nobody is there to tell it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the trainer is who ends this one
    weights: list[Path] = []  # the folder of them
    threading.Thread(target=_end_with_parent, args=(weights,), daemon=True).start()
    for name in [name for name in os.environ if name.startswith(_TORCHRUN)]:
        del os.environ[name]  # or this would be taken for one of the trainer's ranks
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # this is its own process already
    try:
        os.environ["CUDA_VISIBLE_DEVICES"] = _visible(gpus)
        from train.sampling.vllm import VllmSampler

        sampler = VllmSampler(model, **options)
        connection.send(("ready",))
        while True:
            said, *rest = connection.recv()
            if said == "load":
                weights[:] = [rest[0].parent]
                sampler.load_file(*rest)
                connection.send(("loaded",))
            else:
                numbered, sampling = rest
                for place, answer in sampler.sample([prompt for _, prompt in numbered], sampling):
                    connection.send(("answer", numbered[place][0], answer))
    except SamplerError as error:
        connection.send(("failed", str(error)))
    except (EOFError, OSError):
        time.sleep(0.2)  # the run is over; if it was killed, _end_with_parent has its turn now


def _visible(gpus: Sequence[int]) -> str:
    """CUDA's names of these GPUs, which count from 0 among those that the run may see. Raises SamplerError."""
    seen = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    if seen and max(gpus) >= len(seen):
        raise SamplerError(f"engine.gpus: there is no GPU {max(gpus)}; CUDA_VISIBLE_DEVICES has {len(seen)}, from 0 on")
    return ",".join(seen[gpu] if seen else str(gpu) for gpu in gpus)


def _end_with_parent(weights: list[Path]) -> None:
    """Weights in memory would stay there until the machine is started again."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        for folder in weights:
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)
