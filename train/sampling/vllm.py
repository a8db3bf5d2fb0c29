"""A model in this process, run by vLLM. No other file uses vLLM's Python interface."""

import gc
import itertools
import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train.errors import SamplerError
from train.sampling.chat_template import NO_ARGUMENTS, prompt_ids, warn_of_unknown
from train.sampling.model_name import check_folder
from train.sampling.protocol import Completion, Sampling, SeededChat
from train.sampling.vllm_worker import with_head

if TYPE_CHECKING:
    from torch import Tensor

# CPUs are for development. There, compiling takes longer than running a small model, results should be the same to the
# last bit, and vLLM 0.32 fails when it splits the prompt of a seeded sample ("CPU Generator does not use offset").
_ON_CPU = {"enforce_eager": True, "dtype": "float32", "enable_chunked_prefill": False}
_CPU_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "2",  # GiB; by default vLLM takes a share of the whole memory
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # other processes use these CPUs, too
}
_CLOSE_SECONDS = 60.0  # time limit for a step in progress, or for new weights on their way
_DISCARD = 2  # how deep vLLM sleeps: it drops the weights, too, and `load` brings new ones


class VllmSampler:
    """A model from a folder or from the Hub. `options` are those of `vllm.LLM`.

    template_arguments: further arguments of the model's chat template

    Raises SamplerError if the model cannot be loaded, or vLLM is not installed.
    """

    def __init__(self, model: str, *, template_arguments: Mapping[str, Any] = NO_ARGUMENTS, **options: Any) -> None:
        check_folder(model)
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # the terminal belongs to the command
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about how vLLM and torch use each other
            self._llm = _loaded(model, options)
        self._sleeps = bool(options.get("enable_sleep_mode"))
        self._engine = self._llm.llm_engine
        self._tokenizer = self._llm.get_tokenizer()
        if self._tokenizer.chat_template is None:
            self._shut_down()
            raise SamplerError(
                f"{model} has no chat template: it is a base model. Give one that was trained to answer."
            )
        warn_of_unknown(self._tokenizer, template_arguments, model)
        self._template_arguments = template_arguments
        # More requests would only wait in the engine.
        self._at_once: int = self._engine.vllm_config.scheduler_config.max_num_seqs
        self._numbers = itertools.count()
        self._closed = False
        self._version = 0
        self._turn = threading.Lock()  # close() may come from another thread

    def sample(
        self, prompts: Iterable[SeededChat], sampling: Sampling
    ) -> Iterator[tuple[int, Completion | ValueError]]:
        """Yield (index, completion) as completions finish; see train/sampling/protocol.py."""
        from vllm.exceptions import VLLMValidationError

        waiting = enumerate(prompts)
        running: dict[str, int] = {}
        try:
            while True:
                while len(running) < self._at_once and (item := next(waiting, None)) is not None:
                    index, (chat, seed) = item
                    number = str(next(self._numbers))
                    try:
                        self._add(number, chat, seed, sampling)
                    except VLLMValidationError as error:
                        yield index, ValueError(str(error))
                    else:
                        running[number] = index
                if not running:
                    return
                for output in self._step():
                    if output.finished:
                        yield running.pop(output.request_id), self._completion(output)
        finally:
            with self._turn:
                if running and not self._closed:
                    self._engine.abort_request(list(running))

    def load(self, weights: Iterable[tuple[str, "Tensor"]], version: int) -> None:
        """Load whole tensors under their names in the model's files; see train/sampling/protocol.py."""
        # As a list of tensors: by path, vLLM 0.32 leaves a tied embedding as it was.
        self._load("reload_weights", version, kwargs={"weights_iterator": with_head(dict(weights))})

    def load_file(self, path: Path, version: int) -> None:
        """Load whole tensors from a safetensors file, which every worker of the engine reads by itself."""
        self._load("load_file", version, args=(str(path),))

    def sleep(self) -> None:
        """Lend the memory of weights and cache to the learner, if they are on one GPU."""
        if self._sleeps:
            self._llm.sleep(level=_DISCARD)

    def _load(self, method: str, version: int, **arguments: Any) -> None:
        with self._turn:
            try:
                if self._sleeps:
                    self._llm.wake_up(tags=["weights"])
                self._llm.collective_rpc(method, **arguments)
                if self._sleeps:
                    self._llm.wake_up(tags=["kv_cache"])
                self._llm.reset_prefix_cache()  # its content was computed with the old weights
            except Exception as error:  # any exception, from any of vLLM's processes
                raise SamplerError(f"vLLM did not load new weights: {_last_line(error)}") from error
            self._version = version

    def close(self) -> None:
        """End the engine after the step in progress. If that step hangs, the engine lives until the process ends."""
        its_turn = self._turn.acquire(timeout=_CLOSE_SECONDS)
        try:
            if its_turn and not self._closed:
                self._shut_down()
            self._closed = True
        finally:
            if its_turn:
                self._turn.release()

    def _step(self) -> list[Any]:
        with self._turn:
            if self._closed:
                raise SamplerError("the sampler was closed while it had work")
            try:
                return self._engine.step()  # type: ignore[no-any-return]
            except Exception as error:  # the engine's process died, memory ran out, a kernel failed
                raise SamplerError(f"vLLM has failed: {_last_line(error)}. The same command continues.") from error

    def _add(self, number: str, chat: Any, seed: int, sampling: Sampling) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        ids = prompt_ids(self._tokenizer, chat, self._template_arguments)
        parameters = SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            seed=seed,
            logprobs=0 if sampling.logprobs else None,  # the log-probability of the drawn token, and of 0 others
            detokenize=False,  # this is done once, at the end
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        with self._turn:
            if not self._closed:
                (prompt,) = self._engine.renderer.render_cmpl([{"prompt_token_ids": ids}])
                self._engine.add_request(number, prompt, parameters)

    def _completion(self, output: Any) -> Completion:
        (answer,) = output.outputs
        ids = tuple(answer.token_ids)
        return Completion(
            text=self._tokenizer.decode(ids, skip_special_tokens=True),
            finish_reason=answer.finish_reason,
            n_tokens=len(ids),
            prompt_ids=tuple(output.prompt_token_ids),
            token_ids=ids,
            logprobs=tuple(of_place[id].logprob for id, of_place in zip(ids, answer.logprobs or (), strict=False)),
            versions=(self._version,) * len(ids),
        )

    def _shut_down(self) -> None:
        self._engine.engine_core.shutdown()
        del self._llm, self._engine
        gc.collect()  # the next model needs the memory


def _loaded(model: str, options: dict[str, Any]) -> Any:
    try:
        from vllm import LLM
        from vllm.platforms import current_platform
    except ImportError as error:
        raise SamplerError(
            f"vllm: {error}. Type: pip install 'curate-code[train]', or give the --base-url of a server."
        ) from error
    if current_platform.is_cpu():
        import torch

        for name, value in _CPU_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        torch._dynamo.config.disable = True  # compiling one small function of vLLM's sampler takes half a minute
    path = Path(model).expanduser()
    try:
        return LLM(
            model=str(path) if path.exists() else model,
            # The trainer compares log-probabilities with its own: after temperature, not before.
            **{
                "max_model_len": -1,  # as long as the model allows and the memory holds
                "logprobs_mode": "processed_logprobs",
                "use_tqdm_on_load": False,
                "worker_extension_cls": "train.sampling.vllm_worker.LoadsFile",
                **(_ON_CPU if current_platform.is_cpu() else {}),
                **options,
            },
        )
    except Exception as error:  # many types of exceptions: configuration, download, memory, the engine's own process
        raise SamplerError(f"vLLM cannot load {model}: {_last_line(error)}") from error


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and "errors.pydantic.dev" not in line]
    return lines[-1] if lines else type(error).__name__
