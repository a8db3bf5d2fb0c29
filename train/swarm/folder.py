"""The folder of a coordinator, and the lock on it.

run.key          the key of the run, which signs everything
settings         signed SwarmSettings
address          URLs of coordinator and relays (SwarmAddress, JSON)
ledger.sqlite    the ledger
store/           versions of the weights, for relays
uploads/         files of completions without a verdict
versions/        copies of the newest versions, from which deltas are computed
page.token       token of the status page
"""

import os
from pathlib import Path

import msgspec
from msgspec import Struct, field

from sandbox.concurrency.file_lock import FileLock
from train.errors import ConfigError

NEW_PREFIX = ".new-"  # of temporary files


def lock_folder(folder: Path, user: str, option: str) -> FileLock:
    """Create a folder, and lock it against other processes.

    user    the kind of process, for messages
    option  the command line argument with the folder, for messages

    Raises ConfigError if the folder is not writable, or another process has locked it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        in_use = ConfigError(f"another {user} is writing to {folder}. Stop it, or choose another {option}.")
        return FileLock(folder / ".lock", in_use)
    except OSError as error:
        raise ConfigError(f"cannot write to {folder}: {error.strerror}. Choose another {option}.") from error


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file atomically. Raises OSError."""
    new = path.with_name(f"{NEW_PREFIX}{path.name}.{os.getpid()}")
    new.write_bytes(content)
    new.replace(path)


class SwarmAddress(Struct, frozen=True):
    """The addresses of a swarm: public URLs, for invites, and the coordinator's URL on this machine."""

    run: str
    coordinator: str
    local_url: str = field(name="here")
    relays: tuple[str, ...] = ()


class SwarmFolder:
    """The paths in the folder of a coordinator."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.key_path = path / "run.key"
        self.settings_path = path / "settings"
        self.address_path = path / "address"
        self.ledger_path = path / "ledger.sqlite"
        self.store_path = path / "store"
        self.uploads_path = path / "uploads"
        self.versions_path = path / "versions"
        self.page_token_path = path / "page.token"

    def page_url(self) -> str:
        """Return the URL of the status page, with its token. Raises ConfigError."""
        try:
            token = self.page_token_path.read_text(encoding="ascii").strip()
            return f"{self.read_address().local_url}/page?token={token}"
        except OSError as error:
            raise ConfigError(f"{self.path} has no token for the status page: {error}") from error

    def read_address(self) -> SwarmAddress:
        """Return the addresses of the swarm. Raises ConfigError if no coordinator has been started here."""
        try:
            return msgspec.json.decode(self.address_path.read_bytes(), type=SwarmAddress)
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigError(
                f"{self.path} is not the folder of a coordinator ({error}). Start one: curate coordinator FOLDER"
            ) from error

    def write_address(self, address: SwarmAddress) -> None:
        write_atomic(self.address_path, msgspec.json.format(msgspec.json.encode(address), indent=1) + b"\n")
