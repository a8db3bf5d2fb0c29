"""The key of a node, by which coordinators know it again. It is made when it is needed first."""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from train.errors import ConfigError
from train.swarm.signed import new_key, read_key

DEFAULT = "~/.config/curate/node.key"


def own_key(path: Path) -> Ed25519PrivateKey:
    """Read the key in this file, or make one. Raises ConfigError if neither is possible."""
    path = path.expanduser()
    if path.exists():
        return read_key(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return new_key(path)
    except OSError as error:
        raise ConfigError(f"cannot make a key in {path}: {error}. Name another file with --key") from error
