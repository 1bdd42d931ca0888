"""The way in over TLS: connections are counted from the moment they are accepted, and not only after the handshake.

accept ──▶ too many already? closed, without a word: a word would need a handshake
       ──▶ handshake, at most `head_s` ──▶ a connection like any other
                                       ──▶ failed, or too slow: closed

The event loop's own server would begin to count behind the handshake, and whoever never ends one would take
descriptors without being seen.
"""

import asyncio
import errno
import logging
import socket
import ssl as tls
from collections.abc import Callable

from cordwood.http.limits import Limits
from cordwood.http.occupancy import Occupancy

log = logging.getLogger("cordwood.http")

AT_ONCE = 64  # accepted in one turn of the loop
BREATH_S = 0.5  # when there are no descriptors left
_NONE_LEFT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Handshakes:
    """Accepts from listening sockets, which it then owns."""

    def __init__(
        self,
        sockets: list[socket.socket],
        context: tls.SSLContext,
        connection: Callable[[], asyncio.BaseProtocol],
        limits: Limits,
        occupancy: Occupancy,
    ):
        self.sockets = sockets
        self._context = context
        self._connection = connection
        self._limits = limits
        self._occupancy = occupancy
        self._loop = asyncio.get_running_loop()
        self._under_way: set[asyncio.Task[None]] = set()
        self._closed = False

    def start(self) -> None:
        """Accept from here on."""
        for listening in self.sockets:
            listening.setblocking(False)
            listening.listen(self._limits.backlog)
            self._watch(listening)

    def close(self) -> None:
        """Accept nothing more; a handshake that is under way is broken off. Twice is once."""
        if self._closed:
            return
        self._closed = True
        for listening in self.sockets:
            self._loop.remove_reader(listening)
            listening.close()
        for task in self._under_way:
            task.cancel()

    def _watch(self, listening: socket.socket) -> None:
        if not self._closed:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                sock, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NONE_LEFT:
                    raise
                log.error("no connection can be accepted: %s", error.strerror)
                self._loop.remove_reader(listening)
                self._loop.call_later(BREATH_S, self._watch, listening)
                return
            if self._occupancy.crowded:
                sock.close()
                continue
            sock.setblocking(False)
            self._occupancy.handshaking += 1
            task = self._loop.create_task(self._shake(sock))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _shake(self, sock: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._connection, sock, ssl=self._context, ssl_handshake_timeout=self._limits.head_s
            )
        except (OSError, asyncio.CancelledError) as error:  # the client's fault, or it went: nobody is to be told
            log.debug("a handshake failed: %s", error)
            sock.close()
        except Exception:
            log.exception("a handshake failed")
            sock.close()
        finally:
            self._occupancy.handshaking -= 1
