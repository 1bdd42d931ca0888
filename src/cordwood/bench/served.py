"""A broker as its users run it: `cordwood serve` in a process of its own, on a free loopback port."""

import http.client
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cordwood.bench.peers.peer import Missing
from cordwood.errors import CordwoodError
from cordwood.serving import Serving

IDLE_SECONDS = 10  # of a connection that is kept; a broker keeps it longer


class Served:
    """A running broker. `endpoint` is its URL, `port` is in it."""

    def __init__(self, directory: Path, *options: str):
        """Start it on this directory's disk, with --sync always and these options, and return when it listens."""
        self._serving = Serving(directory, "--sync", "always", *options)
        try:
            self._serving.start()
        except CordwoodError as error:
            raise Missing(str(error)) from None
        self.endpoint, self.port = self._serving.endpoint, self._serving.port
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        self._asked = time.monotonic()

    def ask(self, method: str, path: str, body: Mapping[str, Any] | bytes = b"", accept: str = "*/*") -> bytes:
        """Send a request, JSON unless it is encoded already, and return the reply's body."""
        encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": accept}
        if time.monotonic() > self._asked + IDLE_SECONDS:
            self._connection.close()  # the broker may have done so; it opens again by itself
        self._asked = time.monotonic()
        self._connection.request(method, path, encoded, headers)
        reply = self._connection.getresponse()
        answer = reply.read()
        if reply.status >= 300:
            raise RuntimeError(f"{method} {path}: {reply.status} {answer.decode(errors='replace')}")
        return answer

    def create_topic(self, name: str, partitions: int = 1) -> None:
        self.ask("POST", "/v1/topics", {"name": name, "partitions": partitions})

    def delete_topic(self, name: str) -> None:
        self.ask("DELETE", f"/v1/topics/{name}")

    @property
    def memory_bytes(self) -> int:
        """What it has in memory now (VmRSS)."""
        for line in Path(f"/proc/{self._serving.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise LookupError("VmRSS")

    @property
    def cpu_seconds(self) -> float:
        """The processor time of all its threads, ever."""
        words = Path(f"/proc/{self._serving.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self._serving.stop()

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
