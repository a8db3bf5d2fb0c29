"""The operator's side: calls of a coordinator that are signed with the key of the run."""

from train.swarm.folder import SwarmFolder
from train.swarm.protocol.client import SignedClient
from train.swarm.protocol.invites import Invite
from train.swarm.signatures import public_key_bytes, read_key

UNREACHABLE_HINT = "Is the coordinator running? Type the command that started it again."


def operator_client(folder: SwarmFolder) -> SignedClient:
    """Return a client for the coordinator of this folder. Raises ConfigError if it is not one."""
    address, key = folder.address(), read_key(folder.key_path)
    return SignedClient(
        Invite(address.run, address.local_url, address.relays, public_key_bytes(key), "node", 0.0, b""),
        key,
        reply_seconds=30.0,
    )
