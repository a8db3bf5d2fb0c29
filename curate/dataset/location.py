"""The location of a dataset: a folder, or a dataset on the Hub as owner/name@revision."""

from pathlib import Path

from curate.errors import CurateError
from curate.manifest import MANIFEST
from curate.reading.location import HUB_ID
from curate.reading.values import shorten


def resolve_dataset_folder(location: str | Path) -> Path:
    """Return the folder of a dataset. Downloads a dataset on the Hub into the Hub cache.

    location  a folder, `owner/name` or `owner/name@revision`

    Does not check local paths. Raises CurateError if the Hub has no such dataset, or if curate did not build it.
    """
    if not _is_hub_id(location):
        return Path(location).expanduser()
    folder = download_dataset(location)
    if folder is None:
        raise CurateError(
            f"{location}: curate did not build this dataset on the Hub: it has no {MANIFEST}. Build a dataset from it: "
            f"curate build-dataset --source NAME={location}"
        )
    return folder


def require_local_folder(location: str | Path, command: str) -> Path:
    """Return the folder of a dataset to write to. Raises CurateError for a dataset on the Hub.

    command: the command line up to the dataset, for the error message
    """
    if _is_hub_id(location):
        name, _, revision = str(location).partition("@")
        copy = name.partition("/")[2]
        at = f" --revision {revision}" if revision else ""
        raise CurateError(
            f"{location}: no such folder. `{command}` writes to the folder of a dataset. If it is on the Hub, copy it "
            f"first: hf download {name} --repo-type dataset{at} --local-dir {copy}, then {command} {copy}"
        )
    return Path(location).expanduser()


def download_dataset(location: str | Path) -> Path | None:
    """Download a dataset from the Hub and return its folder; None for a local path or data that curate did not build.

    Raises CurateError if the download fails.
    """
    if not _is_hub_id(location):
        return None
    if not (_download(str(location), [MANIFEST]) / MANIFEST).is_file():
        return None
    return _download(str(location), None)


def _is_hub_id(location: str | Path) -> bool:
    """Return whether this is a Hub id. For example, `data/taco` is a path, not a Hub id, if a folder `data` exists."""
    path = Path(location).expanduser()
    return not path.exists() and bool(HUB_ID.fullmatch(str(location))) and not Path(path.parts[0]).exists()


def _download(location: str, patterns: list[str] | None) -> Path:
    from huggingface_hub import constants, snapshot_download

    name, _, revision = location.partition("@")
    try:
        return Path(snapshot_download(name, repo_type="dataset", revision=revision or None, allow_patterns=patterns))
    except Exception as error:  # the Hub client raises exceptions of many libraries
        raise CurateError(
            f"{location}: no such folder, and the download from the Hub failed "
            f"({type(error).__name__}: {shorten(error)}). Check its name and revision and the network "
            f"({constants.ENDPOINT}), log in if it is private (hf auth login), or give the folder of a copy."
        ) from error
