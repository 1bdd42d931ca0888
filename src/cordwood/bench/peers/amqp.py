"""AMQP with pika: a session, and those who publish and consume in it. pika calls back; nothing here blocks its loop.

    Producer   publish a batch ──▶ wait until it is taken ──▶ publish the next
    Consumer   take what is pushed, acknowledge every so many

Taken is what the server confirmed. Without confirms nobody says so: a question that is answered keeps the sender from
running ahead without end, and time is only up once the queue has all that was sent.
"""

from collections.abc import Callable
from typing import Any

import pika
from pika.channel import Channel
from pika.frame import Method

from cordwood.bench.load import Clock, Load
from cordwood.bench.peers.peer import FETCH_AHEAD

QUEUE = "messages"
LEAST_TAKEN = 1000  # or a server that is slow to begin would be measured for that alone
SETTLE_SECONDS = 60  # for what was sent to be in the queue
_DURABLE = 2  # delivery_mode


class Session:
    """A connection that is opened, used and closed before the constructor returns: a callback ends it by `finish`."""

    def __init__(self, port: int, begin: "Callable[[Session, Channel], None]"):
        self._begin = begin
        self._finished = False
        self._failure: Exception | None = None
        self.connection = pika.SelectConnection(
            address(port),
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

    def _opened(self, channel: Channel) -> None:
        self.properties: dict[str, Any] = self.connection.server_properties
        self._begin(self, channel)

    def _ended(self, connection: pika.SelectConnection, error: Exception) -> None:
        self._failure = error
        connection.ioloop.stop()


class Producer:
    """Callers who publish a batch, wait until it is taken, and publish the next; each on a channel."""

    def __init__(self, load: Load, batch: int, callers: int = 1, *, confirms: bool = True):
        self._load, self._batch, self._callers, self._confirms = load, batch, callers, confirms
        self._batches = load.batches(batch)
        self._busy = 0
        self.rate = 0.0

    def begin(self, session: Session, channel: Channel) -> None:
        self._session = session
        self._ready: list[Callable[[], None]] = []
        for _ in range(self._callers - 1):
            session.connection.channel(on_open_callback=self._prepare)
        self._prepare(channel)

    def _prepare(self, channel: Channel) -> None:
        if not self._confirms:
            self._start(channel, None)
            return
        confirms = _Confirms(lambda: self._taken(channel, confirms))
        channel.confirm_delivery(confirms.told, callback=lambda _: self._start(channel, confirms))

    def _start(self, channel: Channel, confirms: "_Confirms | None") -> None:
        self._ready.append(lambda: self._publish(channel, confirms))
        if len(self._ready) == self._callers:
            self.clock = Clock(self._load)
            self._busy = self._callers
            for publish in self._ready:
                publish()

    def _publish(self, channel: Channel, confirms: "_Confirms | None") -> None:
        messages = next(self._batches)
        if confirms:
            confirms.expect(len(messages))
        for value, key in messages:
            properties = pika.BasicProperties(delivery_mode=_DURABLE, message_id=key.decode())
            channel.basic_publish("", QUEUE, value, properties)
        if not confirms:
            self._ask(channel)

    def _ask(self, channel: Channel) -> None:
        channel.queue_declare(QUEUE, passive=True, callback=lambda reply: self._answered(channel, reply))

    def _answered(self, channel: Channel, reply: Method) -> None:
        """Go on at once while there is time; in the end, ask until every message is in the queue."""
        sent = self.clock.count + self._batch
        if not self.clock.late or reply.method.message_count == sent:
            self._taken(channel, None)
        elif self.clock.seconds > SETTLE_SECONDS:
            raise TimeoutError(f"the queue has {reply.method.message_count:,} of {sent:,} messages")
        else:
            self._ask(channel)

    def _taken(self, channel: Channel, confirms: "_Confirms | None") -> None:
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

    def told(self, frame: Method) -> None:
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


class Consumer:
    """One who takes messages as they are pushed, and acknowledges every so many at once."""

    def __init__(self, load: Load, batch: int, count: int):
        self._load, self._batch, self._left = load, batch, count
        self._held = 0
        self.rate = 0.0

    def begin(self, session: Session, channel: Channel) -> None:
        self._session = session
        ahead = max(2 * self._batch, FETCH_AHEAD)  # the next batch is under way while one is acknowledged
        channel.basic_qos(prefetch_count=ahead, callback=lambda _: self._start(channel))

    def _start(self, channel: Channel) -> None:
        self.clock = Clock(self._load)
        channel.basic_consume(QUEUE, self._take)

    def _take(self, channel: Channel, method: Any, _properties: Any, _body: bytes) -> None:
        self._left -= 1
        self._held += 1
        if self._held < self._batch and self._left:
            return
        channel.basic_ack(method.delivery_tag, multiple=self._batch > 1)
        goes_on = self.clock.goes_on(self._held)
        self._held = 0
        if not self._left or (not goes_on and self.clock.count >= LEAST_TAKEN):
            channel.basic_cancel(next(iter(channel.consumer_tags)), callback=lambda _: self._end())

    def _end(self) -> None:
        """The reply to the cancel came behind all acknowledgements."""
        if not self.rate:
            self.rate = self.clock.rate()
            self._session.finish()


def address(port: int) -> pika.ConnectionParameters:
    return pika.ConnectionParameters("127.0.0.1", port, heartbeat=0)
