"""A broker behind its port, from start to stop.

start   open the journal (recover) ──▶ take the store ──▶ listen ──▶ ready
stop    accept nothing new ──▶ finish what was accepted ──▶ close the journal cleanly
"""

import asyncio
import os
import resource
import socket
import ssl as tls
from pathlib import Path

from cordwood.broker.running import Running, open_broker
from cordwood.http.limits import Limits
from cordwood.http.listener import Listener
from cordwood.machine.boot_clock import BootClock
from cordwood.machine.objects.opening import open_objects
from cordwood.server.routes import handler
from cordwood.settings import NO_TIER, Settings
from cordwood.tier.claiming import open_claims

MOST_CONNECTIONS = 50_000
OTHER_FILES = 124  # descriptors that are not connections: segments, the listening socket, what libraries open
GRACE_S = 10.0  # for requests that are under way


class App:
    """One broker that listens. Made by `start_app`."""

    def __init__(self, running: Running, listener: Listener):
        self.running = running
        self.listener = listener

    @property
    def endpoint(self) -> str:
        """Where clients reach it."""
        host, port = self.listener.addresses[0]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def stop(self, grace_s: float = GRACE_S) -> None:
        """Finish what was accepted, and close."""
        await self.listener.stop(grace_s)
        await self.running.close()


async def start_app(
    settings: Settings, *, memory: bool = False, cut: bool = False, ssl: tls.SSLContext | None = None
) -> App:
    """Return a broker that is ready. Raises what `open_broker` and `use_tier` raise, OSError if the address is taken.

    `cut` says that an operator gave up the end of the journal.
    """
    running = open_broker(settings, memory=memory)
    try:
        if not memory and settings.tier != NO_TIER:
            await _open_tier(running, settings, cut)
    except BaseException:
        await running.close()
        raise
    body_bytes = max(64 << 20, 2 * settings.max_message_bytes + (1 << 20))
    listener = Listener(
        handler(running, connections=lambda: running.connections()),
        host=settings.host,
        port=settings.port,
        ssl=ssl,
        limits=Limits(
            max_body_bytes=body_bytes,
            max_receiving_bytes=max(256 << 20, 2 * body_bytes),
            max_connections=raise_descriptors() - OTHER_FILES,
        ),
    )
    running.connections = lambda: listener.connections
    try:
        await listener.start()
    except BaseException:
        await running.close()
        raise
    return App(running, listener)


async def _open_tier(running: Running, settings: Settings, cut: bool) -> None:
    url = settings.tier or str(Path(settings.data) / "tier")
    objects = await asyncio.get_running_loop().run_in_executor(None, open_objects, url)
    claims = open_claims(settings.metadata, objects, BootClock())
    owner = f"{socket.gethostname()}, process {os.getpid()}, {settings.data}"
    await running.use_tier(objects, claims, owner, cut=cut)


def raise_descriptors() -> int:
    """Ask for as many descriptors as many idle consumers need; return how many there are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, MOST_CONNECTIONS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return most if soft == resource.RLIM_INFINITY else min(soft, MOST_CONNECTIONS)
