"""A model behind an OpenAI-compatible address: `vllm serve`, any other server, or a provider.

There is one request per sample, and many at the same time, so that each answer comes back as soon as it is finished.
Failed requests are repeated for some time.
"""

import json
import os
import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sandbox.concurrency.thread_map import map_futures
from sandbox.extras import install_command
from train.errors import SamplerError
from train.sampling.protocol import Prompt, SampledCompletion, SamplingParams, SeededPrompt, is_prefilled
from train.sampling.text import NO_ARGUMENTS, truncate_at_stop

try:
    from sandbox.http_client import HttpClient, HttpReply, ServerUnreachable
except ImportError as error:
    raise SamplerError(f"cannot ask a server: {error}. Type: {install_command('http')}") from error

MAX_CONCURRENT_REQUESTS = 64  # by default; a provider that allows fewer responds with status 429
_RETRYABLE_STATUSES = {408, 409, 429, 500, 502, 503, 504}
_CONNECT_SECONDS = 10
_RESPONSE_TIMEOUT_SECONDS = 3600  # for a long answer in a long queue: no byte arrives before the answer is finished
_MAX_BACKOFF_SECONDS = 20  # between repeats, unless the server says otherwise
# Switches off the defaults that `vllm serve` takes from the model's generation_config.json, and asks for token ids.
_VLLM_OPTIONS = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "return_token_ids": True}
_CONTINUE = {"continue_final_message": True, "add_generation_prompt": False}  # the last message is a prefill
_MAX_STOPS = 4  # that servers take, after OpenAI's interface; vLLM takes any number


class HttpSampler:
    """A model behind a server. If the server needs a key, it is taken from OPENAI_API_KEY.

    base_url            the address as OpenAI's clients take it, with /v1
    concurrency         requests at once; a server batches them, and a provider may allow fewer
    template_arguments  further arguments of the model's chat template, as vLLM's server takes them
    retry_seconds       how long a request that fails is repeated

    Raises SamplerError if there is no such server, or no such model.
    """

    def __init__(
        self, model: str, base_url: str, *, concurrency: int = MAX_CONCURRENT_REQUESTS,
        template_arguments: Mapping[str, Any] = NO_ARGUMENTS, retry_seconds: float = 300,
    ) -> None:  # fmt: skip
        key = os.environ.get("OPENAI_API_KEY")
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        try:
            self._client = HttpClient(
                base_url, headers=headers, connections=concurrency, connect_seconds=_CONNECT_SECONDS
            )
        except ValueError as error:
            raise SamplerError(f"{base_url!r} is not an address such as http://localhost:8000/v1") from error
        self._model, self._url, self._template_arguments = model, self._client.url, dict(template_arguments)
        self._concurrency, self._retry_seconds = concurrency, retry_seconds
        self._closed = threading.Event()
        about = self._describe_model()
        self._is_vllm = about.get("owned_by") == "vllm"
        context = about.get("max_model_len")
        self._context = context if isinstance(context, int) else None  # in tokens; None if the server does not state it

    def sample(
        self, prompts: Iterable[SeededPrompt], sampling: SamplingParams
    ) -> Iterator[tuple[int, SampledCompletion | ValueError]]:
        """Yield (index, completion) as completions finish; see train/sampling/protocol.py."""
        asked = map_futures(lambda prompt: self._ask(*prompt, sampling), prompts, threads=self._concurrency)
        for index, future in asked:
            refusal = future.exception()
            yield index, refusal if isinstance(refusal, ValueError) else future.result()

    def close(self) -> None:
        """Close the connections. Requests in progress raise SamplerError."""
        self._closed.set()
        self._client.close()

    def _describe_model(self) -> dict[str, Any]:
        try:
            answer = self._client.request("GET", "/models", read_seconds=_CONNECT_SECONDS)
        except ServerUnreachable as error:
            raise SamplerError(
                f"no server answers at {self._url}: {error}. Start one, for example: vllm serve {self._model}"
            ) from error
        if answer.status in (401, 403):
            raise SamplerError(f"the server at {self._url} refuses the key. Set OPENAI_API_KEY to one that it takes.")
        models = answer.json_object().get("data")
        if answer.status != 200 or not isinstance(models, list):
            raise SamplerError(
                f"the server at {self._url} is not OpenAI-compatible: GET /models gave {answer.status}. "
                "Does the address end in /v1?"
            )
        known = {str(entry.get("id")): entry for entry in models if isinstance(entry, dict)}
        if self._model not in known:
            names = ", ".join(sorted(known)[:10])
            raise SamplerError(f"the server at {self._url} has no model {self._model}. It has {names or 'none'}.")
        return known[self._model]

    def _ask(self, prompt: Prompt, seed: int, sampling: SamplingParams) -> SampledCompletion:
        """Return the completion. Raises ValueError if the server refuses the prompt, SamplerError if it fails."""
        path, request = self._request(prompt, sampling.max_tokens)
        request |= {"model": self._model, "temperature": sampling.temperature, "top_p": sampling.top_p, "seed": seed}
        # Stops that a request leaves out still end the text of the answer.
        if stops := sampling.stop if self._is_vllm else sampling.stop[:_MAX_STOPS]:
            request["stop"] = stops
        if self._is_vllm:
            request |= _VLLM_OPTIONS
        body = json.dumps(request).encode()
        first_failed: float | None = None
        tries = 0
        while not self._closed.is_set():
            tries += 1
            pause = min(_MAX_BACKOFF_SECONDS, 0.2 * 2**tries)
            try:
                answer = self._client.request("POST", path, body, read_seconds=_RESPONSE_TIMEOUT_SECONDS)
            except ServerUnreachable as error:
                problem = str(error)
            else:
                if answer.status == 200:
                    return _completion(answer, sampling.stop, self._url)
                problem = f"{answer.status}, {answer.message()}"
                if answer.status in (400, 413, 422):
                    raise ValueError(problem)
                if answer.status not in _RETRYABLE_STATUSES:
                    raise SamplerError(f"the server at {self._url} answered {problem}")
                pause = max(pause, answer.retry_after_seconds)
            now = time.monotonic()
            first_failed = first_failed or now
            left = first_failed + self._retry_seconds - now
            if left <= 0:
                raise SamplerError(
                    f"the server at {self._url} has stopped answering; the last of {tries} requests: {problem}. "
                    "Start it again, then run the same command again to continue."
                )
            self._closed.wait(min(left, pause * random.uniform(1, 1.3)))
        raise SamplerError("the sampler was closed while it had work")

    def _request(self, prompt: Prompt, max_tokens: int) -> tuple[str, dict[str, Any]]:
        """Return the path for a prompt of this form, and what a request there says about prompt and length."""
        if isinstance(prompt, list):
            asked: dict[str, Any] = {"messages": prompt}
            arguments = dict(self._template_arguments)
            if "chat_template" in arguments:
                asked["chat_template"] = arguments.pop("chat_template")
            if arguments:
                asked["chat_template_kwargs"] = arguments
            if self._is_vllm and is_prefilled(prompt):
                asked |= _CONTINUE
            # The server would refuse more than its context. Without a number, an answer may use all that the prompt
            # leaves of it.
            if self._context is None or max_tokens < self._context:
                asked["max_tokens"] = max_tokens
            return "/chat/completions", asked
        if isinstance(prompt, tuple) and not self._is_vllm:
            raise SamplerError(f"the server at {self._url} is not vLLM's, and only that takes prompts as token ids")
        if self._context is not None:
            left = self._context - (len(prompt) if isinstance(prompt, tuple) else 0)
            if left < 1:
                raise ValueError(f"the prompt has {len(prompt)} tokens, the model takes {self._context}")
            max_tokens = min(max_tokens, left)
        # Without a number, a server would draw 16 tokens. vLLM's draws no more than the prompt leaves.
        return "/completions", {"prompt": prompt, "max_tokens": max_tokens}


def _completion(answer: HttpReply, stops: tuple[str, ...], url: str) -> SampledCompletion:
    content = answer.json_object()
    usage = content.get("usage") or {}
    try:
        choice = content["choices"][0]
        message = choice["message"] if "message" in choice else {"content": choice["text"]}
        whole = _text(message.get("content"))
        text = truncate_at_stop(whole, stops)
        ids = tuple(choice.get("token_ids") or ())
        prompt_ids = tuple(content.get("prompt_token_ids") or choice.get("prompt_token_ids") or ())
        return SampledCompletion(
            text=text,
            finish_reason="length" if choice["finish_reason"] == "length" and text == whole else "stop",
            n_tokens=len(ids) or int(usage.get("completion_tokens") or 0),
            prompt_ids=prompt_ids,
            token_ids=ids,
            # The newer of the two names comes first; some servers give both, with the same text.
            reasoning=_text(message.get("reasoning") or message.get("reasoning_content")),
            n_prompt_tokens=len(prompt_ids) or int(usage.get("prompt_tokens") or 0),
        )
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise SamplerError(f"cannot read what the server at {url} answered: {answer.body[:200]!r}") from error


def _text(value: object) -> str:
    """Return a text that may be null. Raises TypeError for anything else."""
    if value is None or isinstance(value, str):
        return value or ""
    raise TypeError(f"{type(value).__name__} in place of a text")
