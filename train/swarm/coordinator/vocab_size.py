"""The number of token ids of a model."""

import json
from pathlib import Path

from train.errors import ConfigError


def read_vocab_size(model: str) -> int:
    """Return the number of token ids of a model on this machine. Raises ConfigError if that cannot be found out."""
    path = Path(model).expanduser() / "config.json"
    try:
        config = json.loads(path.read_bytes())
        return int(config.get("vocab_size") or config["text_config"]["vocab_size"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"cannot read the size of the vocabulary of {model}: {error!r}. Give it: --vocabulary NUMBER"
        ) from None
