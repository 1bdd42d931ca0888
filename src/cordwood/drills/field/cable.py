"""A cable between clients and a server that a drill can cut, or that breaks by itself at random bytes."""

import random
import socket
import threading
from contextlib import suppress

WITHIN_BYTES = 6_000  # a cable that breaks does so after at most so many bytes of a connection, either way


class Cable:
    """Forwards bytes both ways on a port of its own.

    While it is `breaking`, each new connection is cut at a random byte of its requests or of its answers. While it is
    `cut`, nothing gets through.
    """

    def __init__(self, port: int, seed: str):
        self._server = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.breaking = False
        self.broken = 0
        self._cut = False
        self._draw = random.Random(seed)
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Cut all connections, and let none through."""
        self._cut = True
        for sock in list(self._open):
            _close(sock)

    def mend(self) -> None:
        """Let connections through again."""
        self._cut = False

    def close(self) -> None:
        """End it."""
        self.cut()
        _close(self._listener)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    if self._cut:
                        raise ConnectionRefusedError
                    server = socket.create_connection(self._server)
                except OSError:
                    _close(client)
                    continue
                self._open |= {client, server}
                left = self._draw.randrange(1, WITHIN_BYTES) if self.breaking else None
                asking = self._draw.random() < 0.5
                for one, other, most in (
                    (client, server, left if asking else None),
                    (server, client, None if asking else left),
                ):
                    threading.Thread(target=self._forward, args=(one, other, most), daemon=True).start()

    def _forward(self, one: socket.socket, other: socket.socket, left: int | None) -> None:
        with suppress(OSError):
            while data := one.recv(65_536):
                if left is not None and left <= len(data):
                    self.broken += 1
                    other.sendall(data[:left])
                    break
                left = None if left is None else left - len(data)
                other.sendall(data)
        _close(one)
        _close(other)
        self._open -= {one, other}


def _close(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
