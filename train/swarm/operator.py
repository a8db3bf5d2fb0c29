"""The operator's side: calls of a coordinator that are signed with the key of the run."""

from train.swarm.folder import SwarmFolder
from train.swarm.protocol.client import SignedClient
from train.swarm.protocol.invites import Invite
from train.swarm.signed import public_of, read_key


def operator_client(folder: SwarmFolder) -> SignedClient:
    """Return a client for the coordinator of this folder. Raises ConfigError if it is none."""
    key, address = read_key(folder.key), folder.address()
    return SignedClient(
        Invite(address.run, address.here, address.relays, public_of(key), "node", 0.0, b""), key, reply_seconds=30.0
    )
