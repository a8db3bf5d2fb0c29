"""A swarm on this machine: a trainer, a coordinator, relays, a verifier and nodes, each a process."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from processes import ProcessGroup, find_free_ports

from train.errors import ControllerUnreachable, RunError
from train.swarm.client import SignedClient
from train.swarm.folder import SwarmFolder
from train.swarm.invites import create_invite, read_invite
from train.swarm.messages import NodeStatus, SwarmStatus
from train.swarm.signatures import public_key_bytes, read_key


class Swarm:
    """A swarm in one folder: run/, coordinator/, relays, keys and logs.

    report: called with the name of a process and a line of its output
    """

    def __init__(self, folder: Path, report: Callable[[str, str], None] = lambda name, line: None) -> None:
        self.folder, self.run = folder, folder / "run"
        self.processes = ProcessGroup(folder / "logs", report)
        self._ports = find_free_ports(4)
        self._client: SignedClient | None = None

    def start_trainer(self, config: Path, *changes: str) -> None:
        """Start `curate train` without local workers; the swarm's coordinator is the only worker."""
        settings = [*changes, "workers.local=false", f"workers.listen={self._format_address(0)}"]
        arguments = [argument for change in settings for argument in ("--set", change)]
        self.processes.start_curate("trainer", "train", str(config), "--out", str(self.run), "--resume", *arguments)
        self.processes.wait_for("trainer", "workers can join")

    def start_coordinator(self, *options: str) -> None:
        """Start the coordinator, and the two relays named in invites."""
        relays = [word for number in (2, 3) for word in ("--relay", f"http://{self._format_address(number)}")]
        self.processes.start_curate(
            "coordinator", "coordinator", str(self.folder / "coordinator"), "--controller",
            f"http://{self._format_address(0)}", "--listen", self._format_address(1), *relays, *options,
        )  # fmt: skip
        self.processes.wait_for("coordinator", "listening on")
        for number in (2, 3):
            name = f"relay-{number - 1}"
            self.processes.start_curate(
                name, "relay", "--invite", self._invite(), "--folder", str(self.folder / name), "--listen",
                self._format_address(number),
            )  # fmt: skip

    def start_verifier(self) -> None:
        self.processes.start_curate(
            "verifier", "verifier", self._invite("verifier"), "--key", str(self._key_path("verifier"))
        )

    def start_node(self, name: str, cheat: str = "") -> None:
        """Start a node.

        cheat: kind of cheat in cheats.py; empty for an honest node
        """
        invite, key = self._invite(), str(self._key_path(name))
        if cheat:
            script = str(Path(__file__).parent / "cheats.py")
            self.processes.start(name, sys.executable, "-W", "ignore", script, cheat, invite, key)
        else:
            self.processes.start_curate(name, "rollout", "--join", invite, "--key", key)

    def count_steps(self) -> int:
        """Return the number of steps completed by the trainer."""
        path = self.run / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        whole = [line for line in lines if line.endswith("\n")]
        return int(json.loads(whole[-1])["step"]) if whole else 0

    def fetch_status(self) -> SwarmStatus | None:
        """Return the coordinator's status; None if it is unreachable."""
        if self._client is None:
            folder = SwarmFolder(self.folder / "coordinator")
            self._client = SignedClient(read_invite(self._invite()), read_key(folder.key_path), reply_seconds=5.0)
        try:
            return self._client.call("/status", None, SwarmStatus)
        except (ControllerUnreachable, RunError):
            return None

    def find_node(self, status: SwarmStatus, name: str) -> NodeStatus | None:
        """Return the status of a node; None if it has not joined."""
        public = self.read_public_key(name)
        return next((node for node in status.nodes if node.node == public), None)

    def read_public_key(self, name: str) -> bytes:
        """Return the public key of a node; empty if it has none yet."""
        return public_key_bytes(read_key(self._key_path(name))) if self._key_path(name).exists() else b""

    def _key_path(self, name: str) -> Path:
        return self.folder / "keys" / f"{name}.key"

    def _invite(self, role: Literal["node", "verifier"] = "node") -> str:
        """Return an invite, as `curate swarm invite` prints it."""
        folder = SwarmFolder(self.folder / "coordinator")
        address, key = folder.read_address(), read_key(folder.key_path)
        return create_invite(
            key, run=address.run, coordinator=address.coordinator, relays=address.relays, role=role, seconds=3600
        ).text

    def _format_address(self, number: int) -> str:
        return f"127.0.0.1:{self._ports[number]}"
