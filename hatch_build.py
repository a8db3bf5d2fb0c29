"""A build hook that records the git commit in wheels and source distributions."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMMIT = "curate/commit.txt"  # `curate --version` reads it


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """A hook that adds the file `COMMIT` if the tree is a git checkout; a source distribution already has the file."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        describe = ["git", "-C", self.root, "describe", "--always", "--abbrev=12", "--dirty=, changed"]
        if version != "editable" and Path(self.root, ".git").exists():
            described = subprocess.run(describe, capture_output=True, text=True)
            if described.returncode == 0:
                path = Path(self._folder.name, "commit.txt")
                path.write_text(described.stdout)
                build_data["force_include"][str(path)] = COMMIT

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._folder.cleanup()
