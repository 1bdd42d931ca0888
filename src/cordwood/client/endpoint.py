"""Where a broker is and how to get in: a URL, a token, perhaps TLS.

http://127.0.0.1:7878          https://broker.example/queue          the path, if any, comes before /v1
"""

import os
import re
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cordwood.errors import Refused

if TYPE_CHECKING:
    import ssl

DEFAULT_PORT = 7878
_SAFE = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A broker's address; `url` as it was given, without a slash at the end."""

    url: str
    host: str
    port: int
    prefix: str
    token: str | None = field(default=None, repr=False)
    tls: "ssl.SSLContext | None" = None

    def connect(self, timeout_s: float) -> Any:
        """Return a connected socket; every later wait on it has the same limit. Raises OSError."""
        sock = socket.create_connection((self.host, self.port), timeout_s)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return self.tls.wrap_socket(sock, server_hostname=self.host) if self.tls else sock
        except BaseException:
            sock.close()
            raise

    def lines(self) -> bytes:
        """Return the header lines that every request has."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        lines = f"Host: {name}:{self.port}\r\n"
        if self.token:
            lines += f"Authorization: Bearer {self.token}\r\n"
        return lines.encode()


def endpoint(url: str, token: str | None = None, tls: "ssl.SSLContext | None" = None) -> Endpoint:
    """Return the broker's address from its URL; the token is taken from CORDWOOD_TOKEN when none is given."""
    try:
        parts = urlsplit(url)
        given_port = parts.port
    except ValueError:
        parts, given_port = urlsplit(""), None
    whole = parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment
    if not whole or given_port == 0 or not _SAFE.fullmatch(url):
        raise Refused(f"{url!r} is no endpoint; one looks like http://127.0.0.1:{DEFAULT_PORT}")
    token = token or os.environ.get("CORDWOOD_TOKEN") or None
    if token is not None and not _SAFE.fullmatch(token):
        raise Refused("the token has characters that no token has")
    if parts.scheme == "https" and tls is None:
        import ssl

        tls = ssl.create_default_context()
    assert parts.hostname is not None
    port = given_port or (443 if parts.scheme == "https" else DEFAULT_PORT)
    prefix = parts.path.rstrip("/")
    return Endpoint(url.rstrip("/"), parts.hostname, port, prefix, token, tls if parts.scheme == "https" else None)
