"""Can this machine read rollout files at all?"""

import tempfile
from pathlib import Path

from sandbox.errors import BackendUnavailable
from train.asynchronous.messages import Draw, Lease
from train.sampling.engine_terms import EngineTerms
from train.swarm.calls import LEASE_ID_BYTES, SwarmLease
from train.swarm.files.reading import read
from train.swarm.files.rows import RolloutFile, Row
from train.swarm.files.writing import write
from train.swarm.settings import SwarmSettings

_SETTINGS = SwarmSettings("trial", EngineTerms("trial", "", "transformers", context_tokens=8), vocabulary=2)
_LEASE = SwarmLease(bytes(LEASE_ID_BYTES), Lease(0, 0, 0, (1,), (0,), Draw(1.0, 1.0, 1, verifiable=True), 1.0))
_ROW = Row(0, 0, 0, (1,), (1,), (0.0,), "length", b"")


def try_reading() -> None:
    """Write a small file and read it. Raises SandboxError if that does not work."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers"
        write(path, [_ROW], node=b"", lease=_LEASE, engine="")
        found = read(path.read_bytes(), _LEASE, _SETTINGS)
    if not isinstance(found, RolloutFile):
        raise BackendUnavailable(f"a rollout file of our own cannot be read on this machine: {found.reason}")
