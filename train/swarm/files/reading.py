"""Read a rollout file that nobody trusts."""

from train.swarm.calls import SwarmLease
from train.swarm.files.parser import parse
from train.swarm.files.rows import RolloutFile
from train.swarm.files.sanity import fault
from train.swarm.files.sizes import most_bytes
from train.swarm.files.understanding import understood
from train.swarm.settings import SwarmSettings
from train.swarm.verdict import Verdict


def read(content: bytes, lease: SwarmLease, settings: SwarmSettings) -> RolloutFile | Verdict:
    """Return the answers if the file can be read and answers the lease; else the verdict on it.

    Raises SandboxError if nothing is known about the file.
    """
    most = most_bytes(lease.lease)
    if len(content) > most:
        return Verdict("hard", "size")
    output = parse(content, len(lease.lease.seeds), most)
    file = None if output is None else understood(output, lease)
    if file is None:
        return Verdict("hard", "file")
    return fault(file, lease.lease, settings) or file
