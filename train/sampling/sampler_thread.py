"""A sampler confined to its own thread.

vLLM launches kernels on the calling thread's CUDA stream. On the learner's stream, each decoding step would wait for
the learner's long kernels, so the sampler's thread has its own high-priority stream.
"""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from train.errors import SamplerError
from train.sampling.protocol import SampledCompletion, SamplingParams, SeededPrompt, UpdatableSampler

if TYPE_CHECKING:
    from torch import Tensor

    from train.weights.manifest import Probe

Result = TypeVar("Result")
_CLOSE_SECONDS = 60.0  # limit of the wait for the step in progress


def build_start_timeout(seconds: float) -> SamplerError:
    return SamplerError(f"the engine did not start within engine.load_seconds = {seconds:g} s; set a higher value")


def use_own_stream() -> None:
    """Give the current thread a new high-priority CUDA stream, if there is a GPU."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.set_stream(torch.cuda.Stream(priority=-1))  # type: ignore[no-untyped-call]


class SamplerThread:
    """An `UpdatableSampler` (protocol.py) in its own thread.

    build    builds the sampler
    seconds  time limit of `build`

    Raises SamplerError after the time limit, and the errors of `build`.
    """

    def __init__(self, build: Callable[[], UpdatableSampler], *, seconds: float) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="engine", daemon=True).start()
        self._call(use_own_stream)
        try:
            self._sampler = self._submit(build).result(seconds)
        except TimeoutError as error:
            raise build_start_timeout(seconds) from error

    def sample(
        self, prompts: Iterable[SeededPrompt], sampling: SamplingParams
    ) -> Iterator[tuple[int, SampledCompletion | ValueError]]:
        """Yield (index, completion) as `Sampler` does. The sampler's thread reads the prompts."""
        finished: queue.SimpleQueue[tuple[int, SampledCompletion | ValueError] | None] = queue.SimpleQueue()
        is_over = False

        def sample() -> None:
            try:
                for item in self._sampler.sample(prompts, sampling):
                    finished.put(item)
                    if is_over:
                        return
            finally:
                finished.put(None)

        ended = self._submit(sample)
        try:
            while (item := finished.get()) is not None:
                yield item
            ended.result()
        finally:
            is_over = True  # the caller may have stopped early

    def update_weights(
        self, weights: "Iterable[tuple[str, Tensor]]", version: int, probe: "Probe | None", max_error: float
    ) -> dict[str, float]:
        return self._call(partial(self._sampler.update_weights, weights, version, probe, max_error))

    def sleep(self) -> None:
        self._call(self._sampler.sleep)

    def close(self) -> None:
        """Close the sampler, and wait for its step in progress: PyTorch aborts a process that exits during a step."""
        self._sampler.close()
        with suppress(TimeoutError):
            self._submit(lambda: None).result(_CLOSE_SECONDS)

    def _call(self, call: Callable[[], Result]) -> Result:
        return self._submit(call).result()

    def _submit(self, call: Callable[[], Result]) -> "Future[Result]":
        future: Future[Result] = Future()

        def run() -> None:
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

        self._calls.put(run)
        return future

    def _serve(self) -> None:
        while True:
            self._calls.get()()
