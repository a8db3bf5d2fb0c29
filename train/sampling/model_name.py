"""Check that a model exists before any work is done for it."""

from difflib import get_close_matches
from pathlib import Path

from train.errors import SamplerError

_PATH_PREFIXES = (".", "/", "~")  # anything else may be the name of a model on the Hub
_HUB_SECONDS = 10.0


def check_model(model: str, revision: str | None = None) -> None:
    """Raise SamplerError unless there is a model of this name: in a folder here, or on the Hub.

    revision: of a model on the Hub; None: the newest

    If the Hub's cache on this machine has the model, the Hub is not asked.
    """
    check_folder(model)
    if not Path(model).expanduser().exists():
        _check_hub(model, revision)


def check_folder(model: str) -> None:
    """Raise SamplerError if the name can only be that of a folder, and there is no model in it."""
    folder = Path(model).expanduser()
    is_path = model.startswith(_PATH_PREFIXES) or model.count("/") > 1 or folder.exists()
    if is_path and not folder.is_file() and not (folder / "config.json").is_file():
        raise SamplerError(
            f"{model} is not the folder of a model: it has no config.json.{_near(folder)} Give such a folder, or a "
            "Hub id."
        )


def _check_hub(model: str, revision: str | None) -> None:
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HFValidationError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    near = _near(Path(model).expanduser())
    try:
        if isinstance(try_to_load_from_cache(model, "config.json", revision=revision), str):
            return
        get_hf_file_metadata(hf_hub_url(model, "config.json", revision=revision), timeout=_HUB_SECONDS)
    except HFValidationError:
        raise SamplerError(f"{model} is neither a folder here nor the name of a model on the Hub.{near}") from None
    except GatedRepoError:
        raise SamplerError(
            f"{model} is gated: accept its conditions on the Hub, then type: hf auth login, or set HF_TOKEN."
        ) from None
    except RepositoryNotFoundError:
        raise SamplerError(
            f"{model} is neither a folder here nor a model on the Hub.{near} If it is private, set HF_TOKEN."
        ) from None
    except RevisionNotFoundError:
        raise SamplerError(
            f"the Hub has {model}, but not its revision {revision}. Give another one, or leave it out."
        ) from None
    except EntryNotFoundError:
        raise SamplerError(
            f"the Hub has {model}, but it is not a model: it has no config.json. Give the Hub id of a model."
        ) from None
    except OfflineModeIsEnabled:
        raise SamplerError(
            f"{model} is neither a folder here nor in the Hub's cache, and HF_HUB_OFFLINE is set.{near}"
        ) from None
    except Exception as error:  # the client passes on the errors of the HTTP library that it uses
        raise SamplerError(
            f"{model} is not a folder here, and the Hub cannot be reached to look for it.{near} ({error})"
        ) from error


def _near(folder: Path) -> str:
    """Return a question that suggests the folder of a model with a similar name; "" if there is none."""
    if not folder.parent.is_dir():
        return ""
    models = [path.name for path in folder.parent.iterdir() if (path / "config.json").is_file()]
    names = get_close_matches(folder.name, models, 1)
    return f" Did you mean {folder.with_name(names[0])}?" if names else ""
