"""What the operator of a service chooses."""

import ipaddress
import socket
from dataclasses import dataclass

from sandbox.program import Limits


@dataclass(frozen=True, slots=True)
class Settings:
    """queue             requests that may wait for a worker; more are told to come back
    max_body_mb       of one request; all requests together may hold BODIES times as much
    token             what clients must send as `Authorization: Bearer TOKEN`, or as the password of
                      http://anyone:TOKEN@host, if that is all they can do; None: everyone is served
    host              the name or address that the service is bound to, as clients may call it
    most              what may be asked for one run; None: what the machine has, see bounds.default_most
    head_seconds      a connection has for the head of a request, and
    body_seconds      a request for its body to arrive, without the time in which it has to let others go first
    answer_seconds    a client has to take an answer, or a further piece of one; who does not is disconnected
    patience_seconds  a /run_code request waits for a worker before it is answered 504. verl gives up 10 s after the
                      program's own limits and counts that as a failure of the program; a 504 it asks again
    drain_seconds     for what was accepted before a SIGTERM. Less than the 30 s that Kubernetes waits before it kills
    """

    queue: int = 1024
    max_body_mb: float = 32
    token: str | None = None
    host: str = ""
    most: Limits | None = None
    head_seconds: float = 10
    body_seconds: float = 60
    answer_seconds: float = 60
    patience_seconds: float = 8
    drain_seconds: float = 25

    @property
    def max_body(self) -> int:
        """Bytes of one request's body."""
        return int(self.max_body_mb * 2**20)


BODIES = 32  # of the largest size, that are held at once
ANSWER_BYTES = 256 << 20  # of answers that are held at once


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a service that is bound to `host`. Raises OSError for an unknown name."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)
