"""Web pages of others, kept out of a broker that asks nobody for a token.

A browser on this computer reaches a loopback address, and does what any page tells it to. These ways are closed:

    a page posts to http://127.0.0.1:7878       its Origin is not ours (or Sec-Fetch-Site says so): 403
    a page's own name is pointed at 127.0.0.1    its Host is a name that is not ours: 403
    a page asks http://0.0.0.0:7878 for a stream  neither is told; but its Host is no address of anybody: 403

Programs send no Origin and call a loopback broker by its address or as localhost; they notice nothing. Where tokens
are asked for, none of this is needed: no browser adds a token by itself.
"""

from ipaddress import ip_address

from cordwood.http.refusal import Refusal
from cordwood.http.request import Request
from cordwood.server.need import OPEN, Need

MOST_REMEMBERED = 1_000
_OURS = (b"same-origin", b"none")  # a page of ours, or a person who typed the address


class Origins:
    """Decides whether a request comes from where it may. `host` is the address that the broker listens on."""

    def __init__(self, host: str, allowed: str = ""):
        # In public names are of the network, and who reaches it is its affair; unless somebody says which they are.
        self._any_name = not (is_loopback(host) or allowed.strip())
        names = (name.strip().lower() for name in (host, *allowed.split(",")))
        self._names = {name for name in names if name and not is_nobody(name)}
        self._good: set[bytes | None] = {None}  # HTTP/1.0 has no Host, and no browser speaks it

    def plain(self, headers: dict[bytes, bytes]) -> bool:
        """Whether it is a program's, by a name that was found right before: nothing more need be asked."""
        return headers.get(b"host") in self._good and b"origin" not in headers and b"sec-fetch-site" not in headers

    def check(self, request: Request, need: Need) -> None:
        """Return if it is a program's, or a page's of ours; raise Refusal, 403, if it is another's."""
        host = request.headers.get(b"host")
        if host not in self._good:
            self._check_name(host or b"")
        self._check_page(request, need)

    def _check_name(self, host: bytes) -> None:
        name = host_name(host.decode("latin-1")).lower()
        if not (self._any_name or name in self._names or name.endswith(".localhost") or is_local_name(name)):
            raise Refusal(
                403,
                f"this broker is not called {name[:100]!r}; it asks nobody for a token, and so answers only to its"
                " address. Name it in allowed_hosts, or make tokens.",
            )
        if len(self._good) >= MOST_REMEMBERED:
            self._good.clear()
            self._good.add(None)
        self._good.add(host)

    def _check_page(self, request: Request, need: Need) -> None:
        headers = request.headers
        if need is OPEN and request.method in ("GET", "HEAD"):
            return  # a link to the page of a broker may be anywhere; nothing is changed by following it
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        ours = origin is None or origin.partition(b"://")[2].lower() == headers.get(b"host", b"").lower()
        if not ours or (site is not None and site not in _OURS):
            raise Refusal(403, "a web page from elsewhere sent this; this broker answers only its own pages")


def host_name(host: str) -> str:
    """Return a Host without its port, an IPv6 address without its brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def is_local_name(name: str) -> bool:
    """Whether a name can mean nothing but an address: nobody else can point it anywhere."""
    if name == "localhost":
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return not is_nobody(name)


def is_nobody(name: str) -> bool:
    """Whether it is 0.0.0.0 or ::, which lead to this computer, and where browsers do not say whose page asks."""
    try:
        address = ip_address(name)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_unspecified


def is_loopback(host: str) -> bool:
    """Whether only programs on this computer reach this address; a name may be anything."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
