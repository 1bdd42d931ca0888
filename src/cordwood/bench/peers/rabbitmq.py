"""RabbitMQ: a queue, publisher confirms, prefetch, with pika.

Quorum queues sync their log before they confirm; nothing has to be set for it. By default a queue is a classic one
and a sender is told nothing: batches are then not waited for, and all of one size. pika's SelectConnection is faster
here than its BlockingConnection, than py-amqp and than aiormq (which aio-pika rests on).
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel

from cordwood.bench.load import Load
from cordwood.bench.modes import RABBITMQ, Mode
from cordwood.bench.peers.amqp import QUEUE, Consumer, Producer, Session, address
from cordwood.bench.peers.peer import FETCH_AHEAD, LOOP_FLUSH
from cordwood.bench.peers.server import Server, free_port, program

_HOME = Path("/usr/lib/rabbitmq/bin")  # Debian's script in /usr/sbin is for its own user and directories only
_KINDS = {"safe": "quorum", "default": "classic"}  # by mode


class RabbitMq:
    name = "RabbitMQ"

    def __init__(self, mode: Mode = RABBITMQ[0]) -> None:
        self.mode = mode
        self._servers: list[Server] = []

    def start(self, directory: Path) -> None:
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
        number = Session(self._port, lambda session, _: session.finish()).properties["version"]
        self.version = f"{number}, pika {pika.__version__}"

    def stop(self) -> None:
        for server in reversed(self._servers):
            server.stop()

    def produce_batches(self, load: Load, batch: int) -> float:
        with self._empty_queue():
            producer = self._producer(load, batch)
            Session(self._port, producer.begin)
            self._check_count(producer.clock.count)
            return producer.rate

    def produce_loop(self, load: Load) -> float:
        """The same: `basic_publish` is a call for each message that waits for nothing."""
        return self.produce_batches(load, LOOP_FLUSH)

    def singles(self, load: Load, callers: int) -> float:
        """A channel for each caller, all on one connection."""
        assert self.mode.confirms, "there is something to wait for"
        with self._empty_queue():
            producer = Producer(load, 1, callers)
            Session(self._port, producer.begin)
            self._check_count(producer.clock.count)
            return producer.rate

    def consume_batches(self, load: Load, batch: int) -> float:
        return self._consume(load, batch)

    def consume_each(self, load: Load) -> float:
        return self._consume(load, 1)

    def _consume(self, load: Load, batch: int) -> float:
        with self._empty_queue():
            filling = self._producer(load, FETCH_AHEAD)
            Session(self._port, filling.begin)
            consumer = Consumer(load, batch, filling.clock.count)
            Session(self._port, consumer.begin)
            return consumer.rate

    def _producer(self, load: Load, batch: int) -> Producer:
        confirms = self.mode.confirms
        return Producer(load, batch if confirms else LOOP_FLUSH, confirms=confirms)

    @contextlib.contextmanager
    def _empty_queue(self) -> Iterator[None]:
        with self._blocking() as channel:
            channel.queue_delete(QUEUE)
            channel.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": _KINDS[self.mode.name]})
        yield
        with self._blocking() as channel:
            channel.queue_delete(QUEUE)

    def _check_count(self, count: int) -> None:
        with self._blocking() as channel:
            stored = channel.queue_declare(QUEUE, passive=True).method.message_count
        assert stored == count, "every message is there"

    @contextlib.contextmanager
    def _blocking(self) -> Iterator[BlockingChannel]:
        connection = pika.BlockingConnection(address(self._port))
        yield connection.channel()
        connection.close()
