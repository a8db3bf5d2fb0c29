"""`curate push`: publication of a finished dataset folder on the Hub, atomically in one commit."""

from collections.abc import Iterable
from pathlib import Path

from curate.dataset import output_folder
from curate.dataset.digests import DIGESTS
from curate.dataset.integrity import check_trusted
from curate.errors import CurateError
from curate.manifest import MANIFEST
from curate.reading.location import HUB_ID
from curate.reading.values import shorten
from curate.trust import TrustPolicy

CONFIGS = ("data", "rejected", "evidence", "difficulty", "contamination")
FILES = ("README.md", MANIFEST, "report.html", "report.json", DIGESTS)


def list_files_to_push(folder: Path, repo: str, trust: TrustPolicy) -> dict[str, int]:
    """Return the sizes in bytes of the files to push, by relative path, without using the network.

    trust: whether to push an altered dataset

    Raises CurateError if the folder is not a finished dataset, if it was altered, or if `repo` is not the name of a
    repository.
    """
    output_folder.read_manifest(folder)
    check_trusted(folder, trust, read_rows=True)
    if not HUB_ID.fullmatch(repo) or "@" in repo:
        raise CurateError(f"{repo}: not the name of a repository. Pass OWNER/NAME.")
    # Folders whose names begin with a dot hold work in progress, such as a model's samples.
    paths = [path for name in CONFIGS for path in sorted((folder / name).glob("*")) if path.is_file()]
    paths += [folder / name for name in FILES if (folder / name).is_file()]
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in paths}


def push(folder: Path, repo: str, files: Iterable[str], *, private: bool, revision: str) -> str:
    """Push files in one commit and return its URL. Creates the repository and the revision if they do not exist.

    files: paths relative to the folder

    The same commit deletes files of earlier pushes, so shards of two builds are never mixed. Raises CurateError if
    nothing was committed.
    """
    from huggingface_hub import HfApi, constants, get_token

    if get_token() is None:
        raise CurateError("you are not logged in to the Hub. Run hf auth login, or set HF_TOKEN.")
    api, sent = HfApi(), list(files)
    try:
        api.create_repo(repo, repo_type="dataset", private=private, exist_ok=True)
        if revision != "main":
            api.create_branch(repo, repo_type="dataset", branch=revision, exist_ok=True)
        commit = api.upload_folder(
            folder_path=folder,
            repo_id=repo,
            repo_type="dataset",
            revision=revision,
            allow_patterns=sent,
            delete_patterns=[f"{name}/*" for name in CONFIGS] + [name for name in FILES if name not in sent],
            commit_message="Dataset made by curate-code",
        )
    except Exception as error:  # the Hub client raises exceptions of many libraries
        raise CurateError(
            f"{repo}: nothing was committed ({type(error).__name__}: {shorten(error)}). {_suggest_remedy(error)} "
            f"The Hub is {constants.ENDPOINT}."
        ) from error
    return str(commit.commit_url)


def _suggest_remedy(error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status == 401:
        return "The Hub rejected your token. Run: hf auth login."
    if status in (403, 404):
        return "Your token lacks write access to it. Log in with another (hf auth login), or use your own repository."
    return "Check the network, then run the same command again; it skips files uploaded before."
