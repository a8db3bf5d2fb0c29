"""What an engine has to be like in order to sample for a run, wherever it is started."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from train.engine_options import EngineOptions
from train.sampling.protocol import Engine


class EngineSpec(Struct, frozen=True):
    """Read from a run's configuration by train/sampling/open_engine.py.

    run             name of the run
    model           a folder or a name on the Hub; other weights are loaded before anything is sampled
    context_tokens  tokens of prompt and answer together
    vllm            options of vLLM, by vLLM's names
    """

    run: str
    model: str
    kind: Literal["vllm", "transformers"]
    context_tokens: int
    vllm: dict[str, Any] = {}


def start_engine(
    spec: EngineSpec,
    model: str | None = None,
    engine: Mapping[str, Any] | None = None,
    *,
    verifiable: bool = False,
) -> Engine:
    """Start an engine in this process.

    model       a folder or a name on the Hub instead of that in the terms
    engine      options as in the section [engine] that replace those of the terms
    verifiable  whether answers that others can check will be asked for

    Raises SamplerError if it cannot be started, and ConfigError for unknown options.
    """
    path = str(Path(model or spec.model).expanduser())
    options = {**spec.vllm, **EngineOptions.from_table(engine or {}).for_vllm()}
    if spec.kind == "transformers":
        from train.sampling.transformers import TransformersSampler

        return TransformersSampler(path, context_tokens=spec.context_tokens)
    from train.sampling.vllm import VllmSampler

    return VllmSampler(path, verifiable=verifiable, **options)
