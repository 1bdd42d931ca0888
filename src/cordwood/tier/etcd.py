"""etcd, asked through its JSON gateway (v3), with nothing but the standard library.

    etcd://host:port[,host:port…][/prefix]

Plain HTTP, unless the environment names certificates as etcdctl takes them: ETCDCTL_CACERT, and ETCDCTL_CERT with
ETCDCTL_KEY. Keys and values are bytes here and base64 on the wire; numbers are text there.
"""

import base64
import http.client
import json
import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cordwood.errors import Refused
from cordwood.machine.objects.store import StoreUnavailable

ALLOWED = "etcd://host:port[,host:port][/prefix]"
PREFIX = "cordwood"
PORT = 2379
TIMEOUT_S = 8.0  # for all hosts together
PAGE = 1000  # keys of one answer
WORDS = 300

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pair:
    """A key as etcd has it."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int


class Etcd:
    """The keys below one prefix of an etcd. Each call has a connection of its own, so any thread may call."""

    def __init__(self, url: str, environment: Mapping[str, str], timeout_s: float = TIMEOUT_S):
        self.url = url
        self._hosts, self._prefix = parse_etcd(url)
        self._timeout_s = timeout_s / len(self._hosts)
        self._tls = _tls(environment)

    # Keys

    def range(self, first: str, end: str | None = None, limit: int = 0) -> tuple[Pair, ...]:
        """Return the keys from `first` to `end`, or only `first`, in order."""
        asked: Json = {"key": self._key(first)}
        if end is not None:
            asked["range_end"] = self._key(end)
        if limit:
            asked["limit"] = str(limit)
        answer = self._ask("kv/range", asked)
        return tuple(map(self._pair, answer.get("kvs", ())))

    def below(self, prefix: str) -> Iterator[str]:
        """Return the keys that begin with a prefix, in order, a page at a time; each page is as of its own moment."""
        first, end = prefix, prefix + "\U0010ffff"
        while True:
            page = self.range(first, end, PAGE)
            for pair in page:
                yield pair.key
            if len(page) < PAGE:
                return
            first = page[-1].key + "\0"

    def transact(self, compare: list[Json], success: list[Json]) -> int | None:
        """Do all of `success` if all of `compare` is so, at once; return the revision, or None if it is not so."""
        answer = self._ask("kv/txn", {"compare": compare, "success": success})
        return int(answer["header"]["revision"]) if answer.get("succeeded") else None

    def created(self, key: str, revision: int) -> Json:
        """Compare: the key was created at this revision; 0: it is not there."""
        return {"key": self._key(key), "target": "CREATE", "result": "EQUAL", "create_revision": str(revision)}

    def changed(self, key: str, revision: int) -> Json:
        """Compare: the key was last changed at this revision; 0: it is not there."""
        return {"key": self._key(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}

    def put(self, key: str, value: bytes, lease: int = 0) -> Json:
        """Do: put a key, which goes with its lease if it has one."""
        return {"request_put": {"key": self._key(key), "value": _text(value), "lease": str(lease)}}

    def delete(self, key: str) -> Json:
        """Do: delete a key."""
        return {"request_delete_range": {"key": self._key(key)}}

    # Leases

    def grant(self, ttl_s: int) -> tuple[int, int]:
        """Return a new lease, and the seconds that it has: at least what was asked."""
        answer = self._ask("lease/grant", {"TTL": str(ttl_s)})
        return int(answer["ID"]), int(answer["TTL"])

    def keep_alive(self, lease: int) -> int:
        """Make a lease new again and return the seconds that it has; 0 when it is gone."""
        answer = self._ask("lease/keepalive", {"ID": str(lease)})
        return int(answer.get("result", {}).get("TTL", 0))

    def revoke(self, lease: int) -> None:
        """End a lease, and delete its keys."""
        self._ask("lease/revoke", {"ID": str(lease)})

    # The wire

    def _key(self, key: str) -> str:
        return _text(f"{self._prefix}/{key}".encode())

    def _pair(self, found: Json) -> Pair:
        key = base64.b64decode(found["key"]).decode().removeprefix(f"{self._prefix}/")
        value = base64.b64decode(found.get("value", ""))
        revisions = (int(found.get(word, 0)) for word in ("create_revision", "mod_revision", "lease"))
        return Pair(key, value, *revisions)

    def _ask(self, path: str, asked: Json) -> Json:
        """Ask the hosts in turn, and return what the first one answers that can."""
        body = json.dumps(asked).encode()
        cause = ""
        for host, port in self._hosts:
            try:
                return self._ask_one(host, port, f"/v3/{path}", body)
            except (OSError, http.client.HTTPException, ValueError) as error:
                cause = f"{host}:{port}: {str(error) or type(error).__name__}"
        raise StoreUnavailable(self.url, cause[:WORDS])

    def _ask_one(self, host: str, port: int, path: str, body: bytes) -> Json:
        if self._tls is None:
            connection = http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        else:
            connection = http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=self._tls)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            # A keepalive is a stream that etcd leaves open: one line is the whole answer.
            answer = response.readline() if path.endswith("/keepalive") else response.read()
            if response.status != 200:
                raise OSError(_said(answer) or f"{response.status} {response.reason}")
            decoded = json.loads(answer)
            if not isinstance(decoded, dict):
                raise ValueError(f"it answered with {answer[:80]!r}")
            return decoded
        finally:
            connection.close()


def parse_etcd(url: str) -> tuple[tuple[tuple[str, int], ...], str]:
    """Return the hosts with their ports, and the prefix of all keys, or refuse the URL."""
    rest = url.removeprefix("etcd://")
    hosts, _, prefix = rest.partition("/")
    if "@" in hosts:
        raise Refused("the etcd:// URL has a user or a password in it; give ETCDCTL_CERT and ETCDCTL_KEY instead")
    found = [_HOST.fullmatch(host) for host in hosts.split(",")]
    prefix = prefix.strip("/") or PREFIX
    if not url.startswith("etcd://") or not all(found) or not prefix.isprintable():
        raise Refused(f"{url[:80]!r} is no etcd; give {ALLOWED}")
    return tuple((host[1].strip("[]"), int(host[2] or PORT)) for host in found if host), prefix


def _tls(environment: Mapping[str, str]) -> ssl.SSLContext | None:
    authority, certificate = environment.get("ETCDCTL_CACERT"), environment.get("ETCDCTL_CERT")
    if not authority and not certificate:
        return None
    try:
        context = ssl.create_default_context(cafile=authority or None)
        if certificate:
            context.load_cert_chain(certificate, environment.get("ETCDCTL_KEY") or None)
        return context
    except OSError as error:
        raise Refused(f"the certificates in ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY: {error}") from error


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _said(answer: bytes) -> str:
    """Return the message of an error, if it has one."""
    try:
        return str(json.loads(answer).get("message", ""))
    except (ValueError, AttributeError):
        return ""
