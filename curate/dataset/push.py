"""`curate push`: a finished dataset folder onto the Hub, in one commit or not at all."""

from dataclasses import dataclass
from pathlib import Path

from curate.dataset import workspace
from curate.errors import CurateError
from curate.reading.location import HUB_ID
from curate.reading.values import short

CONFIGS = ("data", "rejected", "difficulty", "contamination")
FILES = ("README.md", workspace.MANIFEST, "report.html", "report.json")


@dataclass(frozen=True, slots=True)
class Upload:
    """What goes where: paths relative to the folder, with their sizes in bytes."""

    folder: Path
    repo: str
    revision: str
    private: bool
    files: dict[str, int]


def upload_of(folder: Path, repo: str, *, private: bool, revision: str = "main") -> Upload:
    """What pushing the folder would do; the network is not asked. Raises CurateError if the folder is no finished
    dataset, or the name of the repository is none."""
    workspace.manifest_of(folder)
    if not HUB_ID.fullmatch(repo) or "@" in repo:
        raise CurateError(f"{repo}: not the name of a repository. Give OWNER/NAME.")
    # Folders that begin with a dot hold work in progress, such as a model's samples.
    found = [path for name in CONFIGS for path in sorted((folder / name).glob("*")) if path.is_file()]
    found += [folder / name for name in FILES if (folder / name).is_file()]
    files = {path.relative_to(folder).as_posix(): path.stat().st_size for path in found}
    return Upload(folder, repo, revision, private, files)


def push(upload: Upload) -> str:
    """Create the repository and the revision if they are not there, and commit; returns the commit's address.

    Files of these folders that an earlier push left and this one does not have are deleted by the same commit, so
    that shards of two builds never lie side by side. Raises CurateError; then nothing was committed.
    """
    from huggingface_hub import HfApi, constants, get_token

    if get_token() is None:
        raise CurateError("the Hub wants to know who you are. Type: hf auth login, or set HF_TOKEN.")
    api = HfApi()
    try:
        api.create_repo(upload.repo, repo_type="dataset", private=upload.private, exist_ok=True)
        if upload.revision != "main":
            api.create_branch(upload.repo, repo_type="dataset", branch=upload.revision, exist_ok=True)
        commit = api.upload_folder(
            folder_path=upload.folder,
            repo_id=upload.repo,
            repo_type="dataset",
            revision=upload.revision,
            allow_patterns=list(upload.files),
            delete_patterns=[f"{name}/*" for name in CONFIGS] + [name for name in FILES if name not in upload.files],
            commit_message="Dataset made by curate-code",
        )
    except Exception as error:  # the Hub client raises errors of half a dozen libraries
        raise CurateError(
            f"{upload.repo}: nothing was committed ({type(error).__name__}: {short(error)}). {_advice(error)} "
            f"The Hub is {constants.ENDPOINT}."
        ) from error
    return str(commit.commit_url)


def _advice(error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status == 401:
        return "Your token is not known there. Type: hf auth login."
    if status in (403, 404):
        return "Your token may not write there. Take one that may, or a repository of your own: hf auth login."
    return "Check the network, then type the same command again; files that arrived are not sent twice."
