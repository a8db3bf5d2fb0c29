"""The key of a node or a verifier, by which coordinators know it again. It is made when it is needed first.

One process at a time uses a key: a coordinator would take two for one that was started again, over and over.
"""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sandbox.concurrency.file_lock import FileLock
from train.errors import ConfigError
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
