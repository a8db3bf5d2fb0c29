"""Checks of a model's name, tokenizer and chat template, before it is loaded."""

import json
from difflib import get_close_matches
from pathlib import Path

from train.errors import SamplerError

_PATH_PREFIXES = (".", "/", "~")  # any other name may be on the Hub
_HUB_SECONDS = 10.0
_TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json")


def check_model(model: str, revision: str | None = None) -> None:
    """Raise SamplerError unless a model of this name exists: a local folder, or a model on the Hub.

    revision: revision on the Hub; None: the newest

    Sends no request if the Hub's local cache has the model.
    """
    check_folder(model)
    if not Path(model).expanduser().exists():
        _check_hub(model, revision)


def check_folder(model: str) -> None:
    """Raise SamplerError if the name is a folder without a model."""
    folder = Path(model).expanduser()
    is_path = model.startswith(_PATH_PREFIXES) or model.count("/") > 1 or folder.exists()
    if is_path and not folder.is_file() and not (folder / "config.json").is_file():
        raise SamplerError(
            f"{model} is not the folder of a model: it has no config.json.{_suggest_name(folder)} Give such a folder, "
            "or a Hub id."
        )


def check_tokenizer(model: str) -> None:
    """Raise SamplerError if a folder has no tokenizer, for which transformers would create an empty one."""
    folder = Path(model).expanduser()
    if folder.is_dir() and not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        raise SamplerError(
            f"{model} has no tokenizer: none of {', '.join(_TOKENIZER_FILES)} exists. Copy these files from its base "
            "model."
        )


def check_chat_template(model: str, revision: str | None = None) -> None:
    """Raise SamplerError if a model has no chat template, like base models, or its folder has no tokenizer.

    Downloads nothing, so a Hub model outside the local cache passes.
    """
    check_tokenizer(model)
    settings = _find_file(model, "tokenizer_config.json", revision)
    if settings is None or any(_find_file(model, name, revision) for name in _TEMPLATE_FILES):
        return
    try:
        template = json.loads(settings.read_text(encoding="utf-8")).get("chat_template")
    except (OSError, ValueError, AttributeError):
        return  # the engine reports the error
    if not template:
        raise SamplerError(
            f"{model} has no chat template, so it cannot take chats: it is a base model. Give "
            "--mode complete, --prompt-format base, or the tokenizer of a chat model: --engine tokenizer=NAME."
        )


def _check_hub(model: str, revision: str | None) -> None:
    from huggingface_hub import errors, get_hf_file_metadata, hf_hub_url

    try:
        if _find_file(model, "config.json", revision) is None:
            get_hf_file_metadata(hf_hub_url(model, "config.json", revision=revision), timeout=_HUB_SECONDS)
    except Exception as error:
        hint = _suggest_name(Path(model).expanduser())
        problems: dict[type[Exception], str] = {  # subclasses before their bases
            errors.HFValidationError: f"{model} is neither a folder here nor the name of a model on the Hub.{hint}",
            errors.GatedRepoError: f"{model} is gated: accept its conditions on the Hub, then type: hf auth login, or "
            "set HF_TOKEN.",
            errors.RepositoryNotFoundError: f"{model} is neither a folder here nor a model on the Hub.{hint} If it is "
            "private, set HF_TOKEN.",
            errors.RevisionNotFoundError: f"the Hub has {model}, but not its revision {revision}. Give another "
            "revision, or omit it.",
            errors.EntryNotFoundError: f"the Hub has {model}, but it is not a model: it has no config.json. Give the "
            "Hub id of a model.",
            errors.OfflineModeIsEnabled: f"{model} is neither a folder here nor in the Hub's cache, and "
            f"HF_HUB_OFFLINE is set.{hint}",
            # The client raises the errors of its HTTP library.
            Exception: f"{model} is not a folder here, and the Hub cannot be reached to look for it.{hint} ({error})",
        }
        raise SamplerError(next(text for kind, text in problems.items() if isinstance(error, kind))) from error


def _find_file(model: str, name: str, revision: str | None) -> Path | None:
    """Return the local path of a model's file; None if missing."""
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


def _suggest_name(folder: Path) -> str:
    """Suggest the folder of a model with a similar name; "" if there is none."""
    if not folder.parent.is_dir():
        return ""
    models = [path.name for path in folder.parent.iterdir() if (path / "config.json").is_file()]
    names = get_close_matches(folder.name, models, 1)
    return f" Did you mean {folder.with_name(names[0])}?" if names else ""
