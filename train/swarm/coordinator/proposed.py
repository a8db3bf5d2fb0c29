"""What a new swarm is told of its model and its bars."""

import json
import tomllib
from pathlib import Path

import msgspec

from train.errors import ConfigError
from train.swarm.settings import Bars


def vocabulary_of(model: str) -> int:
    """Return the number of token ids of a model on this machine. Raises ConfigError if that cannot be found out."""
    path = Path(model).expanduser() / "config.json"
    try:
        config = json.loads(path.read_bytes())
        return int(config.get("vocab_size") or config["text_config"]["vocab_size"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"cannot read the size of the vocabulary of {model}: {error!r}. Give it: --vocabulary NUMBER"
        ) from None


def read_bars(path: Path) -> dict[str, Bars]:
    """Return the bars in a file, by the pair of engines. Raises ConfigError if they make no sense."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text()), dict[str, Bars])
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path} does not hold bars: {error}. Make it: curate swarm calibrate") from None
