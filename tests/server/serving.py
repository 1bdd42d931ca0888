"""A broker behind its routes on a thread, on a real disk, and clients that talk to it."""

import asyncio
import http.client
import json
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import uvloop

from cordwood.broker.running import Running, open_broker
from cordwood.http.limits import Limits
from cordwood.http.listener import Listener
from cordwood.machine.clock import Clock
from cordwood.machine.disk import Directory
from cordwood.server.routes import handler, open_door
from cordwood.settings import Settings


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def error(self) -> str:
        assert self.status >= 400, self
        found = self.json
        assert set(found) >= {"error", "message"}, found
        assert isinstance(found["message"], str)
        return str(found["error"])


class Serving:
    """A broker on a directory for the length of a `with`, and shorthands for what is asked of it."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        directory: Directory | None = None,
        clock: Clock | None = None,
        **settings: Any,
    ):
        """`clock` is the door's."""
        settings = {"segment_bytes": 1 << 20, **settings}
        self.settings = Settings(data=str(path or "nowhere"), port=0, **settings)
        self.memory = path is None and directory is None
        self._directory = directory
        self._clock = clock
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> "Serving":
        self._thread.start()
        self.call(self._start())
        return self

    async def _start(self) -> None:
        self.running: Running = open_broker(self.settings, memory=self.memory, directory=self._directory)
        self.door = open_door(self.running, self._clock)
        handle = handler(self.running, connections=lambda: self.listener.connections, door=self.door)
        self.listener = Listener(handle, limits=Limits(), screen=self.door.screen)
        await self.listener.start()
        self.port = self.listener.port

    def look(self) -> None:
        """Have the door look at its tokens and at the time."""

        async def look() -> None:
            self.door.look()

        self.call(look())

    def call(self, coroutine: Any) -> Any:
        """Run a coroutine on the server's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    async def _stop(self) -> None:
        await self.listener.stop(0)
        await self.running.close()

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    def open(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, **query: Any
    ) -> http.client.HTTPConnection:
        """Send a request and return its connection; the answer is still to be read."""
        headers = dict(headers or {})
        if query:
            texts = {
                name.rstrip("_"): value if isinstance(value, str) else json.dumps(value)
                for name, value in query.items()
            }
            path += "?" + urlencode(texts)
        if isinstance(body, dict | list):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, headers)
        return connection

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, **query: Any
    ) -> Reply:
        """Return the whole answer to a request. A query parameter `from_` is sent as `from`."""
        connection = self.open(method, path, body, headers, **query)
        try:
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, names, response.read())
        finally:
            connection.close()

    def get(self, path: str, headers: dict[str, str] | None = None, **query: Any) -> Reply:
        return self.ask("GET", path, None, headers, **query)

    def post(self, path: str, body: Any = None, headers: dict[str, str] | None = None, **query: Any) -> Reply:
        return self.ask("POST", path, body, headers, **query)

    # What most tests begin with

    def topic(self, name: str = "clicks", **settings: Any) -> None:
        reply = self.post("/v1/topics", {"name": name, **settings})
        assert reply.status == 201, reply

    def produce(self, *values: Any, topic: str = "clicks", **fields: Any) -> list[int]:
        """Produce messages one by one and return their offsets."""
        return [self.post("/v1/produce", {"topic": topic, "value": v, **fields}).json["offset"] for v in values]

    def lease(self, topic: str = "clicks", group: str = "mailer", **fields: Any) -> list[Any]:
        reply = self.post("/v1/lease", {"topic": topic, "group": group, **fields})
        assert reply.status in (200, 204), reply
        return list(reply.json["messages"]) if reply.status == 200 else []

    def values(self, topic: str = "clicks") -> list[Any]:
        """Return the values of all messages of a topic."""
        return [line.get("value", line.get("value_base64")) for line in self.get("/v1/read", topic=topic).lines]

    def end(self, topic: str = "clicks") -> int:
        """Return how many messages a topic has got."""
        return sum(p["end_offset"] for p in self.get(f"/v1/topics/{quote(topic, safe='')}").json["partitions"])
