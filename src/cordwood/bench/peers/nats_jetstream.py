"""NATS JetStream: a stream in files, publish with acks out of order, a pull consumer, with nats-py.

Made safe, `sync_interval: always` syncs before each ack, message by message: a batch is only a place to wait for
acks, and one that the clock cuts short counts as far as it came. Servers before 2.10 do not know the setting; there
the safe mode is left out, because something else would be measured.
"""

import asyncio
import contextlib
import itertools
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import nats
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, StorageType, StreamConfig
from nats.js.errors import NotFoundError

from cordwood.bench.load import Clock, Load, Message
from cordwood.bench.loop import event_loop
from cordwood.bench.modes import NATS, Mode
from cordwood.bench.peers.peer import FETCH_AHEAD, LOOP_FLUSH, Missing
from cordwood.bench.peers.server import Server, free_port, program

_STREAM, _SUBJECTS = "messages", "messages.>"
_CONFIGURATION = """
host: 127.0.0.1
port: %d
jetstream { store_dir: "%s"%s }
"""
_SYNC = {"safe": ", sync_interval: always", "default": ""}  # by mode


class NatsJetStream:
    name = "NATS JetStream"

    def __init__(self, mode: Mode = NATS[0]) -> None:
        self.mode = mode
        self._server: Server | None = None

    def start(self, directory: Path) -> None:
        command, self._port = program("nats-server"), free_port()
        configuration = directory / "nats.conf"
        configuration.write_text(_CONFIGURATION % (self._port, directory, _SYNC[self.mode.name]))
        words = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout.split()
        number = words[-1].removeprefix("v")
        checked = subprocess.run([command, "-c", str(configuration), "-t"], capture_output=True, text=True)
        if checked.returncode and _SYNC[self.mode.name]:
            raise Missing(f"nats-server {number} has no sync_interval: always; 2.10 and later have")
        self._server = Server([command, "-c", str(configuration)], directory, port=self._port)
        self.version = f"{number}, nats-py {version('nats-py')}"

    def stop(self) -> None:
        if self._server:
            self._server.stop()

    def produce_batches(self, load: Load, batch: int) -> float:
        return self._run(lambda stream: _produce(stream, load, batch))

    def produce_loop(self, load: Load) -> float:
        return self._run(lambda stream: _produce(stream, load, LOOP_FLUSH))

    def singles(self, load: Load, callers: int) -> float:
        return self._run(lambda stream: _singles(stream, load, callers))

    def consume_batches(self, load: Load, batch: int) -> float:
        return self._run(lambda stream: _consume(stream, load, batch, whole=True))

    def consume_each(self, load: Load) -> float:
        return self._run(lambda stream: _consume(stream, load, FETCH_AHEAD, whole=False))

    def _run(self, action: Callable[[JetStreamContext], Awaitable[float]]) -> float:
        """Do something with an empty stream, which is deleted in the end."""

        async def run() -> float:
            client = await nats.connect(f"nats://127.0.0.1:{self._port}")
            stream = client.jetstream(publish_async_max_pending=FETCH_AHEAD, timeout=30)
            with contextlib.suppress(NotFoundError):
                await stream.delete_stream(_STREAM)
            await stream.add_stream(StreamConfig(name=_STREAM, subjects=[_SUBJECTS], storage=StorageType.FILE))
            rate = await action(stream)
            await stream.delete_stream(_STREAM)
            await client.close()
            return rate

        with event_loop() as runner:
            return runner.run(run())


async def _produce(stream: JetStreamContext, load: Load, batch: int) -> float:
    clock = Clock(load)
    for messages in load.batches(batch):
        if not clock.goes_on(await _publish(stream, messages, clock)):
            break
    rate = clock.rate()
    assert (await stream.stream_info(_STREAM)).state.messages == clock.count, "every message is there"
    return rate


async def _publish(stream: JetStreamContext, messages: Sequence[Message], clock: Clock) -> int:
    """Return how many of these were published and acknowledged before time was up."""
    acks = []
    for value, key in messages:
        if clock.late:
            break
        acks.append(await stream.publish_async(f"{_STREAM}.{key.decode()}", value, wait_stall=30))
    await stream.publish_async_completed()
    for ack in acks:
        ack.result()
    return len(acks)


async def _singles(stream: JetStreamContext, load: Load, callers: int) -> float:
    clock = Clock(load)

    async def call(mine: Sequence[Message]) -> None:
        for value, key in itertools.cycle(mine):
            await stream.publish(f"{_STREAM}.{key.decode()}", value)
            if not clock.goes_on(1):
                return

    await asyncio.gather(*(call(load.messages[place::callers]) for place in range(callers)))
    return clock.rate()


async def _consume(stream: JetStreamContext, load: Load, batch: int, *, whole: bool) -> float:
    """Take and acknowledge: the last of each batch for all of them, or every message."""
    filling = Clock(load)
    for messages in load.batches(FETCH_AHEAD):
        if not filling.goes_on(await _publish(stream, messages, filling)):
            break
    policy = AckPolicy.ALL if whole else AckPolicy.EXPLICIT
    wanted = ConsumerConfig(ack_policy=policy, max_ack_pending=LOOP_FLUSH)
    pull = await stream.pull_subscribe(_SUBJECTS, durable="group", config=wanted)
    clock = Clock(load)
    left = filling.count
    while left:
        found = await pull.fetch(min(batch, left), timeout=30)
        left -= len(found)
        for message in found[-1:] if whole else found:
            await message.ack()
        if not clock.goes_on(len(found)):
            break
    await stream.account_info()  # its reply comes behind all acknowledgements
    return clock.rate()
