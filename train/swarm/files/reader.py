"""Read a rollout file that nobody trusts."""

from train.swarm.files.decoder import decode_rollout_file
from train.swarm.files.parser import run_parser
from train.swarm.files.rows import RolloutFile
from train.swarm.files.sizes import max_file_bytes
from train.swarm.files.validation import validate
from train.swarm.messages import SwarmLease
from train.swarm.settings import SwarmSettings
from train.swarm.verdict import LeaseVerdict


def read_rollout_file(content: bytes, lease: SwarmLease, settings: SwarmSettings) -> RolloutFile | LeaseVerdict:
    """Return the answers if the file can be read and answers the lease; else the verdict on it.

    Raises SandboxError if nothing is known about the file.
    """
    most = max_file_bytes(lease.lease)
    if len(content) > most:
        return LeaseVerdict("hard", "size")
    output = run_parser(content, len(lease.lease.seeds), most)
    file = None if output is None else decode_rollout_file(output, lease)
    if file is None:
        return LeaseVerdict("hard", "file")
    return validate(file, lease.lease, settings) or file
