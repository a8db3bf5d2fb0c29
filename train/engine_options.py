"""Options of engines: vLLM's EngineArgs, and fields of requests to a server."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from types import MappingProxyType
from typing import Any, Self

from train.errors import ConfigError

# Our names of options in [engine], with vLLM's name and the type.
_RENAMED_OPTIONS: Mapping[str, tuple[str, type]] = {
    "concurrency": ("max_num_seqs", int),
    "tensor_parallel": ("tensor_parallel_size", int),
    "memory_share": ("gpu_memory_utilization", float),
    "max_model_len": ("max_model_len", int),
}
# Options that the samplers set themselves.
_RESERVED = {
    "model", "logprobs_mode", "worker_extension_cls", "enable_sleep_mode", "skip_tokenizer_init", "runner",
}  # fmt: skip
# The other options affect only speed and memory.
_SAMPLE_AFFECTING_OPTIONS = {
    "code_revision", "config_format", "dtype", "enable_lora", "hf_config_path", "hf_overrides", "kv_cache_dtype",
    "load_format", "logits_processors", "model_impl", "quantization", "quantization_config", "revision", "tokenizer",
    "tokenizer_mode", "tokenizer_revision",
}  # fmt: skip
# The command-line option of each request field. A null value omits the field, for servers that reject it.
_FIELD_OPTIONS = {
    "temperature": "--temperature", "top_p": "--top-p", "max_tokens": "--max-tokens", "seed": "--seed",
    "stop": "--stop", "chat_template_kwargs": "--template-arg",
}  # fmt: skip
# Request fields on which the client's parsing of replies depends.
_RESERVED_FIELDS = {"model", "messages", "prompt", "stream", "n", "echo"}
REQUEST = "request"  # key of the request fields in a table of sample-affecting options
_REQUEST_SECONDS = 3600.0  # a server may queue a request, and replies only after the last token
MAX_REQUEST_SECONDS = 7200.0


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """The options of requests to a server.

    fields: additional fields of the body by name, which override ours; None omits the field

    Raises ConfigError for fields that curate itself or another option sets.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    max_seconds: float = _REQUEST_SECONDS

    def __post_init__(self) -> None:
        for name, value in self.fields.items():
            if name in _RESERVED_FIELDS:
                raise ConfigError(f"curate sets the request field {name} itself. Omit it.")
            if name in _FIELD_OPTIONS and value is not None:
                raise ConfigError(
                    f"{_FIELD_OPTIONS[name]} sets the request field {name}. Use {_FIELD_OPTIONS[name]} instead."
                )

    def as_table(self) -> dict[str, Any]:
        """Return the options on which completions depend, as JSON values; empty for the default."""
        return {REQUEST: dict(sorted(self.fields.items()))} if self.fields else {}

    def add_to(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request body with these fields added. A field max_completion_tokens removes max_tokens."""
        both = {**request, **({"max_tokens": None} if "max_completion_tokens" in self.fields else {}), **self.fields}
        return {name: value for name, value in both.items() if value is not None}


DEFAULT_REQUEST_OPTIONS = RequestOptions()


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options of an engine.

    concurrency  maximum number of concurrent requests to a server (default 64), or of sequences in vLLM (default
                 vLLM's)
    vllm         options of vLLM's EngineArgs, by vLLM's names
    request      options of requests to a server
    """

    concurrency: int | None = None
    vllm: Mapping[str, Any] = field(default_factory=dict)
    request: RequestOptions = DEFAULT_REQUEST_OPTIONS

    @classmethod
    def from_table(cls, table: Mapping[str, Any], *, reserved_keys: Mapping[str, str] = MappingProxyType({})) -> Self:
        """Return the options in a table [engine].

        table          values by our names (concurrency, tensor_parallel, memory_share, max_model_len) or by those of
                       vLLM's EngineArgs, which rejects unknown ones
        reserved_keys  rejected keys, each with the name of the setting to use instead

        Raises ConfigError for a rejected key, and for a value of the wrong type.
        """
        options: dict[str, Any] = {}
        for key, value in table.items():
            name, kind = _RENAMED_OPTIONS.get(key, (key, None))
            if name == "hf_token":
                raise ConfigError(
                    "the engine option hf_token would be saved with the results. Set the variable HF_TOKEN instead."
                )
            if key in reserved_keys:
                raise ConfigError(
                    f"the engine option {key} is set by {reserved_keys[key]}. Use {reserved_keys[key]} instead."
                )
            if name in _RESERVED:
                raise ConfigError(f"the engine option {key} is set by curate itself. Omit it.")
            fits = kind is None or type(value) is kind or (kind is float and type(value) is int)
            if kind and (not fits or (value <= 0 and key != "max_model_len") or (key == "memory_share" and value > 1)):
                wanted = "a share above 0, up to 1" if kind is float else "an integer above 0"
                raise ConfigError(f"the engine option {key} must be {wanted}, not {value!r}")
            if name in options:
                raise ConfigError(f"the engine options {key} and {name} are the same option. Give one of them.")
            options[name] = value
        return cls(options.pop("max_num_seqs", None), options)

    def to_vllm_options(self) -> dict[str, Any]:
        return {**self.vllm, **({} if self.concurrency is None else {"max_num_seqs": self.concurrency})}

    @property
    def n_gpus(self) -> int:
        """Return the number of GPUs that vLLM uses with these options."""
        sizes = (self.vllm.get(f"{kind}_parallel_size", 1) for kind in ("tensor", "pipeline", "data"))
        return prod(size for size in sizes if isinstance(size, int))  # vLLM rejects other types

    def reject_request_fields(self) -> None:
        """Raise ConfigError for request fields, which an engine in this process ignores."""
        if self.request.fields:
            raise ConfigError(
                f"only a server takes --request {', '.join(self.request.fields)}. Give its address: --base-url URL."
            )

    def get_server_concurrency(self) -> int | None:
        """Return the concurrency for a server, None for the default. Raises ConfigError for options of vLLM."""
        for name in self.vllm:
            raise ConfigError(
                f"the engine option {name} is for vLLM in this process. Give it to the server when you start it; "
                "with --base-url only concurrency can be given."
            )
        return self.concurrency

    def select_sample_affecting_options(self) -> dict[str, Any]:
        """Return the options on which completions depend. Stores never mix samples with different values."""
        options = {name: self.vllm[name] for name in sorted(self.vllm) if name in _SAMPLE_AFFECTING_OPTIONS}
        return {**options, **self.request.as_table()}

    def __or__(self, overrides: Mapping[str, Any]) -> "EngineOptions":
        """Override these options by `overrides`, an earlier result of `select_sample_affecting_options`."""
        vllm = {name: value for name, value in overrides.items() if name != REQUEST}
        request = replace(self.request, fields=overrides.get(REQUEST, self.request.fields))
        return EngineOptions(self.concurrency, {**self.vllm, **vllm}, request)
