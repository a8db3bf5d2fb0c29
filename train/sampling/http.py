"""A model behind an OpenAI-compatible address: `vllm serve`, any other server, or a provider.

One request per sample and many of them at once, so that each comes back as soon as it is finished. What goes wrong on
the way is tried again for some time.
"""

import json
import os
import random
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

from sandbox.concurrency.completed import completed
from sandbox.concurrency.sockets import Sockets
from train.sampling.protocol import Completion, Prompt, SamplerError, Sampling

try:
    import urllib3
    from urllib3.exceptions import HTTPError
    from urllib3.util import Timeout, parse_url
except ImportError as error:
    raise SamplerError(f"to ask a server: {error}. Type: pip install 'curate-code[http]'") from error

_AT_ONCE = 64  # requests; a server batches them, and a provider that allows fewer says 429
_REPEATED = {408, 409, 429, 500, 502, 503, 504}
_CONNECT_SECONDS = 10
_ANSWER_SECONDS = 3600  # a long answer in a long queue; nothing comes before it is finished
_LONGEST_PAUSE = 20  # seconds between repeats, unless the server says otherwise
# What `vllm serve` would otherwise take from the model's generation_config.json, and the ids it can tell.
_OF_VLLM = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "return_token_ids": True}


class HttpSampler:
    """base_url as OpenAI's clients have it, with /v1. The key, where one is wanted, stands in OPENAI_API_KEY.

    retry_seconds: for which a request is repeated. Raises SamplerError if there is no such server, or no such model.
    """

    def __init__(self, model: str, base_url: str, *, retry_seconds: float = 300) -> None:
        try:
            where = parse_url(base_url.rstrip("/"))
        except HTTPError:
            where = parse_url("")
        if where.scheme not in ("http", "https") or not where.host:
            raise SamplerError(f"{base_url!r} is no address; it looks like http://localhost:8000/v1")
        self._model = model
        self._url = where._replace(auth=None).url
        self._path = where.path or ""
        key = os.environ.get("OPENAI_API_KEY")
        self._headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        self._retry_seconds = retry_seconds
        self._closed = threading.Event()
        self._sockets = Sockets()
        self._pool = urllib3.connection_from_url(self._url, maxsize=_AT_ONCE)
        self._pool.ConnectionCls = self._sockets.following(self._pool.ConnectionCls)
        about = self._about()
        self._extra = _OF_VLLM if about.get("owned_by") == "vllm" else {}
        self._context = about.get("max_model_len")  # tokens; not all servers tell

    def sample(self, prompts: Iterable[Prompt], sampling: Sampling) -> Iterator[tuple[int, Completion | ValueError]]:
        """(index, completion) as they finish; see train/sampling/protocol.py."""

        def ask(prompt: Prompt) -> Completion:
            return self._ask(*prompt, sampling)

        for index, future in completed(ask, prompts, threads=_AT_ONCE):
            error = future.exception()
            if error is None:
                yield index, future.result()
            elif isinstance(error, ValueError):
                yield index, error
            else:
                raise error

    def close(self) -> None:
        """Hang up; requests in progress raise SamplerError."""
        self._closed.set()
        self._sockets.hang_up()
        self._pool.close()

    def _about(self) -> dict[str, Any]:
        """What the server says of the model."""
        try:
            answer = self._send("GET", "/models", None, _CONNECT_SECONDS)
        except HTTPError as error:
            raise SamplerError(
                f"no server answers at {self._url}: {error}. Start one, for example: vllm serve {self._model}"
            ) from error
        if answer.status in (401, 403):
            raise SamplerError(f"the server at {self._url} refuses the key. Set OPENAI_API_KEY to one that it takes.")
        models = _content(answer).get("data")
        if answer.status != 200 or not isinstance(models, list):
            raise SamplerError(
                f"what answers at {self._url} is no OpenAI-compatible server: GET /models gave {answer.status}. "
                "Does the address end in /v1?"
            )
        known = {str(each.get("id")): each for each in models if isinstance(each, dict)}
        if self._model not in known:
            names = ", ".join(sorted(known)[:10])
            raise SamplerError(f"the server at {self._url} has no model {self._model}. It has {names or 'none'}.")
        return known[self._model]

    def _ask(self, chat: Any, seed: int, sampling: Sampling) -> Completion:
        """Raises ValueError where the server refuses this prompt, SamplerError where it does not answer."""
        asked = {
            "model": self._model,
            "messages": chat,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "seed": seed,
            **self._extra,
        }
        if isinstance(self._context, int) and sampling.max_tokens >= self._context:
            del asked["max_tokens"]  # it would be refused; without it, an answer may take what the prompt leaves
        body = json.dumps(asked).encode()
        first_failed: float | None = None
        tries = 0
        while not self._closed.is_set():
            tries += 1
            pause = min(_LONGEST_PAUSE, 0.2 * 2**tries)
            try:
                answer = self._send("POST", "/chat/completions", body, _ANSWER_SECONDS)
            except HTTPError as error:
                trouble = str(error)
            else:
                if answer.status == 200:
                    return _completion(answer, self._url)
                trouble = f"{answer.status}, {_words(answer)}"
                if answer.status in (400, 413, 422):
                    raise ValueError(trouble)
                if answer.status not in _REPEATED:
                    raise SamplerError(f"the server at {self._url} answered {trouble}")
                pause = max(pause, _seconds(answer.headers.get("retry-after", "")))
            now = time.monotonic()
            first_failed = first_failed or now
            left = first_failed + self._retry_seconds - now
            if left <= 0:
                raise SamplerError(
                    f"the server at {self._url} does not answer any more, asked {tries} times: {trouble}. "
                    "Start it again; then the same command continues."
                )
            self._closed.wait(min(left, pause * random.uniform(1, 1.3)))
        raise SamplerError("the sampler was closed while it had work")

    def _send(self, method: str, path: str, body: bytes | None, seconds: float) -> urllib3.BaseHTTPResponse:
        return self._pool.urlopen(
            method,
            self._path + path,
            body=body,
            headers=self._headers,
            redirect=False,
            retries=False,
            timeout=Timeout(connect=_CONNECT_SECONDS, read=seconds),
        )


def _completion(answer: urllib3.BaseHTTPResponse, url: str) -> Completion:
    content = _content(answer)
    try:
        choice = content["choices"][0]
        message = choice["message"]
        ids = tuple(choice.get("token_ids") or ())
        # Servers that take the thinking out of an answer hand it over beside it; it is no part of the answer.
        return Completion(
            text=message.get("content") or "",
            finish_reason="length" if choice["finish_reason"] == "length" else "stop",
            n_tokens=len(ids) or int((content.get("usage") or {}).get("completion_tokens") or 0),
            prompt_ids=tuple(content.get("prompt_token_ids") or ()),
            token_ids=ids,
        )
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise SamplerError(f"cannot read what the server at {url} answered: {answer.data[:200]!r}") from error


def _content(answer: urllib3.BaseHTTPResponse) -> dict[str, Any]:
    """The JSON object in an answer; empty if it holds none."""
    try:
        content = json.loads(answer.data)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _words(answer: urllib3.BaseHTTPResponse) -> str:
    error = _content(answer).get("error")
    said = error.get("message") if isinstance(error, dict) else error
    return str(said or answer.data[:200].decode("utf-8", "replace"))


def _seconds(text: str) -> float:
    return min(float(text), 300.0) if text.isascii() and text.isdecimal() else 0.0
