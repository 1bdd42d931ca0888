"""A broker behind its port, from start to stop.

start   open the journal (recover) ──▶ take the store ──▶ listen ──▶ ready
stop    accept nothing new ──▶ finish what was accepted ──▶ close the journal cleanly
"""

import asyncio
import errno
import os
import resource
import socket
from dataclasses import replace
from pathlib import Path

from cordwood.broker.running import Running, open_broker
from cordwood.errors import Refused
from cordwood.http.limits import Limits
from cordwood.http.listener import Listener
from cordwood.machine.boot_clock import BootClock
from cordwood.machine.clock import Clock
from cordwood.machine.objects.directory import DirectoryObjects
from cordwood.machine.objects.opening import open_objects
from cordwood.machine.objects.store import StoreUnavailable
from cordwood.server.door import Door
from cordwood.server.exposure import check_exposure
from cordwood.server.routes import handler, open_door
from cordwood.server.tls import certificate
from cordwood.server.watch import Watch
from cordwood.settings import NO_TIER, Settings
from cordwood.tier.claim import Terms
from cordwood.tier.claiming import open_claims

MOST_CONNECTIONS = 50_000
OTHER_FILES = 124  # descriptors that are not connections: segments, the listening socket, what libraries open
LOCK_PATIENCE_MS = 5_000  # a directory's lock ends with its process, so there is not much to wait for
GRACE_S = 10.0  # for requests that are under way


class App:
    """One broker that listens. Made by `start_app`."""

    def __init__(self, running: Running, listener: Listener, door: Door, watch: Watch, *, secure: bool):
        self.running = running
        self.listener = listener
        self.door = door
        self._watch = watch
        self._secure = secure

    @property
    def endpoint(self) -> str:
        """Where clients reach it."""
        host, port = self.listener.addresses[0]
        return f"http{'s' if self._secure else ''}://{f'[{host}]' if ':' in host else host}:{port}"

    def look(self) -> None:
        """Take notice of changed tokens and certificates now."""
        self._watch.look()

    async def stop(self, grace_s: float = GRACE_S) -> None:
        """Finish what was accepted, and close."""
        self._watch.stop()
        self.running.broker.hurry()  # a consumer that waits for messages would keep us for the whole grace
        self.running.touch()
        await self.listener.stop(grace_s)
        await self.running.close()


async def start_app(
    settings: Settings,
    *,
    memory: bool = False,
    cut: bool = False,
    insecure: bool = False,
    clock: Clock | None = None,
    terms: Terms | None = None,
) -> App:
    """Return a broker that is ready. Raises what `open_broker` and `use_tier` raise, OSError if the address is taken.

    `cut` says that an operator gave up the end of the journal; `insecure` that it may listen in public as it is.
    `clock` and the `terms` of a claim are the usual ones but in a drill.
    """
    check_exposure(settings, memory=memory, insecure=insecure)
    shown = certificate(settings)
    running = open_broker(settings, memory=memory, clock=clock)
    try:
        if not memory and settings.tier != NO_TIER:
            await _open_tier(running, settings, cut, terms)
        elif running.has_objects:
            raise Refused("this journal has history in a tier, which --tier none cannot read; give it its store")
        door = open_door(running, clock)
    except BaseException:
        await running.close()
        raise
    body_bytes = max(64 << 20, 2 * settings.max_message_bytes + (1 << 20))
    listener = Listener(
        handler(running, connections=lambda: running.connections(), clock=clock, door=door),
        host=settings.host,
        port=settings.port,
        ssl=None if shown is None else shown.context,
        screen=door.screen,
        limits=Limits(
            max_body_bytes=body_bytes,
            max_receiving_bytes=max(256 << 20, 2 * body_bytes),
            max_connections=raise_descriptors() - OTHER_FILES,
        ),
    )
    running.connections = lambda: listener.connections
    try:
        await listener.start()
    except BaseException as error:
        await running.close()
        if isinstance(error, OSError):
            raise OSError(error.errno, _unheard(settings, error)) from error
        raise
    watch = Watch(door.look, *([] if shown is None else [shown.look]))
    watch.start()
    return App(running, listener, door, watch, secure=shown is not None)


async def _open_tier(running: Running, settings: Settings, cut: bool, terms: Terms | None) -> None:
    """Take the store. A directory that has no room, say, keeps nobody from using the journal: it is tried again."""
    url = settings.tier or str(Path(settings.data) / "tier")
    owner = f"{socket.gethostname()}, process {os.getpid()}, {settings.data}"
    try:
        objects = await asyncio.get_running_loop().run_in_executor(None, open_objects, url)
    except Refused as error:
        raise Refused(f"tier: {error}") from None
    locked = isinstance(objects, DirectoryObjects) and settings.metadata == "store"
    if locked:
        terms = replace(terms or Terms(), patience_ms=LOCK_PATIENCE_MS)
    claims = open_claims(settings.metadata, objects, BootClock(), terms)
    try:
        await running.use_tier(objects, claims, owner, cut=cut)
    except StoreUnavailable as error:
        if not locked or not running.had_store:
            raise
        running.use_tier_later(objects, claims, owner, error)


def _unheard(settings: Settings, error: OSError) -> str:
    """Return why the address cannot be had, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return f"{settings.host}:{settings.port}: address already in use; stop who has it, or choose another --port"
    code = error.errno or 0  # negative where a name was not found
    why = os.strerror(code) if code > 0 else error.strerror or error
    return f"cannot listen at {settings.host}:{settings.port}: {why}; choose another --host or --port"


def raise_descriptors() -> int:
    """Ask for as many descriptors as many idle consumers need; return how many there are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, MOST_CONNECTIONS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return most if soft == resource.RLIM_INFINITY else min(soft, MOST_CONNECTIONS)
