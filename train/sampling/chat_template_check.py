"""Whether a model has a chat template. Base models have none."""

import json
from pathlib import Path

from train.errors import SamplerError

_FILES = ("chat_template.jinja", "chat_template.json")
_SETTINGS = "tokenizer_config.json"


def check_chat_template(model: str, revision: str | None = None) -> None:
    """Raise SamplerError if the files of a model say that it has no chat template.

    Nothing is loaded or fetched: a model on the Hub whose files are not here yet is not checked.
    """
    settings = _file(model, _SETTINGS, revision)
    if settings is None or any(_file(model, name, revision) for name in _FILES):
        return
    try:
        template = json.loads(settings.read_text(encoding="utf-8")).get("chat_template")
    except (OSError, ValueError, AttributeError):
        return  # the engine will say more about such a file
    if not template:
        raise SamplerError(
            f"{model} has no chat template, so it cannot be asked in a chat: it is a base model. Give --mode complete, "
            "or the tokenizer of a model of chat: --engine tokenizer=NAME."
        )


def _file(model: str, name: str, revision: str | None) -> Path | None:
    """Return a file of a model; None if it is not on this machine."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder / name if (folder / name).is_file() else None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(model, name, revision=revision)
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None
