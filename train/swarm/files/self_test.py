"""Can this machine read rollout files at all?"""

import tempfile
from pathlib import Path

from sandbox.errors import BackendUnavailable
from train.asynchronous.messages import Lease
from train.sampling.engine_spec import EngineSpec
from train.sampling.protocol import SamplingParams
from train.swarm.files.reader import read_rollout_file
from train.swarm.files.rows import RolloutFile, RolloutRow
from train.swarm.files.writer import write_rollout_file
from train.swarm.messages import LEASE_ID_BYTES, SwarmLease
from train.swarm.settings import SwarmSettings

_SETTINGS = SwarmSettings("trial", EngineSpec("trial", "", "transformers", context_tokens=8), vocab_size=2)
_LEASE = SwarmLease(
    bytes(LEASE_ID_BYTES), Lease(0, 0, 0, (1,), (0,), SamplingParams(1.0, 1.0, 1, logprobs=True, verifiable=True), 1.0)
)
_ROW = RolloutRow(0, 0, 0, (1,), (1,), (0.0,), "length", b"")


def self_test() -> None:
    """Write a small file and read it. Raises SandboxError if that does not work."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers"
        write_rollout_file(path, [_ROW], node=b"", lease=_LEASE, engine="")
        found = read_rollout_file(path.read_bytes(), _LEASE, _SETTINGS)
    if not isinstance(found, RolloutFile):
        raise BackendUnavailable(f"a rollout file of our own cannot be read on this machine: {found.reason}")
