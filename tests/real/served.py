"""A broker as a process of its own, over HTTP, that can be killed and started again."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import urlencode


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Served:
    """`cordwood serve` on a directory, for the length of a `with`."""

    module = "cordwood"  # what is run

    def __init__(self, data: Path | None, *flags: str, before: Sequence[str] = ()):
        self._data = data
        self._flags = flags
        self._before = before  # a program that runs it, such as strace
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.said: list[str] = []

    def start(self) -> "Served":
        """Start it and return when it listens."""
        where = ["--memory"] if self._data is None else ["--data", str(self._data)]
        command = [*self._before, sys.executable, "-m", self.module, "serve", *where, "--port", "0", *self._flags]
        # A session of its own: what runs it, and it, are killed together.
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.decode())
            found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.said[-1])
            if found:
                self.port = int(found[1])
                break
        else:
            raise AssertionError(f"it ended with {self.process.wait()}: {''.join(self.said)}")
        threading.Thread(target=self._listen, args=(self.process.stderr,), daemon=True).start()
        return self

    def _listen(self, stderr: Any) -> None:
        for line in stderr:
            self.said.append(line.decode())

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def again(self) -> "Served":
        """Kill it and start it on the same data."""
        self.kill()
        return self.start()

    def stop(self) -> int:
        """Ask it to end and return its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def died(self) -> int:
        """Return the exit code once it has ended by itself."""
        assert self.process is not None
        return self.process.wait(60)

    def __enter__(self) -> "Served":
        return self.start()

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()

    # Asking

    def ask(self, method: str, path: str, body: Any = None, /, **query: Any) -> Answer:
        """Ask on a connection of its own; a body that is not bytes is sent as JSON."""
        target = path + ("?" + urlencode(query) if query else "")
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, target, data, {"Content-Type": "application/json"} if data else {})
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def create(self, topic: str, partitions: int = 1, **settings: Any) -> None:
        answer = self.ask("POST", "/v1/topics", {"name": topic, "partitions": partitions, **settings})
        assert answer.status == 201, answer

    def send(self, topic: str, value: str, **fields: Any) -> int:
        """Send one message and return its offset."""
        answer = self.ask("POST", "/v1/produce", {"topic": topic, "value": value, **fields})
        assert answer.status == 200, answer
        return int(answer.json["offset"])

    def lease(self, topic: str, group: str, **fields: Any) -> list[dict[str, Any]]:
        """Take messages, waiting up to 10 s for the first."""
        asked = {"topic": topic, "group": group, "wait_ms": 10_000, "max_messages": 1000, **fields}
        answer = self.ask("POST", "/v1/lease", asked)
        assert answer.status in (200, 204), answer
        return [] if answer.status == 204 else list(answer.json["messages"])

    def ack(self, topic: str, group: str, partition: int, *offsets: int) -> None:
        for offset in offsets:
            asked = {"topic": topic, "group": group, "partition": partition, "offset": offset}
            assert self.ask("POST", "/v1/ack", asked).status == 204

    def read(self, topic: str, partition: int = 0, **query: Any) -> list[dict[str, Any]]:
        """Return all messages of a partition."""
        answer = self.ask("GET", "/v1/read", None, topic=topic, partition=partition, **query)
        assert answer.status == 200, answer
        return [json.loads(line) for line in answer.body.splitlines()]

    def topic(self, name: str) -> Any:
        answer = self.ask("GET", f"/v1/topics/{name.replace('/', '%2F')}")
        assert answer.status == 200, answer
        return answer.json


def until(fact: Any, what: str) -> Any:
    """Return what `fact()` returns once that is true; what never becomes true fails after a minute."""
    for _ in range(6000):
        found = fact()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"never: {what}")
