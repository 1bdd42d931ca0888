"""Redis Streams: XADD in, XREADGROUP and XACK out, with redis-py and hiredis.

With `appendfsync always` Redis syncs once for all that it read from its sockets at one time. A long pipeline is read
in pieces and synced for each, so what belongs together is sent as one command: a script for a batch (faster here than
MULTI, and both than a bare pipeline), MULTI for a loop.
"""

import asyncio
import itertools
import subprocess
from collections.abc import Iterator
from pathlib import Path

import redis
import redis.asyncio

from cordwood.bench import singles
from cordwood.bench.load import Clock, Load
from cordwood.bench.loop import event_loop
from cordwood.bench.modes import REDIS, Mode
from cordwood.bench.peers.peer import FETCH_AHEAD, FILL_BATCH, LOOP_FLUSH
from cordwood.bench.peers.server import Server, free_port, program

_STREAM, _GROUP, _OWNER = "messages", "group", "owner"
_ADD_ALL = """
for place = 1, #ARGV, 2 do
  redis.call('XADD', KEYS[1], '*', 'v', ARGV[place], 'k', ARGV[place + 1])
end
"""
_NO_REWRITE = {"save": "", "auto-aof-rewrite-percentage": "0"}  # a rewrite in a measurement would be unfair
_KEEPING = {  # by mode
    "safe": {"appendonly": "yes", "appendfsync": "always", **_NO_REWRITE},
    "default": {},
    "everysec": {"appendonly": "yes", "appendfsync": "everysec", **_NO_REWRITE},
}


class RedisStreams:
    name = "Redis Streams"

    def __init__(self, mode: Mode = REDIS[0]) -> None:
        self.mode = mode
        self._server: Server | None = None

    def start(self, directory: Path) -> None:
        command, self._port = program("redis-server"), free_port()
        options = {
            "bind": "127.0.0.1",
            "port": str(self._port),
            "dir": str(directory),
            **_KEEPING[self.mode.name],
        }
        flags = itertools.chain.from_iterable((f"--{name}", value) for name, value in options.items())
        self._server = Server([command, *flags], directory, port=self._port)
        words = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout.split()
        number = next(word for word in words if word.startswith("v=")).removeprefix("v=")
        self.version = f"{number}, redis-py {redis.__version__} with hiredis"

    def stop(self) -> None:
        if self._server:
            self._server.stop()

    def produce_batches(self, load: Load, batch: int) -> float:
        with _Stream(self._port) as stream:
            clock = Clock(load)
            for _ in stream.added(load, batch):
                if not clock.goes_on(batch):
                    break
            rate = clock.rate()
            stream.check_count(clock.count)
            return rate

    def produce_loop(self, load: Load) -> float:
        with _Stream(self._port) as stream:
            pipeline = stream.client.pipeline(transaction=True)
            clock = Clock(load)
            for messages in load.batches(LOOP_FLUSH):
                for value, key in messages:
                    pipeline.xadd(_STREAM, {"v": value, "k": key})
                pipeline.execute()
                if not clock.goes_on(LOOP_FLUSH):
                    break
            rate = clock.rate()
            stream.check_count(clock.count)
            return rate

    def singles(self, load: Load, callers: int) -> float:
        """One XADD, one reply, on as many connections; without a client library, like Cordwood's POSTs."""
        with _Stream(self._port) as stream:
            requests = [_command(b"XADD", _STREAM.encode(), b"*", b"v", v, b"k", k) for v, k in load.messages[:1000]]
            clock = singles.run(self._port, requests, singles.resp_reply, load, callers)
            rate = clock.rate()
            stream.check_count(clock.count)
            return rate

    def singles_in_asyncio(self, load: Load, callers: int) -> float:
        """The same with redis-py: tasks with a connection each, the fastest that its client does this."""

        async def run() -> Clock:
            pool = redis.asyncio.BlockingConnectionPool(port=self._port, protocol=2, max_connections=callers)
            client = redis.asyncio.Redis(connection_pool=pool)
            await asyncio.gather(*(client.ping() for _ in range(callers)))
            clock = Clock(load)

            async def call(place: int) -> None:
                for value, key in itertools.cycle(load.messages[place::callers]):
                    await client.xadd(_STREAM, {"v": value, "k": key})
                    if not clock.goes_on(1):
                        return

            await asyncio.gather(*map(call, range(callers)))
            await client.aclose()
            await pool.disconnect()
            return clock

        with _Stream(self._port) as stream, event_loop() as runner:
            clock = runner.run(run())
            rate = clock.rate()
            stream.check_count(clock.count)
            return rate

    def consume_batches(self, load: Load, batch: int) -> float:
        """Acknowledge one batch and fetch the next in one round trip."""
        with _Stream(self._port) as stream:
            stream.fill(load)
            numbers: list[bytes] = []
            clock = Clock(load)
            while True:
                pipeline = stream.client.pipeline(transaction=True)
                if numbers:
                    pipeline.xack(_STREAM, _GROUP, *numbers)
                pipeline.xreadgroup(_GROUP, _OWNER, {_STREAM: ">"}, count=batch)
                *_, found = pipeline.execute()
                goes_on = clock.goes_on(len(numbers))
                if not found or (clock.count and not goes_on):  # one batch at least
                    return clock.rate()
                numbers = [number for number, _message in found[0][1]]

    def consume_each(self, load: Load) -> float:
        """One XACK a message; those of one fetch go to the server together with the next fetch."""
        with _Stream(self._port) as stream:
            stream.fill(load)
            pipeline = stream.client.pipeline(transaction=True)
            count = 0
            clock = Clock(load)
            while True:
                pipeline.xreadgroup(_GROUP, _OWNER, {_STREAM: ">"}, count=FETCH_AHEAD)
                *_, found = pipeline.execute()
                goes_on = clock.goes_on(count)
                if not found or (clock.count and not goes_on):  # one fetch at least
                    return clock.rate()
                for number, _message in found[0][1]:
                    pipeline.xack(_STREAM, _GROUP, number)
                count = len(found[0][1])


class _Stream:
    """An empty stream, deleted in the end."""

    def __init__(self, port: int):
        self.client = redis.Redis(port=port, protocol=2)  # there is nothing in RESP3 that a stream needs
        self.client.delete(_STREAM)
        self._script = self.client.script_load(_ADD_ALL)

    def added(self, load: Load, batch: int) -> Iterator[None]:
        """Yield after each batch that is in."""
        for messages in load.batches(batch):
            self.client.evalsha(self._script, 1, _STREAM, *itertools.chain.from_iterable(messages))
            yield

    def fill(self, load: Load) -> None:
        clock = Clock(load)
        for _ in self.added(load, FILL_BATCH):
            if not clock.goes_on(FILL_BATCH):
                break
        self.client.xgroup_create(_STREAM, _GROUP, id="0")

    def check_count(self, count: int) -> None:
        assert self.client.xlen(_STREAM) == count, "every message is there"

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *error: object) -> None:
        self.client.delete(_STREAM)
        self.client.close()


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
