"""A model in this process, run by vLLM. The only file that knows vLLM's Python interface."""

import gc
import itertools
import os
import threading
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from train.sampler import Completion, Prompt, SamplerError, Sampling

_LOCAL = (".", "/", "~")  # how a path begins; anything else may be the name of a model on the Hub

# Processors are for development: there, compiling takes longer than the small models do, bits should not differ, and
# vLLM 0.32 fails where it cuts up the prompt of a sample with a seed of its own ("CPU Generator does not use offset").
_ON_CPU = {"enforce_eager": True, "dtype": "float32", "enable_chunked_prefill": False}


class VllmSampler:
    """Loads the model from a folder or from the Hub. Raises SamplerError if that, or vLLM, is not to be had.

    options are vLLM's own: those of `vllm.LLM`.
    """

    def __init__(self, model: str, **options: Any) -> None:
        if model.startswith(_LOCAL) and not (Path(model).expanduser() / "config.json").is_file():
            raise SamplerError(f"{model}: no folder of a model, with its config.json. Give one, or a Hub id.")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # the terminal is not ours to fill
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about vLLM's and torch's own use of each other
            self._llm = _loaded(model, options)
        self._engine = self._llm.llm_engine
        self._tokenizer = self._llm.get_tokenizer()
        if self._tokenizer.chat_template is None:
            self._shut_down()
            raise SamplerError(f"{model} has no chat template: it is a base model. Give one that was taught to answer.")
        # More would only wait in the engine, with their prompts.
        self._at_once: int = self._engine.vllm_config.scheduler_config.max_num_seqs
        self._numbers = itertools.count()
        self._closed = False
        self._turn = threading.Lock()  # close() may come from another thread

    def sample(self, prompts: Iterable[Prompt], sampling: Sampling) -> Iterator[tuple[int, Completion | ValueError]]:
        """(index, completion) as they finish; see train/sampler.py."""
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
                        yield running.pop(output.request_id), _completion(output)
        finally:
            with self._turn:
                if running and not self._closed:
                    self._engine.abort_request(list(running))

    def close(self) -> None:
        """End the engine, once the step in progress is done."""
        with self._turn:
            if not self._closed:
                self._closed = True
                self._shut_down()

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

        ids = self._tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=True, return_dict=False)
        parameters = SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            seed=seed,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        with self._turn:
            if not self._closed:
                (prompt,) = self._engine.renderer.render_cmpl([{"prompt_token_ids": ids}])
                self._engine.add_request(number, prompt, parameters)

    def _shut_down(self) -> None:
        self._engine.engine_core.shutdown()
        del self._llm, self._engine
        gc.collect()  # the next model wants the memory


def _loaded(model: str, options: dict[str, Any]) -> Any:
    try:
        from vllm import LLM
        from vllm.platforms import current_platform
    except ImportError as error:
        raise SamplerError(
            f"vllm: {error}. Type: pip install 'curate-code[train]', or give the --base-url of a server."
        ) from error
    try:
        return LLM(
            model=str(Path(model).expanduser()) if model.startswith(_LOCAL) else model,
            max_model_len=-1,  # as long as the model allows and the memory holds
            # The trainer compares log-probabilities with its own: after temperature, not before.
            **{
                "logprobs_mode": "processed_logprobs",
                "use_tqdm_on_load": False,
                **(_ON_CPU if current_platform.is_cpu() else {}),
                **options,
            },
        )
    except Exception as error:  # of many kinds: configuration, download, memory, the engine's own process
        raise SamplerError(f"vLLM cannot load {model}: {_last_line(error)}") from error


def _completion(output: Any) -> Completion:
    (answer,) = output.outputs
    ids = tuple(answer.token_ids)
    return Completion(answer.text, answer.finish_reason, len(ids), tuple(output.prompt_token_ids), ids)


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
