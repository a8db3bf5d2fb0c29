"""By which names the service may be called. A page in somebody's browser can have a name of its own resolved to this
machine (DNS rebinding) and ask as if it were ours; what it cannot do is to send another Host or Origin than its own."""

import ipaddress
import re

from sandbox.service.refusals import ForeignPage, Misdirected

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]++\]|[^][:/?#@\s]++)(?::\d*+)?\Z")
_OURS = {"localhost", "127.0.0.1", "::1"}


class Hosts:
    """bound: what the service is bound to. With a token all names will do, for strange pages do not know it."""

    def __init__(self, bound: str, *, token: bool) -> None:
        self._names = None if token else _OURS | {bound.strip("[]").lower()} - {""}

    def check(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Raises Misdirected and ForeignPage."""
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if self._names is not None and (len(hosts) != 1 or _name(hosts[0]) not in self._names):
            raise Misdirected(
                f"this service is called {', '.join(sorted(self._names))}, with any port, and the header Host must"
                " say so. For other names start it with --token-file FILE, or with --host NAME"
            )
        for name, value in headers:
            if name == b"origin" and not self._is_own(value.decode("latin-1"), hosts):
                raise ForeignPage(
                    "the request comes from a page of another site: its header Origin is not this service"
                )

    def _is_own(self, origin: str, hosts: list[str]) -> bool:
        """A page of the service itself would have the very Host and port."""
        scheme, _, host = origin.lower().partition("://")
        return scheme in ("http", "https") and host in [each.lower() for each in hosts]


def _name(host: str) -> str:
    """Without the port; empty for what is no name."""
    match = _HOST.match(host.lower())
    if match is None:
        return ""
    try:
        return str(ipaddress.ip_address(match["name"].strip("[]")))
    except ValueError:
        return match["name"]
