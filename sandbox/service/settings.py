"""The settings of a service."""

import ipaddress
import socket
from dataclasses import dataclass

from sandbox.program import Limits


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The operator's settings.

    max_queued_requests    maximum number of queued requests; further ones get 429
    max_body_mb            maximum size of a request's body. The bodies of all requests together may have
                           MAX_BUFFERED_BODIES times this size
    token                  the token that clients must send as `Authorization: Bearer TOKEN`, or as the password of
                           http://anyone:TOKEN@host; None if no token is required
    open_metrics           whether /metrics is open without the token, like /health
    host                   the bind address, or the host name that clients use
    max_limits             upper bounds for the limits of one run; None for request_bounds.make_default_max_limits
    body_seconds           time limit for receiving the body of a request
    queue_timeout_seconds  maximum time of a /run_code request in the queue, before it gets 504, which verl retries.
                           verl times out 10 s after the program's limits and counts that as the program's failure
    drain_seconds          maximum time for accepted requests after SIGTERM; less than Kubernetes' 30 s before SIGKILL
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
    def max_body_bytes(self) -> int:
        return int(self.max_body_mb * 2**20)

    @property
    def max_buffered_bytes(self) -> int:
        """Maximum size of the bodies of all requests together."""
        return MAX_BUFFERED_BODIES * self.max_body_bytes


MAX_BUFFERED_BODIES = 32  # maximum number of bodies of maximum size in memory


def is_loopback(host: str) -> bool:
    """Return whether `host` is a loopback address, or resolves to one. Raises OSError for an unknown name."""
    addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in addresses)
