"""A wire between client and broker that a test can cut, in either direction."""

import random
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit


class Proxy:
    """Forwards bytes both ways. `troubles` says how many connections are cut, each at a random byte of its answers.

    With `deaf` set, requests are forwarded and answers are not, so that the client cannot know what was done. With
    `pause_s` the body of an answer comes so long behind its head.
    """

    def __init__(self, endpoint: str, *, troubles: int = 0, within_bytes: int = 2000, seed: int = 0):
        parts = urlsplit(endpoint)
        self._broker = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.deaf = False
        self.pause_s = 0.0
        self._random = random.Random(seed)
        self._troubles = troubles
        self._within_bytes = within_bytes
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Cut all connections, now."""
        for sock in list(self._open):
            _close(sock)

    def close(self) -> None:
        """Cut everything and accept nothing more."""
        _close(self._listener)
        self.cut()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    broker = socket.create_connection(self._broker)
                except OSError:
                    client.close()
                    continue
                self._open |= {client, broker}
                left = None
                if self._troubles:
                    self._troubles -= 1
                    left = self._random.randrange(1, self._within_bytes)
                threading.Thread(target=self._forward, args=(client, broker, None), daemon=True).start()
                threading.Thread(target=self._forward, args=(broker, client, left), daemon=True).start()

    def _forward(self, one: socket.socket, other: socket.socket, left: int | None) -> None:
        answers = left is not None or one.getpeername() == self._broker
        with suppress(OSError):
            while data := one.recv(65536):
                if answers and self.deaf:
                    continue
                if left is not None:
                    data, left = data[:left], left - len(data)
                if answers and self.pause_s:
                    head, end, data = data.partition(b"\r\n\r\n")
                    other.sendall(head + end)
                    time.sleep(self.pause_s)
                other.sendall(data)
                if left is not None and left <= 0:
                    break
        _close(one)
        _close(other)
        self._open -= {one, other}


def _close(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
