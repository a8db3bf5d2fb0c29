"""A sampler for a model behind an OpenAI-compatible server: `vllm serve`, any other server, or a provider.

Each sample is one request, and many run concurrently.

    response                                           effect
    a completion                                       the sample
    400, 413, 422 with the server's reason             the prompt is refused; others continue
    401, 402, 403, 404 and other 4xx                   SamplerError with the server's reason
    408, 409, 425, 429, 5xx, a timeout, a broken or    retry with backoff, at least Retry-After, until a deadline;
    empty response, or an error with 200               then SamplerError

Responses are decoded into types that ignore unknown fields. A choice of another type is a permanent error.
"""

import json
import os
import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from sandbox.concurrency.thread_map import map_results
from sandbox.extras import format_install_command
from train.engine_options import DEFAULT_REQUEST_OPTIONS, RequestOptions
from train.errors import SamplerError
from train.sampling.protocol import Prompt, SampledCompletion, SamplingParams, SeededPrompt, is_prefilled
from train.sampling.text import NO_ARGUMENTS, truncate_at_stop

try:
    from sandbox.http_client import HttpClient, HttpResponse, ServerUnreachable
except ImportError as error:
    raise SamplerError(f"cannot call a server: {error}. Type: {format_install_command('http')}") from error

MAX_CONCURRENT_REQUESTS = 64  # default; providers with a lower limit respond with status 429
_RETRYABLE_STATUSES = {408, 409, 425, 429}
_RATE_LIMITED = 429
_PERMANENT_SERVER_ERRORS = {501, 505}  # other statuses from 500, such as 503 and 524, may be transient
_REFUSED_PROMPT = {400, 413, 422}
_ADVICE = {
    **dict.fromkeys((401, 403), " Set OPENAI_API_KEY to a key that the server accepts."),
    404: " Does the address end in /v1, and does the server have the model?",
}
_CONNECT_SECONDS = 10
_MAX_BACKOFF_SECONDS = 20  # maximum pause between attempts, unless the server sends a longer Retry-After
_MAX_REPLY_BYTES = 1 << 28
_GET_ATTEMPTS = 3
# Disables the defaults that `vllm serve` reads from the model's generation_config.json, and requests token ids.
_VLLM_OPTIONS = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "return_token_ids": True}
_CONTINUE = {"continue_final_message": True, "add_generation_prompt": False}  # for a chat that ends with a prefill
_MAX_STOPS = 4  # of OpenAI's API; vLLM has no maximum
_LIMIT, _NEW_LIMIT = "max_tokens", "max_completion_tokens"  # OpenAI's newer models refuse the first name
_TRUNCATED = {"length", "max_tokens", "model_length"}  # finish reasons of several servers for a truncated completion


class _Part(Struct):
    """A part of a message: a text, or thinking as text or parts."""

    text: str | None = None
    thinking: "str | list[_Part] | None" = None


class _Message(Struct):
    content: str | list[_Part] | None = None
    reasoning: str | list[_Part] | None = None
    reasoning_content: str | list[_Part] | None = None


class _Choice(Struct):
    """A choice of /chat/completions, with a message, or of /completions, with a text."""

    message: _Message | None = None
    text: str | None = None
    finish_reason: str | None = None
    token_ids: tuple[int, ...] | None = None
    prompt_token_ids: tuple[int, ...] | None = None


class _Usage(Struct):
    prompt_tokens: float | None = None
    completion_tokens: float | None = None


class _Completion(Struct):
    choices: list[_Choice]
    usage: _Usage | None = None
    prompt_token_ids: tuple[int, ...] | None = None


class _Error(Struct):
    message: str | None = None
    param: str | None = None
    code: str | int | None = None


class _ErrorResponse(Struct):
    """The error formats of several servers."""

    error: _Error | str | None = None
    detail: Any = None
    message: str | None = None


class _Model(Struct):
    """An entry of the list of models: the response's `data` or, at some providers, the whole response."""

    id: Any = None
    owned_by: Any = None
    max_model_len: Any = None


class _TransientFailure(Exception):
    """A failed attempt that may be retried.

    is_rate_limit        whether the status was 429
    retry_after_seconds  from the header Retry-After; 0 if missing
    """

    def __init__(self, problem: str, *, is_rate_limit: bool = False, retry_after_seconds: float = 0.0) -> None:
        super().__init__(problem)
        self.is_rate_limit, self.retry_after_seconds = is_rate_limit, retry_after_seconds


def is_transient(status: int) -> bool:
    """Return whether a request with this status may succeed if it is retried."""
    return status in _RETRYABLE_STATUSES or (status >= 500 and status not in _PERMANENT_SERVER_ERRORS)


def get_with_retries(client: HttpClient, path: str, max_seconds: float) -> HttpResponse:
    """Send a GET request, at most _GET_ATTEMPTS times. Raises ServerUnreachable."""
    attempt = 0
    while True:
        attempt += 1
        try:
            reply = client.request("GET", path, read_seconds=max_seconds, max_seconds=max_seconds)
        except ServerUnreachable:
            if attempt == _GET_ATTEMPTS:
                raise
        else:
            is_broken = reply.status == 200 and reply.json() is None
            if attempt == _GET_ATTEMPTS or not (is_broken or is_transient(reply.status)):
                return reply
        time.sleep(0.2 * 2**attempt)


class HttpSampler:
    """A model behind a server. The API key is in OPENAI_API_KEY, if the server needs one.

    base_url            address with /v1, as for OpenAI's clients
    concurrency         maximum number of concurrent requests
    template_arguments  arguments of the model's chat template, for vLLM's server
    options             additional fields and the time limit of each request
    retry_seconds       deadline for retries of a request, after its first failure; with status 429, after the last
                        success of any request

    Raises SamplerError if the server is unreachable or lacks the model. The model is not checked if the server cannot
    list its models.
    """

    def __init__(
        self, model: str, base_url: str, *, concurrency: int = MAX_CONCURRENT_REQUESTS,
        template_arguments: Mapping[str, Any] = NO_ARGUMENTS, options: RequestOptions = DEFAULT_REQUEST_OPTIONS,
        retry_seconds: float = 300,
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
        self._concurrency, self._options, self._retry_seconds = concurrency, options, retry_seconds
        self._closed = threading.Event()
        self._last_success = 0.0  # time.monotonic() of the last success of any request
        self._limit_name = _LIMIT
        entry = self._fetch_model_entry()
        self._is_vllm = entry.owned_by == "vllm"
        context = entry.max_model_len
        self._context = context if isinstance(context, int) else None  # in tokens; None if unknown

    def sample(
        self, prompts: Iterable[SeededPrompt], sampling: SamplingParams
    ) -> Iterator[tuple[int, SampledCompletion | ValueError]]:
        results = map_results(lambda prompt: self._complete(*prompt, sampling), prompts, threads=self._concurrency)
        for index, completion in results:
            if isinstance(completion, Exception) and not isinstance(completion, ValueError):
                raise completion
            yield index, completion

    def close(self) -> None:
        """Close the connections. Requests in progress raise SamplerError."""
        self._closed.set()
        self._client.close()

    def _fetch_model_entry(self) -> _Model:
        try:
            reply = get_with_retries(self._client, "/models", _CONNECT_SECONDS)
        except ServerUnreachable as error:
            raise SamplerError(
                f"no server responds at {self._url}: {error}. Start one, for example: vllm serve {self._model}"
            ) from error
        if reply.status in (401, 403):
            raise self._build_permanent_error(reply.status, reply)
        if reply.status != 200 and not is_transient(reply.status):  # the server cannot list its models
            return _Model()
        try:
            models = msgspec.convert(reply.get_json_object().get("data", reply.json()), list[_Model])
        except msgspec.ValidationError:
            models = None
        if reply.status != 200 or models is None:
            raise SamplerError(
                f"the server at {self._url} is not OpenAI-compatible: GET /models returned {reply.status}. "
                "Does the address end in /v1?"
            )
        known = {str(model.id): model for model in models}
        if self._model not in known:
            names = ", ".join(sorted(known)[:10])
            raise SamplerError(f"the server at {self._url} has no model {self._model}. It has {names or 'none'}.")
        return known[self._model]

    def _complete(self, prompt: Prompt, seed: int, sampling: SamplingParams) -> SampledCompletion:
        """Request a completion, with retries.

        Raises ValueError if the server refuses the prompt, and SamplerError for any other failure.
        """
        path, request = self._build_request(prompt, sampling.max_tokens)
        request |= {"model": self._model, "temperature": sampling.temperature, "top_p": sampling.top_p, "seed": seed}
        # Other servers than vLLM take at most _MAX_STOPS stops. All stops are applied to the text of the response.
        if stops := sampling.stop if self._is_vllm else sampling.stop[:_MAX_STOPS]:
            request["stop"] = stops
        if self._is_vllm:
            request |= _VLLM_OPTIONS
        request = self._options.add_to(request)
        first_failed: float | None = None
        n_attempts = 0
        while not self._closed.is_set():
            n_attempts += 1
            try:
                completion = self._send_once(path, request, sampling)
            except _TransientFailure as failure:
                now = time.monotonic()
                first_failed = first_failed or now
                since = max(first_failed, self._last_success) if failure.is_rate_limit else first_failed
                if now - since >= self._retry_seconds:
                    raise SamplerError(
                        f"a request to the server at {self._url} has failed for {now - since:.0f} s, the last of "
                        f"{n_attempts} attempts with: {failure}. Run the same command again later: it reuses existing "
                        "samples."
                    ) from failure
                backoff = min(_MAX_BACKOFF_SECONDS, 0.2 * 2 ** min(n_attempts, 10))
                self._closed.wait(max(backoff * random.uniform(1, 1.3), failure.retry_after_seconds))
            else:
                self._last_success = time.monotonic()
                return completion
        raise SamplerError("the sampler was closed while it was sampling")

    def _send_once(self, path: str, request: Mapping[str, Any], sampling: SamplingParams) -> SampledCompletion:
        """Send a request once. Raises _TransientFailure, and the errors of `_complete`."""
        limit_name = self._limit_name  # read once, because another thread may change it
        body = json.dumps({limit_name if name == _LIMIT else name: value for name, value in request.items()})
        seconds = self._options.max_seconds
        try:
            reply = self._client.request(
                "POST", path, body.encode(), read_seconds=seconds, max_seconds=seconds, max_bytes=_MAX_REPLY_BYTES
            )
        except ServerUnreachable as failure:
            raise _TransientFailure(str(failure)) from failure
        content = reply.get_json_object()
        if reply.status == 200 and content.get("choices"):
            return _parse_completion(content, sampling, self._url)
        error, status = _parse_error(content), reply.status
        if status == 200 and error is not None and isinstance(error.code, int) and 400 <= error.code < 600:
            status = error.code  # a gateway had already sent status 200 when the error occurred
        if status == 400 and limit_name == _LIMIT and error is not None and _requires_new_limit(error):
            self._limit_name = _NEW_LIMIT
            return self._send_once(path, request, sampling)
        if status in _REFUSED_PROMPT and (status != 400 or error is not None):
            raise ValueError(f"{status}, {_format_reason(reply)}")
        if status in (200, 400) or is_transient(status):
            raise _TransientFailure(
                f"{status}, {_format_reason(reply)}",
                is_rate_limit=status == _RATE_LIMITED,
                retry_after_seconds=reply.retry_after_seconds,
            )
        raise self._build_permanent_error(status, reply)

    def _build_permanent_error(self, status: int, reply: HttpResponse) -> SamplerError:
        return SamplerError(
            f"the server at {self._url} returned {status}, {_format_reason(reply)}.{_ADVICE.get(status, '')}"
        )

    def _build_request(self, prompt: Prompt, max_tokens: int) -> tuple[str, dict[str, Any]]:
        """Return the path for this type of prompt, and the request's fields for prompt and maximum length."""
        if isinstance(prompt, list):
            fields: dict[str, Any] = {"messages": prompt}
            arguments = dict(self._template_arguments)
            if "chat_template" in arguments:
                fields["chat_template"] = arguments.pop("chat_template")
            if arguments:
                fields["chat_template_kwargs"] = arguments
            if self._is_vllm and is_prefilled(prompt):
                fields |= _CONTINUE
            # The server refuses a max_tokens above its context. Without one, the limit is the rest of the context.
            if self._context is None or max_tokens < self._context:
                fields["max_tokens"] = max_tokens
            return "/chat/completions", fields
        if isinstance(prompt, tuple) and not self._is_vllm:
            raise SamplerError(f"the server at {self._url} is not vLLM, but only vLLM accepts prompts as token ids")
        if self._context is not None:
            left = self._context - (len(prompt) if isinstance(prompt, tuple) else 0)
            if left < 1:
                raise ValueError(f"the prompt has {len(prompt)} tokens, but the model's context has {self._context}")
            max_tokens = min(max_tokens, left)
        # max_tokens is required, because the default of this path is 16. vLLM also stops at the end of its context.
        return "/completions", {"prompt": prompt, "max_tokens": max_tokens}


def _parse_completion(body: Mapping[str, Any], sampling: SamplingParams, url: str) -> SampledCompletion:
    """Decode the completion in a body with choices.

    Raises _TransientFailure if the server failed during generation, and SamplerError if the body is malformed.
    """
    try:
        content = msgspec.convert(body, _Completion)
    except (msgspec.ValidationError, RecursionError) as error:
        raise SamplerError(f"cannot decode the response of {url}: {error}, in {str(body)[:200]}") from error
    choice, usage = content.choices[0], content.usage or _Usage()
    message = choice.message if choice.message is not None else _Message(choice.text)
    if choice.finish_reason == "error" or (choice.message is None and choice.text is None):
        raise _TransientFailure(f"the server failed during generation: {str(body)[:200]}")
    whole = _join_text(message.content)
    text = truncate_at_stop(whole, sampling.stop)
    ids = choice.token_ids or ()
    prompt_ids = content.prompt_token_ids or choice.prompt_token_ids or ()
    n_tokens = len(ids) or int(usage.completion_tokens or 0)
    reached_limit = choice.finish_reason in _TRUNCATED if choice.finish_reason else n_tokens >= sampling.max_tokens
    # Some servers send the same text under both names, so prefer the newer name.
    reasoning = _join_text(message.reasoning) or _join_text(message.reasoning_content)
    if isinstance(message.content, list):
        reasoning = reasoning or "".join(_join_text(part.thinking) for part in message.content)
    return SampledCompletion(
        text=text,
        finish_reason="length" if reached_limit and text == whole else "stop",
        n_tokens=n_tokens,
        prompt_ids=prompt_ids,
        token_ids=ids,
        reasoning=reasoning,
        n_prompt_tokens=len(prompt_ids) or int(usage.prompt_tokens or 0),
    )


def _join_text(content: str | list[_Part] | None) -> str:
    """Join the parts of a message, if it has parts; "" for null."""
    return "".join(part.text or "" for part in content) if isinstance(content, list) else content or ""


def _parse_error(content: Mapping[str, Any]) -> _Error | None:
    try:
        reply = msgspec.convert(content, _ErrorResponse)
    except msgspec.ValidationError:
        return None
    if isinstance(reply.error, _Error):
        return reply.error
    message = reply.error or reply.detail or reply.message
    return _Error(str(message)) if message else None


def _requires_new_limit(error: _Error) -> bool:
    is_unsupported = error.param == _LIMIT and error.code == "unsupported_parameter"
    return is_unsupported or _NEW_LIMIT in (error.message or "")


def _format_reason(reply: HttpResponse) -> str:
    return " ".join(reply.get_error_message().split()).rstrip(".")
