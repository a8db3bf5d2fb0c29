"""Checks of the headers Host and Origin against DNS rebinding.

A web page can make its host name resolve to this machine and send same-origin requests, but cannot forge these headers.
"""

import ipaddress
import re

from sandbox.service.service_errors import CrossOriginRequest, MisdirectedRequest

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]++\]|[^][:/?#@\s]++)(?::\d*+)?\Z")
_LOOPBACK_NAMES = {"localhost", "127.0.0.1", "::1"}


class AllowedHosts:
    """The accepted host names. A service with a token accepts all, since pages of other sites do not have the token.

    host    the service's bind address, or the host name that clients use
    token   whether clients must send a token
    """

    def __init__(self, host: str, *, token: bool) -> None:
        self._names = None if token else _LOOPBACK_NAMES | {host.strip("[]").lower()} - {""}

    def check(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Check the headers Host and Origin. Raises MisdirectedRequest and CrossOriginRequest."""
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if self._names is not None and (len(hosts) != 1 or _parse_host(hosts[0]) not in self._names):
            raise MisdirectedRequest(
                f"the header Host must name this service: {', '.join(sorted(self._names))}, with any port."
                " To use another name, start the service with --token-file FILE or with --host NAME"
            )
        for name, value in headers:
            if name == b"origin" and not self._is_same_origin(value.decode("latin-1"), hosts):
                raise CrossOriginRequest(
                    "the request comes from a web page of another site: its header Origin does not name this service"
                )

    def _is_same_origin(self, origin: str, hosts: list[str]) -> bool:
        scheme, _, host = origin.lower().partition("://")
        return scheme in ("http", "https") and host in [name.lower() for name in hosts]


def _parse_host(host: str) -> str:
    """Return the name or normalized address in a header Host, without the port; "" if invalid."""
    match = _HOST.match(host.lower())
    if match is None:
        return ""
    try:
        return str(ipaddress.ip_address(match["name"].strip("[]")))
    except ValueError:
        return match["name"]
