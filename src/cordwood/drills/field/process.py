"""A broker as a process of its own, on a directory of the stage: started, asked, killed, started again.

Its port stays the same, so clients find it again. It and whatever runs it (strace) form a session of their own, and
are killed together.
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple
from urllib.parse import urlencode

from cordwood.drills.field.stage import Failed, Stage
from cordwood.serving import environment

ASK_S = 60.0
END_S = 60.0
TRIES = 50
GONE = (OSError, HTTPException)  # what asking raises when the broker dies, or the wire is cut
# Small files that are rotated often, and a group that gives nothing up, so that a short drill sees much.
SETTINGS: Mapping[str, object] = {
    "segment_bytes": 1 << 20,
    "max_in_flight": 1_000_000,
    "max_attempts": 0,
    "tier": "none",
}


class Answer(NamedTuple):
    """What the broker answered."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Line:
    """One connection to a broker, made anew when it was lost. For one thread."""

    def __init__(self, port: int, timeout_s: float = ASK_S):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)

    def ask(self, method: str, path: str, body: Any = None, /, **query: Any) -> Answer:
        """Ask, and return the answer; a body that is not bytes is sent as JSON. Raises one of GONE."""
        target = path + ("?" + urlencode(query) if query else "")
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        kind = "application/x-ndjson" if isinstance(body, bytes) else "application/json"
        try:
            self._connection.request(method, target, data, {} if data is None else {"Content-Type": kind})
            answer = self._connection.getresponse()
            if answer.length is None and not answer.chunked:
                raise HTTPException("the head of the answer was cut off")  # and http.client takes that for its end
            return Answer(answer.status, answer.read())
        except GONE:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()


class BrokerProcess:
    """`cordwood serve` on a directory, for the length of a stage."""

    def __init__(
        self,
        stage: Stage,
        data: Path,
        *,
        host: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        **settings: object,
    ):
        self.data = data
        self.up = threading.Event()  # set while it listens
        self.said: list[str] = []
        self._stage = stage
        self._host = host  # flags of `host`, which runs it with what no user can set
        self._env = {**environment(), **(env or {})}
        self._settings = {**SETTINGS, **settings}
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = int(listener.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None
        stage.stack.callback(self._end)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was started"
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    # Starting and ending

    def begin(self, before: Sequence[str] = ()) -> None:
        """Start it, run by the program `before` if there is one, and return at once."""
        run = ["cordwood", "serve"] if self._host is None else ["cordwood.drills.field.host", *self._host]
        command = [*before, sys.executable, "-m", *run, "--data", str(self.data)]
        command += ["--port", str(self.port), "--log-level", "warning"]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        self.said = []
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, env=self._env
        )
        assert self._process.stderr is not None
        self._listener = threading.Thread(target=self._listen, args=(self._process.stderr,), daemon=True)
        self._listener.start()

    def start(self, before: Sequence[str] = ()) -> "BrokerProcess":
        """Start it and return when it listens; fail if it ends instead."""
        for left in reversed(range(TRIES)):
            self.begin(before)
            while not self.up.wait(0.02) and self.alive:
                pass
            if self.up.is_set():
                break
            code = self.wait()
            # While it was down somebody's connection may have got its port; such are gone soon.
            if not left or "address already in use" not in self.words:
                raise Failed(f"expected that the broker starts; it ended with {code}: {self.words}")
            time.sleep(0.2)
        return self

    def __enter__(self) -> "BrokerProcess":
        """Start it for the length of a `with`, behind which it does not run any more."""
        return self.start()

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def refused(self) -> tuple[int, str]:
        """Start it although it should end by itself; return its exit code and what it said."""
        self.begin()
        code = self.wait()
        return code, self.words

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        assert self._process is not None, "it was started"
        self.up.clear()
        os.killpg(self._process.pid, signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """Ask it to end and return its exit code."""
        assert self._process is not None, "it was started"
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Return its exit code once it has ended; it has a minute."""
        assert self._process is not None and self._listener is not None, "it was started"
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"expected that the broker ends; it runs after {END_S:.0f} s") from None
        self._listener.join(END_S)
        self.up.clear()
        return code

    @property
    def words(self) -> str:
        """What it said, but for the line that it listens."""
        return " ".join(line.strip() for line in self.said if "listening on" not in line)[-2000:]

    def _listen(self, stderr: IO[bytes]) -> None:
        with stderr:
            for line in stderr:
                self.said.append(line.decode(errors="replace"))
                if re.search(r"listening on http://", self.said[-1]):
                    self.up.set()

    def _end(self) -> None:
        if self.alive:
            self.kill()

    # Asking

    def ask(self, method: str, path: str, body: Any = None, /, **query: Any) -> Answer:
        """Ask on a connection of its own."""
        line = Line(self.port)
        try:
            return line.ask(method, path, body, **query)
        finally:
            line.close()

    def must(self, method: str, path: str, body: Any = None, /, **query: Any) -> Any:
        """Ask for what cannot be refused, and return the JSON."""
        answer = self.ask(method, path, body, **query)
        if answer.status >= 300:
            raise Failed(f"expected that {method} {path} succeeds; saw {answer.status} {answer.body[:300]!r}")
        return answer.json if answer.body else None

    def create(self, topic: str, partitions: int, **settings: object) -> None:
        """Make a topic."""
        self.must("POST", "/v1/topics", {"name": topic, "partitions": partitions, **settings})

    def metrics(self) -> dict[str, float]:
        """Return what is measured, by name and labels."""
        lines = self.ask("GET", "/metrics").body.decode().splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}
