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
MOST_PEM = 4 << 20  # all that a computer trusts is a quarter of a megabyte
_PEM = "-----BEGIN CERTIFICATE-----"
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


class _Given:
    """What a command line said for all endpoints of this process."""

    token: str | None = None
    ca: str | None = None


def use_token(token: str | None) -> None:
    """Have every endpoint of this process that is given no token show this one; None: that of the environment."""
    _Given.token = token


def use_ca(ca: str | None) -> None:
    """The same for who signs the broker's certificate."""
    _Given.ca = ca


def default_token() -> str | None:
    """Return the token to show where none is given."""
    return _Given.token or os.environ.get("CORDWOOD_TOKEN") or None


def default_ca() -> str | None:
    """Return who signs the broker's certificate where that is not said; None: those whom this computer trusts."""
    return _Given.ca or os.environ.get("CORDWOOD_CA") or None


def authority(ca: str) -> str:
    """Return the PEM text of those who may sign a broker's certificate: the text itself, or what is in this file."""
    if _PEM not in ca:
        try:
            with open(ca) as file:
                text = file.read(MOST_PEM)
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(f"ca: {ca[:250]}: {getattr(error, 'strerror', None) or 'not a PEM file'}") from None
        if _PEM not in text:
            raise Refused(f"ca: {ca[:250]} has no certificate in PEM")
        ca = text
    return ca


def endpoint(
    url: str, token: str | None = None, tls: "ssl.SSLContext | None" = None, ca: str | None = None
) -> Endpoint:
    """Return the broker's address from its URL.

    The token is taken from CORDWOOD_TOKEN when none is given. `ca` is a PEM file, or its text, with who signs the
    broker's certificate, instead of those whom this computer trusts; CORDWOOD_CA when it is not given. `tls` is a
    context that says all of that by itself.
    """
    try:
        parts = urlsplit(url)
        given_port = parts.port
    except ValueError:
        parts, given_port = urlsplit(""), None
    if "@" in url.rpartition("://")[2].partition("/")[0]:
        raise Refused("an endpoint has no user and no password; who you are says a token: token=, or CORDWOOD_TOKEN")
    whole = parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment
    if not whole or given_port == 0 or not _SAFE.fullmatch(url):
        raise Refused(f"{url!r} is no endpoint; one looks like http://127.0.0.1:{DEFAULT_PORT}")
    token = token or default_token()
    if token is not None and not _SAFE.fullmatch(token):
        raise Refused("the token has characters that no token has")
    if ca is not None and (tls is not None or parts.scheme != "https"):
        raise Refused("ca says whom to trust where the endpoint is https:// and there is no tls context of your own")
    if parts.scheme == "https" and tls is None:
        import ssl

        ca = ca or default_ca()
        try:
            tls = ssl.create_default_context(cadata=None if ca is None else authority(ca))
        except ssl.SSLError as error:
            raise Refused(f"ca has no certificate that can be read: {error.reason or error}") from None
    assert parts.hostname is not None
    port = given_port or (443 if parts.scheme == "https" else DEFAULT_PORT)
    prefix = parts.path.rstrip("/")
    return Endpoint(url.rstrip("/"), parts.hostname, port, prefix, token, tls if parts.scheme == "https" else None)
