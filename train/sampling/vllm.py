"""A sampler with vLLM in this process.

Other users of vLLM's Python interface are train/weights/nccl.py and, in vLLM's worker processes, vllm_worker.py and
vllm_weights.py.
"""

import contextvars
import gc
import itertools
import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.extras import format_install_command
from train.errors import SamplerError
from train.sampling.model_check import check_folder
from train.sampling.protocol import SampledCompletion, SamplingParams
from train.sampling.text import NO_ARGUMENTS, TextSampler
from train.sampling.vllm_weights import append_lm_head
from train.weights import nccl
from train.weights.checksums import combine_checksums
from train.weights.manifest import SentTensor
from train.weights.source import TensorFiles

if TYPE_CHECKING:
    from torch import Tensor

# Options on CPUs, for development: no compilation, and bitwise reproducible results. Chunked prefill is disabled: vLLM
# 0.32 cannot split the prompt of a seeded sample ("CPU Generator does not use offset"). Small blocks let completions
# share more of a prompt's cache.
_ON_CPU = {"enforce_eager": True, "dtype": "float32", "enable_chunked_prefill": False, "block_size": 32}
_CPU_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "2",  # in GiB; the default is a share of the machine's memory
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # do not pin threads, because other processes use the same CPUs
}
_CLOSE_SECONDS = 60.0  # limit of the wait for a step or a transfer of weights in progress
_NO_LABEL = "default"  # vLLM's label of its initial weights
_NOISE = "train.sampling.vllm_worker:CounterBasedNoiseProcessor"
_DISCARD = 2  # vLLM's sleep level that frees the memory of the weights and of the cache


class VllmSampler(TextSampler):
    """A sampler of a model in vLLM.

    model       folder or Hub id
    verifiable  whether to support verifiable completions, which need vLLM's older model runner
    options     options of `vllm.LLM`

    Raises SamplerError if the model cannot be loaded, or vLLM is not installed.
    """

    def __init__(
        self, model: str, *, template_arguments: Mapping[str, Any] = NO_ARGUMENTS, verifiable: bool = False,
        **options: Any,
    ) -> None:  # fmt: skip
        check_folder(model)
        if verifiable:
            os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"  # vllm_worker.py supports only the V1 model runner
            options["logits_processors"] = [*options.get("logits_processors", ()), _NOISE]
            options["generation_config"] = "auto"  # verifiers read the end tokens from the model's generation config
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._llm = _start_vllm(model, options)
        self._is_verifiable = verifiable
        if verifiable:
            self._llm.collective_rpc("hook_output_layer")
        self._verifiable: set[str] = set()  # keys of verifiable completions in progress
        self._sleeps = bool(options.get("enable_sleep_mode"))
        self._engine = self._llm.llm_engine
        super().__init__(self._llm.get_tokenizer(), template_arguments, model)
        self.max_concurrency: int = self._engine.vllm_config.scheduler_config.max_num_seqs
        self._numbers = itertools.count()
        self._closed = False
        self._finished: list[Any] = []  # outputs that the next `step` returns
        self._lock = threading.Lock()  # load() and close() may come from other threads
        # torch's configuration by _start_vllm is a context variable, which other threads do not inherit.
        self._context = contextvars.copy_context()

    def add(self, key: str, prompt_ids: tuple[int, ...], seed: int, sampling: SamplingParams) -> None:
        import vllm
        from vllm.sampling_params import RequestOutputKind

        from train.sampling.vllm_worker import VERIFIABLE_KEY

        if sampling.verifiable and not self._is_verifiable:
            raise SamplerError("this vLLM was not started for verifiable completions: give it verifiable=True")
        noise = {"key": key, "seed": seed, "temperature": sampling.temperature}
        parameters = vllm.SamplingParams(
            temperature=0.0 if sampling.verifiable else sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            seed=seed,
            logprobs=0 if sampling.logprobs else None,  # 0: only of the sampled token
            flat_logprobs=sampling.logprobs,  # one list for all tokens instead of an object per token
            stop=list(sampling.stop),
            detokenize=bool(sampling.stop),  # without stops, `_make_completion` decodes
            output_kind=RequestOutputKind.FINAL_ONLY,
            extra_args={VERIFIABLE_KEY: noise} if sampling.verifiable else None,
        )
        with self._lock:
            if not self._closed:
                self._submit(key, prompt_ids, parameters)
                if sampling.verifiable:
                    self._verifiable.add(key)

    def step(self) -> list[tuple[str, SampledCompletion]]:
        with self._lock:
            if not self._finished:
                self._collect()
            outputs, self._finished = self._finished, []
            records = self._take_commitments(outputs)
        return [
            (output.request_id, self._make_completion(output, records.get(output.request_id))) for output in outputs
        ]

    def abort(self, keys: Iterable[str]) -> None:
        dropped = set(keys)
        with self._lock:
            self._finished = [output for output in self._finished if output.request_id not in dropped]
            if dropped and not self._closed:
                self._engine.abort_request(list(dropped))
            if (recorded := dropped & self._verifiable) and not self._closed:
                self._llm.collective_rpc("discard_commitments", args=(sorted(recorded),))
            self._verifiable -= dropped

    def compute_logprobs(self, sequences: Sequence[tuple[int, ...]]) -> list[tuple[float, ...]]:
        import vllm
        from vllm.sampling_params import RequestOutputKind

        parameters = vllm.SamplingParams(
            temperature=0, max_tokens=1, prompt_logprobs=0, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY
        )
        keys = [f"logprobs-{next(self._numbers)}" for _ in sequences]
        with self._lock:
            others_run = not self._closed and self._engine.has_unfinished_requests()
            if not self._closed:
                numbers = [self._submit(key, ids, parameters) for key, ids in zip(keys, sequences, strict=True)]
                self._move_to_front(numbers)
            found: dict[str, Any] = {}
            while len(found) < len(keys):
                self._collect()
                found |= {output.request_id: output for output in self._finished if output.request_id in keys}
            self._finished = [output for output in self._finished if output.request_id not in found]
            if keys and not others_run:
                self._llm.reset_prefix_cache()  # so later samples do not depend on this call
        return [
            tuple(logprobs[id].logprob for id, logprobs in zip(ids[1:], output.prompt_logprobs[1:], strict=True))
            for output in map(found.__getitem__, keys)
            for ids in [output.prompt_token_ids]
        ]

    def cache_use(self) -> float:
        """Return the used share of the KV cache; 0 if the engine core runs in a separate process."""
        core = None if self._closed else self._core
        return 0.0 if core is None else float(core.scheduler.get_kv_cache_usage())

    def load(self, weights: Iterable[tuple[str, "Tensor"]], version: int) -> None:
        if isinstance(weights, TensorFiles):  # each of vLLM's worker processes reads the files
            self._load("load_files", version, args=(list(map(str, weights.paths)),))
        else:
            self._load("reload_weights", version, kwargs={"weights_iterator": append_lm_head(weights)})

    def receive(self, method: str, arguments: Mapping[str, Any], version: int) -> None:
        """Run one phase of an NCCL transfer (train/weights/nccl.py). Sampling pauses from START to FINISH."""
        if method == nccl.FINISH:
            self._load(method, version, kwargs=arguments)
            return
        with self._lock, _translate_errors("vLLM did not receive new weights"):
            self._llm.collective_rpc(method, kwargs=arguments)

    def version(self) -> int:
        with self._lock:
            return _parse_version(self._engine.get_weight_version())

    def checksums(self, tensors: Sequence[SentTensor]) -> dict[str, str]:
        specs = [(tensor.name, tensor.dtype, tensor.shape) for tensor in tensors]
        with self._lock, _translate_errors("vLLM did not report its weights"):
            parts = self._llm.collective_rpc("compute_partial_checksums", args=(specs,))
        return combine_checksums(itertools.chain.from_iterable(parts), {name: shape for name, _, shape in specs})

    def sleep(self) -> None:
        """Free the memory of weights and cache for the learner, if engine and learner share a GPU."""
        if self._sleeps:
            with self._lock:
                with self._pause_between_steps():
                    pass  # with asynchronous scheduling, a step may be in flight after the last completion
                self._llm.sleep(level=_DISCARD)

    def _load(self, method: str, version: int, **arguments: Any) -> None:
        with self._lock:
            if self._closed:
                raise SamplerError("the sampler was closed before new weights arrived")
            with _translate_errors("vLLM did not load new weights"), _synchronize_device():
                if self._sleeps:
                    self._llm.wake_up(tags=["weights"])
                with self._pause_between_steps():
                    self._llm.collective_rpc(method, **arguments)
                    if self._sleeps:
                        self._llm.wake_up(tags=["kv_cache"])
                    # The KV cache was computed with the old weights, also for completions in progress.
                    if not self._llm.reset_prefix_cache(reset_running_requests=True):
                        raise SamplerError("it did not reset the KV cache of the old weights")
                    self._engine.set_weight_version(str(version))

    @contextmanager
    def _pause_between_steps(self) -> Iterator[None]:
        """Pause the engine between two steps.

        With asynchronous scheduling, vLLM's default on GPUs, first wait for the step in flight, whose tokens belong to
        the old weights.
        """
        core = self._core
        if core is None and self._engine.has_unfinished_requests():
            raise SamplerError("its core runs in a separate process, so weights cannot change during sampling")
        if core is None or not core.batch_queue:
            yield
            return
        core.pause_scheduler(mode="keep", clear_cache=False)
        try:
            while core.batch_queue:
                self._collect()
            yield
        finally:
            core.resume_scheduler()

    def close(self) -> None:
        """Stop the engine after the step in progress. If this step hangs, leave the engine running."""
        is_locked = self._lock.acquire(timeout=_CLOSE_SECONDS)
        try:
            if is_locked and not self._closed:
                self._engine.engine_core.shutdown()
                del self._llm, self._engine
                gc.collect()
            self._closed = True
        finally:
            if is_locked:
                self._lock.release()

    @property
    def _core(self) -> Any:
        """Return vLLM's engine core; None if it runs in a separate process."""
        return getattr(self._engine.engine_core, "engine_core", None)

    def _collect(self) -> None:
        """Run a step, and store its finished outputs. The caller holds `_lock`."""
        if self._closed:
            raise SamplerError("the sampler was closed while it was sampling")
        try:
            outputs = self._context.run(self._engine.step)
            self._finished += [output for output in outputs if output.finished]
        except Exception as error:  # for example out of memory, a failed kernel, or an exit of the engine's process
            raise SamplerError(f"vLLM has failed: {_extract_last_line(error)}. The same command continues.") from error

    def _take_commitments(self, outputs: Sequence[Any]) -> dict[str, tuple[bytes, tuple[float, ...]]]:
        """Return the commitments and log-probabilities of finished verifiable completions, by request id.

        The caller holds `_lock`.
        """
        ours = [output for output in outputs if output.request_id in self._verifiable]
        if not ours:
            return {}
        finished = {output.request_id: len(output.outputs[0].token_ids) for output in ours}
        # All worker processes of a model return the same values, so read the first's.
        found = self._llm.collective_rpc("take_commitments", args=(list(finished.items()),))[0]
        self._verifiable -= finished.keys()
        return dict(zip(finished, found, strict=True))

    def _submit(self, key: str, ids: tuple[int, ...], parameters: Any) -> str:
        """Submit a request, and return its id in the engine. The caller holds `_lock`.

        Raises ValueError if vLLM refuses the request.
        """
        from vllm.exceptions import VLLMValidationError

        try:
            (prompt,) = self._engine.renderer.render_cmpl([{"prompt_token_ids": list(ids)}])
            return str(self._engine.add_request(key, prompt, parameters))
        except VLLMValidationError as error:
            raise ValueError(str(error)) from error

    def _move_to_front(self, names: Sequence[str]) -> None:
        """Move requests to the front of vLLM's queue, before requests that a weight load has preempted."""
        if self._core is not None:
            waiting = self._core.scheduler.waiting
            ours = [request for request in waiting if request.request_id in names]
            waiting.remove_requests(ours)
            for request in reversed(ours):
                waiting.prepend_request(request)

    def _make_completion(self, output: Any, record: tuple[bytes, tuple[float, ...]] | None) -> SampledCompletion:
        """Decode vLLM's output. record: commitments and log-probabilities of a verifiable completion."""
        (completion,) = output.outputs
        ids = tuple(completion.token_ids)
        commitments, logprobs = record or (
            b"",
            () if completion.logprobs is None else tuple(completion.logprobs.logprobs),
        )
        spans = completion.weight_versions or ()
        versions = tuple(_parse_version(span.version) for span in spans for _ in range(span.end - span.start))
        if len(versions) != len(ids):
            raise SamplerError(f"vLLM reported the versions of {len(versions)} of {len(ids)} tokens")
        return SampledCompletion(
            # vLLM decodes the text only if the request has stops.
            text=completion.text if isinstance(completion.stop_reason, str) else self._decode(ids),
            finish_reason=completion.finish_reason,
            n_tokens=len(ids),
            prompt_ids=tuple(output.prompt_token_ids),
            token_ids=ids,
            logprobs=logprobs,
            versions=versions,
            n_prompt_tokens=len(output.prompt_token_ids),
            commitments=commitments,
        )


def _start_vllm(model: str, options: dict[str, Any]) -> Any:
    """Start vLLM. Raises SamplerError if that fails, or if vLLM cannot compute the head in the configured dtype."""
    try:
        from vllm import LLM
        from vllm.platforms import current_platform
    except ImportError as error:
        raise SamplerError(
            f"vllm: {error}. Type: {format_install_command('train')}, or give the --base-url of a server."
        ) from error
    import torch

    if current_platform.is_cpu():
        for name, value in _CPU_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        torch._dynamo.config.disable = True  # saves half a minute of compilation for a small function of the sampler
    path = Path(model).expanduser()
    with _translate_errors(f"vLLM cannot load {model}"):
        llm = LLM(
            model=str(path) if path.exists() else model,
            **{
                "max_model_len": -1,  # the maximum that model and memory allow
                "logprobs_mode": "processed_logprobs",  # after temperature, as in the learner
                "use_tqdm_on_load": False,
                "worker_extension_cls": "train.sampling.vllm_worker.WorkerExtension",
                **(_ON_CPU if current_platform.is_cpu() else {}),
                **options,
            },
        )
    if options.get("hf_overrides", {}).get("head_dtype") == "float32" and llm.model_config.head_dtype != torch.float32:
        llm.llm_engine.engine_core.shutdown()
        raise SamplerError('vLLM cannot compute the head in float32 here. Set model.head_dtype = "model".')
    return llm


@contextmanager
def _synchronize_device() -> Iterator[None]:
    """Synchronize the device before and after the block, because other CUDA streams write and read the weights."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
    yield
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _parse_version(label: str) -> int:
    return 0 if label == _NO_LABEL else int(label)


@contextmanager
def _translate_errors(failure: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise SamplerError(f"{failure}: {_extract_last_line(error)}") from error


def _extract_last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and "errors.pydantic.dev" not in line]
    return lines[-1] if lines else type(error).__name__
