"""What the outboxes of this process share: logs are begun here, and each place they send to has one sender.

A module of its own because it loads the journal, and so a library of 60 ms: who only imports `Outbox` does not wait.
"""

import errno
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

from cordwood.client.endpoint import endpoint as parse
from cordwood.edge.delivery import Delivery, Terms
from cordwood.edge.event import Event
from cordwood.edge.facts import VERSION, Begun
from cordwood.edge.leftovers import LeftOvers, keeper, lock, put_away, remove_new
from cordwood.edge.log import Log
from cordwood.edge.look import look, outboxes
from cordwood.edge.names import NEW, quoted, taken_name
from cordwood.edge.post import CallPost, HttpPost, Post
from cordwood.edge.sender import Sender
from cordwood.errors import CordwoodError, Locked
from cordwood.machine.clock import SystemClock
from cordwood.machine.disk import RealDirectory, make_directory, new_directory, sync_path

if TYPE_CHECKING:
    from ssl import SSLContext

log = logging.getLogger("cordwood.edge")

DEFAULT_ENDPOINT = "http://127.0.0.1:7878"
END_S = 0.5  # what the last outbox waits for the end of the sender
_LOCK_TRIES = 20  # somebody may just be looking at it
_random = SystemRandom()


# A log of its own


def begin(
    root: Path, execution: str, topic: str | None, endpoint: str | None, max_bytes: int, clock: SystemClock
) -> tuple[Path, Log]:
    """Make the directory and its log, durable and locked, then give it its name: nobody sees it half made."""
    name = quoted(execution)
    path = root / name
    _make_root(root)
    _step_aside(root, path)
    made = root / f"{name}@{NEW}{secrets.token_hex(8)}"
    new_directory(made)
    begun = Begun(VERSION, execution, topic, secrets.token_hex(16), clock.now_ms(), endpoint)
    kept: Log | None = None
    try:
        directory = RealDirectory(made)
        kept = Log(directory, clock, _random, begun=begun, max_bytes=max_bytes)
        made.rename(path)
        sync_path(root)
    except BaseException as error:
        if kept is not None:
            kept.abandon()
        remove_new(made)
        if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise _running(execution, path) from None
        raise
    directory.path = str(path)
    return path, kept


def _make_root(root: Path) -> None:
    for _ in range(3):
        try:
            make_directory(root)
            return
        except FileExistsError:  # another process is making it, too
            continue
    make_directory(root)


def _step_aside(root: Path, path: Path) -> None:
    """Let the unfinished log of an earlier run give the name up; a sender finds it under its new one."""
    for attempt in range(_LOCK_TRIES):
        if not path.exists():
            return
        directory = lock(path)
        if directory is not None:
            try:
                path.rename(root / taken_name(path.name, os.listdir(root)))
                sync_path(root)
            finally:
                directory.close()
            return
        time.sleep(0.005 * attempt)
    raise _running(path.name, path)


def _running(execution: str, path: Path) -> Locked:
    return Locked(
        f"execution {execution!r} is running already: {path} is in use. Give each run an execution of its own, "
        "such as its job and a number"
    )


# The senders of this process


class Place:
    """Where an outbox sends to; outboxes with an equal one share a sender. `url` is None where it is a function."""

    def __init__(self, key: tuple[Any, ...], name: str, post: Callable[[], Post], url: str | None):
        self.key, self.name, self.post, self.url = key, name, post, url
        self.numbered = url is not None

    @classmethod
    def of(
        cls,
        url: str | None,
        token: str | None,
        tls: "SSLContext | None",
        ca: str | None,
        send: Callable[[list[Event]], Any] | None,
    ) -> "Place":
        """Return it, or refuse what is none."""
        if send is not None:
            return cls(("call", _identity(send)), getattr(send, "__name__", "call"), lambda: CallPost(send), None)
        found = parse(url or os.environ.get("CORDWOOD_ENDPOINT") or DEFAULT_ENDPOINT, token, tls, ca)
        key = ("http", found.url, found.token, tls, ca)
        return cls(key, f"{found.host}:{found.port}", lambda: HttpPost(found), found.url)


def _identity(send: Callable[..., Any]) -> Any:
    """Return what tells functions apart: two bound methods of one object are the same; not all have a hash."""
    try:
        hash(send)
    except TypeError:
        return id(send)
    return send


class Shared:
    """A sender, and how many outboxes use it."""

    def __init__(self, place: Place, terms: Terms, archives: bool):
        clock = SystemClock()
        self.left = LeftOvers(clock, _random, terms, numbered=place.numbered, archives=archives, endpoint=place.url)
        self.sender = Sender(place.post(), clock, _random.random, self.left)
        self.key = place.key
        self.users = 0
        self.sender.start(place.name)

    def leave(self, delivery: Delivery) -> None:
        """Send no more for this outbox; the last one that leaves ends the sender."""
        with _sharing:
            self.sender.remove(delivery)
            self.left.ended(delivery)
            self.users -= 1
            last = self.users == 0
            if last:
                self.sender.end()
                if _shared.get(self.key) is self:
                    del _shared[self.key]
        if last:
            self.sender.join(END_S)  # so that the left-overs it had are free again

    def put_away(self, kept: Log, path: Path, *, archives: bool) -> None:
        """Archive a log that is sent, close one that is not."""
        put_away(kept, path, archives=archives)


_shared: dict[tuple[Any, ...], Shared] = {}
_sharing = threading.Lock()


def join(place: Place, path: Path, kept: Log, terms: Terms, *, archives: bool) -> tuple[Shared, Delivery]:
    """Have a log sent by the sender of this place, which begins with the first."""
    delivery = Delivery(kept, terms, _random.random, numbered=place.numbered, keep=keeper(path.parent, archives))
    if not place.numbered:
        delivery.partitions = 1
    with _sharing:
        shared = _shared.get(place.key)
        if shared is None:
            shared = _shared[place.key] = Shared(place, terms, archives)
        shared.users += 1
        with shared.sender.lock:
            shared.left.watch(path.parent)
            shared.left.lives(delivery, path)
        shared.sender.add(delivery)
    return shared, delivery


def forget() -> None:
    """Forget the senders of the process that this one was forked from."""
    global _sharing
    for shared in _shared.values():
        shared.left.forget()
    _shared.clear()
    _sharing = threading.Lock()


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the sending of left-overs is: events settled so far, those pending in what is taken, what is wrong."""

    settled: int
    pending: int
    error: str | None


def send_left_overs(
    root: str | Path,
    endpoint: str | None = None,
    *,
    token: str | None = None,
    tls: "SSLContext | None" = None,
    ca: str | None = None,
    timeout_s: float | None = None,
    archives: bool = True,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> int:
    """Send what dead executions left in this root, archive it, and return how many of their events remain.

    All goes to `endpoint`; without one, each goes to the broker that it was meant for. It returns when nothing is
    left that nobody else has, when a broker cannot be reached, or after `timeout_s`. `tell` is called now and then,
    and at the end.
    """
    root = Path(root).expanduser().absolute()
    until = None if timeout_s is None else time.monotonic() + timeout_s
    settled = 0
    for url in [endpoint] if endpoint is not None else _endpoints(root):
        place = Place.of(url, token, tls, ca, None)
        left = LeftOvers(
            SystemClock(),
            _random,
            Terms(linger_ms=0),
            numbered=True,
            archives=archives,
            endpoint=None if endpoint is not None else place.url,
        )
        left.watch(root)

        def told(progress: Progress, before: int = settled) -> None:
            tell(replace(progress, settled=before + progress.settled))

        _send(place, left, until, told)
        settled += left.settled
    return sum(_pending(path) for path in outboxes(root))


def _endpoints(root: Path) -> list[str]:
    """Return the brokers that the left-overs of a root were meant for."""
    found = set()
    for path in outboxes(root):
        try:
            one = look(path)
        except (CordwoodError, OSError):
            continue  # who looks at what remains says so
        if one.endpoint is not None and not one.living:
            found.add(one.endpoint)
    return sorted(found)


def _send(place: Place, left: LeftOvers, until: float | None, tell: Callable[[Progress], None]) -> None:
    """Send the left-overs that are found, until there is none, or the broker cannot be reached, or it is too late."""
    sender = Sender(place.post(), SystemClock(), _random.random, left)
    try:
        while True:
            wait = sender.turn()
            taken = sender.left_overs
            error = sender.error or next((one.error for one in taken if one.error), None)
            tell(Progress(left.settled, sum(one.pending for one in taken), error))
            stuck = sender.failing or (wait > 0 and any(one.error for one in taken))
            late = until is not None and time.monotonic() >= until
            if stuck or late or (not taken and wait > 0):
                break
            time.sleep(min(wait, 50) / 1000)
    finally:
        sender.let_go()


def _pending(path: Path) -> int:
    """Return how many events of a dead execution wait in this directory."""
    try:
        found = look(path)
    except (CordwoodError, OSError) as error:
        log.warning("%s cannot be looked at: %s", path, error)
        return 0
    return 0 if found.living else found.pending
