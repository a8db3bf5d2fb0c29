"""The settings of a service."""

import ipaddress
import socket
from dataclasses import dataclass

from sandbox.program import Limits


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The operator's choices.

    max_queued_requests    number of requests that may wait for a worker; further ones get 429
    max_body_mb            size of one request's body; all requests together may hold MAX_HELD_BODIES times as much
    token                  the token that clients must send as `Authorization: Bearer TOKEN`, or as the password of
                           http://anyone:TOKEN@host; None: no token required
    open_metrics           whether /metrics needs no token, as /health never does
    host                   the name or address that the service is bound to and that clients use
    max_limits             upper bounds for the limits of one run; None derives them from the machine
                           (request_bounds.default_max_limits)
    body_seconds           time within which the body of a request must arrive
    queue_timeout_seconds  time that a /run_code request waits for a worker before it gets 504, which verl retries. verl
                           itself times out 10 s after the program's limits and counts that as the program's failure
    drain_seconds          time for accepted requests to finish after SIGTERM; less than Kubernetes' 30 s before SIGKILL
    """

    max_queued_requests: int = 1024
    max_body_mb: float = 32
    token: str | None = None
    open_metrics: bool = False
    host: str = ""
    max_limits: Limits | None = None
    body_seconds: float = 60
    queue_timeout_seconds: float = 8
    drain_seconds: float = 25

    @property
    def max_body(self) -> int:
        """Bytes that the body of one request may have."""
        return int(self.max_body_mb * 2**20)

    @property
    def max_held_bytes(self) -> int:
        """Bytes that the bodies of all requests together may have."""
        return MAX_HELD_BODIES * self.max_body


MAX_HELD_BODIES = 32  # bodies of maximum size that may be held at once


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a service bound to `host`. Raises OSError for an unknown name."""
    addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in addresses)
