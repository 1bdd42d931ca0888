"""RabbitMQ: a quorum queue, publisher confirms, prefetch, with pika.

Quorum queues sync their log before they confirm; nothing has to be set for it. pika's SelectConnection is faster here
than its BlockingConnection, than py-amqp and than aiormq (which aio-pika rests on).
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.load import Clock, Load
from bench.peers.peer import FETCH_AHEAD, LOOP_FLUSH
from bench.peers.server import Server, free_port, package, program

try:
    import pika
except ImportError:
    pika = None  # start says so

_HOME = Path("/usr/lib/rabbitmq/bin")  # Debian's script in /usr/sbin is for its own user and directories only
_QUEUE = "messages"
_DURABLE = 2  # delivery_mode


class RabbitMq:
    name = "RabbitMQ"

    def __init__(self) -> None:
        self._servers: list[Server] = []

    def start(self, directory: Path) -> None:
        package("pika")
        command = program("rabbitmq-server", _HOME)
        names, nodes, self._port = free_port(), free_port(), free_port()
        configuration = directory / "rabbitmq.conf"
        configuration.write_text(f"listeners.tcp.1 = 127.0.0.1:{self._port}\n")
        environment = {
            "HOME": str(directory),  # where Erlang keeps its cookie
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(names),
            "RABBITMQ_ALLOW_INPUT": "1",  # the script becomes the server, so that its process id is ours to stop
            "RABBITMQ_CONFIG_FILE": str(configuration),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_DIST_PORT": str(nodes),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_NODENAME": f"bench-{self._port}@localhost",
            "RABBITMQ_PID_FILE": str(directory / "pid"),
            # Schedulers that spin while they wait would slow everybody else on a machine with few cores.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +sbwtdcpu none +sbwtdio none "
            "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        # Erlang would start this one by itself and leave it behind.
        epmd = [program("epmd"), "-address", "127.0.0.1", "-port", str(names)]
        self._servers.append(Server(epmd, directory, port=names, environment=environment))
        self._servers.append(Server([command, "-noinput"], directory, port=self._port, environment=environment))
        number = _Session(self._port, lambda session, _: session.finish()).properties["version"]
        self.version = f"{number}, pika {pika.__version__}"
        self.setting = "quorum queue, persistent messages, publisher confirms; SelectConnection"

    def stop(self) -> None:
        for server in reversed(self._servers):
            server.stop()

    def produce_batches(self, load: Load, batch: int) -> float:
        with self._empty_queue():
            producer = _Producer(load, batch)
            _Session(self._port, producer.begin)
            self._check_count(producer.clock.count)
            return producer.rate

    def produce_loop(self, load: Load) -> float:
        """The same: `basic_publish` is a call for each message that waits for nothing."""
        return self.produce_batches(load, LOOP_FLUSH)

    def singles(self, load: Load, callers: int) -> float:
        """A channel for each caller, all on one connection."""
        with self._empty_queue():
            producer = _Producer(load, 1, callers)
            _Session(self._port, producer.begin)
            self._check_count(producer.clock.count)
            return producer.rate

    def consume_batches(self, load: Load, batch: int) -> float:
        return self._consume(load, batch)

    def consume_each(self, load: Load) -> float:
        return self._consume(load, 1)

    def _consume(self, load: Load, batch: int) -> float:
        with self._empty_queue():
            filling = _Producer(load, FETCH_AHEAD)
            _Session(self._port, filling.begin)
            consumer = _Consumer(load, batch, filling.clock.count)
            _Session(self._port, consumer.begin)
            return consumer.rate

    @contextlib.contextmanager
    def _empty_queue(self) -> Iterator[None]:
        with self._blocking() as channel:
            channel.queue_delete(_QUEUE)
            channel.queue_declare(_QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
        yield
        with self._blocking() as channel:
            channel.queue_delete(_QUEUE)

    def _check_count(self, count: int) -> None:
        with self._blocking() as channel:
            stored = channel.queue_declare(_QUEUE, passive=True).method.message_count
        assert stored == count, "every message is there"

    @contextlib.contextmanager
    def _blocking(self) -> "Iterator[pika.adapters.blocking_connection.BlockingChannel]":
        connection = pika.BlockingConnection(_address(self._port))
        yield connection.channel()
        connection.close()


class _Session:
    """A connection that is opened, used and closed before the constructor returns: a callback ends it by `finish`."""

    def __init__(self, port: int, begin: "Callable[[_Session, pika.channel.Channel], None]"):
        self._begin = begin
        self._finished = False
        self._failure: Exception | None = None
        self.connection = pika.SelectConnection(
            _address(port),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
            on_open_error_callback=self._ended,
            on_close_callback=self._ended,
        )
        self.connection.ioloop.start()
        if not self._finished:
            raise self._failure or ConnectionError("the connection was closed")

    def finish(self) -> None:
        self._finished = True
        self.connection.close()

    def _opened(self, channel: "pika.channel.Channel") -> None:
        self.properties: dict[str, Any] = self.connection.server_properties
        self._begin(self, channel)

    def _ended(self, connection: "pika.SelectConnection", error: Exception) -> None:
        self._failure = error
        connection.ioloop.stop()


class _Producer:
    """Callers who publish a batch, wait for its confirms, and publish the next; each on a channel."""

    def __init__(self, load: Load, batch: int, callers: int = 1):
        self._load, self._batch, self._callers = load, batch, callers
        self._batches = load.batches(batch)
        self._busy = 0
        self.rate = 0.0

    def begin(self, session: _Session, channel: "pika.channel.Channel") -> None:
        self._session = session
        self._ready: list[Callable[[], None]] = []
        for _ in range(self._callers - 1):
            session.connection.channel(on_open_callback=self._prepare)
        self._prepare(channel)

    def _prepare(self, channel: "pika.channel.Channel") -> None:
        confirms = _Confirms(lambda: self._confirmed(channel, confirms))
        channel.confirm_delivery(confirms.told, callback=lambda _: self._start(channel, confirms))

    def _start(self, channel: "pika.channel.Channel", confirms: "_Confirms") -> None:
        self._ready.append(lambda: self._publish(channel, confirms))
        if len(self._ready) == self._callers:
            self.clock = Clock(self._load)
            self._busy = self._callers
            for publish in self._ready:
                publish()

    def _publish(self, channel: "pika.channel.Channel", confirms: "_Confirms") -> None:
        messages = next(self._batches)
        confirms.expect(len(messages))
        for value, key in messages:
            properties = pika.BasicProperties(delivery_mode=_DURABLE, message_id=key.decode())
            channel.basic_publish("", _QUEUE, value, properties)

    def _confirmed(self, channel: "pika.channel.Channel", confirms: "_Confirms") -> None:
        if self.clock.goes_on(self._batch):
            self._publish(channel, confirms)
            return
        self._busy -= 1
        if not self._busy:
            self.rate = self.clock.rate()
            self._session.finish()


class _Confirms:
    """Which delivery tags of a channel are confirmed; calls back when all are."""

    def __init__(self, all_here: Callable[[], None]):
        self._all_here = all_here
        self._expected = 0
        self._through = 0  # every tag up to this one
        self._beyond: set[int] = set()

    def expect(self, count: int) -> None:
        self._expected += count

    def told(self, frame: "pika.frame.Method") -> None:
        if not isinstance(frame.method, pika.spec.Basic.Ack):
            raise RuntimeError("the queue refused a message")
        tag = frame.method.delivery_tag
        if frame.method.multiple:
            self._through = max(self._through, tag)
        else:
            self._beyond.add(tag)
        while self._through + 1 in self._beyond:
            self._through += 1
            self._beyond.discard(self._through)
        if self._through == self._expected:
            self._all_here()


class _Consumer:
    """One who takes messages as they are pushed, and acknowledges every so many at once."""

    def __init__(self, load: Load, batch: int, count: int):
        self._load, self._batch, self._left = load, batch, count
        self._held = 0
        self.rate = 0.0

    def begin(self, session: _Session, channel: "pika.channel.Channel") -> None:
        self._session = session
        ahead = max(2 * self._batch, FETCH_AHEAD)  # the next batch is under way while one is acknowledged
        channel.basic_qos(prefetch_count=ahead, callback=lambda _: self._start(channel))

    def _start(self, channel: "pika.channel.Channel") -> None:
        self.clock = Clock(self._load)
        channel.basic_consume(_QUEUE, self._take)

    def _take(self, channel: "pika.channel.Channel", method: Any, _properties: Any, _body: bytes) -> None:
        self._left -= 1
        self._held += 1
        if self._held < self._batch and self._left:
            return
        channel.basic_ack(method.delivery_tag, multiple=self._batch > 1)
        goes_on = self.clock.goes_on(self._held)
        self._held = 0
        if not goes_on or not self._left:
            channel.basic_cancel(next(iter(channel.consumer_tags)), callback=lambda _: self._end())

    def _end(self) -> None:
        """The reply to the cancel came behind all acknowledgements."""
        if not self.rate:
            self.rate = self.clock.rate()
            self._session.finish()


def _address(port: int) -> "pika.ConnectionParameters":
    return pika.ConnectionParameters("127.0.0.1", port, heartbeat=0)
