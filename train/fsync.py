"""fsync files and directories."""

import os
from pathlib import Path


def fsync_path(path: Path) -> None:
    """Wait until a file, or the list of files in a folder, is on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
