"""Be admitted to a swarm with an invite, as a node or as a verifier."""

import msgspec

from train.errors import ConfigError, RunError
from train.swarm.engine_terms import check_engine_options
from train.swarm.messages import JoinRequest, JoinResponse
from train.swarm.protocol.client import SignedClient
from train.swarm.settings import SwarmSettings, read_settings
from train.swarm.signatures import BadSignature


def join(client: SignedClient, *, engine: str, hardware: str = "") -> SwarmSettings:
    """Join, or join again, and return what the swarm agrees on.

    engine    as in `JoinRequest`
    hardware  in words, for the operator

    Raises ControllerUnreachable if the coordinator cannot be reached, and RunError if it refuses this node.
    """
    invite = client.invite
    joined = client.call("/join", JoinRequest(invite.text.encode("ascii"), engine, hardware), JoinResponse)
    try:
        settings = read_settings(joined.settings, invite.run, invite.public_key)
        check_engine_options(settings.engine)
        return settings
    except (BadSignature, ConfigError, msgspec.MsgspecError) as error:
        raise RunError(f"the settings of {invite.run} cannot be used: {error}") from error
