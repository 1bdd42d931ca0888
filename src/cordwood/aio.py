"""The client for asyncio: the same producer, consumer and client, with a face that never blocks the loop.

    async with aio.Producer(endpoint, "clicks") as producer:
        sent = await producer.send(b"...", key="user:1")        # or keep the future, and await it later
    async with aio.Consumer(endpoint, "clicks", group="mailer") as consumer:
        async for message in consumer:
            ...; message.ack()                                  # returns at once; `await consumer.flush()` waits

Nothing is done twice here: threads of the implementation do the work, and what they finish is posted to the loop,
all that is finished at the same moment with one call.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar

from cordwood.client import client as blocking
from cordwood.client.consumer import Consumer as BlockingConsumer
from cordwood.client.future import Future, Sent, Stored, TableFuture
from cordwood.client.message import Batch, Message
from cordwood.client.producer import Producer as BlockingProducer

__all__ = ["Client", "Consumer", "Outbox", "Producer"]

T = TypeVar("T")
_END = object()


class Post:
    """Carries news from other threads to waiters on one loop; many at once cost one call."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._news: deque[asyncio.Future[None]] = deque()
        self._called = False

    def put(self, waiter: "asyncio.Future[None]", *_: object) -> None:
        """Wake a waiter, from any thread."""
        self._news.append(waiter)
        if not self._called:  # set before the call is made, reset before the news is read: none is left lying
            self._called = True
            with suppress(RuntimeError):  # the loop is closed; nobody waits there any more
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._called = False
        while self._news:
            waiter = self._news.popleft()
            if not waiter.done():
                waiter.set_result(None)


class Sending(Generic[T]):
    """Messages on their way; `await` gives where they are, once they are durable, or raises why they failed."""

    __slots__ = ("_accepted", "_inner", "_post")

    def __init__(self, post: Post, inner: Any = None, accepted: "asyncio.Future[Any] | None" = None):
        self._post = post
        self._inner = inner
        self._accepted = accepted  # there was no room yet

    def done(self) -> bool:
        """Whether awaiting would not wait."""
        return self._inner is not None and bool(self._inner.done())

    def __await__(self) -> Generator[Any, None, T]:
        if self._inner is None:
            assert self._accepted is not None, "either taken, or waiting for room"
            self._inner = yield from asyncio.shield(self._accepted).__await__()
        if not self._inner.done():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._inner.add_done_callback(partial(self._post.put, waiter))
            yield from waiter
        found: T = self._inner.result(0)
        return found


class Producer:
    """`cordwood.Producer` for one event loop. `send` never waits; when there is no room, its future does."""

    def __init__(self, endpoint: str, topic: str, **settings: Any):
        self._producer = BlockingProducer(endpoint, topic, **settings)
        self._post: Post | None = None
        self._crowd: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._letting_in: asyncio.Task[None] | None = None

    def send(
        self, value: bytes | str | dict[str, Any] | None, key: bytes | str | None = None, **options: Any
    ) -> Sending[Sent]:
        """Take one message; await the future that is returned. Options are those of `cordwood.Producer.send`."""
        if self._post is not None and not self._crowd and self._producer.has_room:
            return Sending(self._post, self._producer.send(value, key, **options))
        return self._enter(partial(self._producer.send, value, key, **options))

    def send_table(self, table: Any) -> Sending[list[Stored]]:
        """Take the rows of an Arrow table; await the future that is returned."""
        return self._enter(partial(self._producer.send_table, table))

    async def flush(self, timeout: float | None = None) -> None:
        """Return when everything that was sent is durable or has failed; TimeoutError after `timeout` seconds."""
        async with asyncio.timeout(timeout):
            while self._letting_in is not None and not self._letting_in.done():
                await asyncio.shield(self._letting_in)
            await asyncio.to_thread(self._producer.flush, timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Flush, then end."""
        try:
            await self.flush(timeout)
        finally:
            await asyncio.to_thread(self._producer.close, timeout)

    async def __aenter__(self) -> "Producer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _enter(self, send: Callable[[], Future | TableFuture]) -> Sending[Any]:
        loop = asyncio.get_running_loop()
        self._post = self._post or Post(loop)
        if not self._crowd and self._producer.has_room:
            return Sending(self._post, send())
        accepted: asyncio.Future[Any] = loop.create_future()
        self._crowd.append((send, accepted))
        if self._letting_in is None or self._letting_in.done():
            self._letting_in = loop.create_task(self._let_in())
        return Sending(self._post, accepted=accepted)

    async def _let_in(self) -> None:
        """Take in order what came when there was no room."""
        while self._crowd:
            send, accepted = self._crowd[0]
            try:
                future = await asyncio.to_thread(send)
            except BaseException as error:
                if not accepted.done():
                    accepted.set_exception(error)
            else:
                if not accepted.done():
                    accepted.set_result(future)
            self._crowd.popleft()


class Consumer:
    """`cordwood.Consumer` for one event loop; `ack` and `nack` of messages and batches return at once, as there."""

    def __init__(self, endpoint: str, topic: str, group: str, **settings: Any):
        self._consumer = BlockingConsumer(endpoint, topic, group, **settings)

    @property
    def lost(self) -> int:
        """How many acknowledgements were refused, because the message is another consumer's now."""
        return self._consumer.lost

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Yield messages as they come; ends after `idle_timeout_ms` without any."""
        while True:
            for message in self._consumer.at_hand:
                yield message
            if not await self._came():
                return

    async def batches(self) -> AsyncIterator[Batch]:
        """Yield messages as Arrow record batches, as they come."""
        while True:
            batch = self._consumer.rest()
            if batch is not None:
                yield batch
            elif not await self._came():
                return

    async def receive(self, max_messages: int = 1, wait_ms: int = 0) -> list[Message]:
        """Return up to so many messages; waits for the first, at most `wait_ms`, and for no other."""
        found = self._consumer.receive(max_messages)
        if not found and wait_ms > 0 and await self._advance(wait_ms / 1000):
            found = self._consumer.receive(max_messages)
        return found

    async def flush(self, timeout: float | None = None) -> None:
        """Return when every ack and nack so far is durable; raises as `cordwood.Consumer.flush`."""
        await asyncio.to_thread(self._consumer.flush, timeout)

    async def close(self) -> None:
        """Acknowledge what was acknowledged, give back the rest, and end."""
        await asyncio.to_thread(self._consumer.close)

    async def __aenter__(self) -> "Consumer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _came(self) -> bool:
        while not await self._advance(self._consumer.idle_s):
            if not self._consumer.bringing:
                return self._consumer.advance(0)  # it may have been brought in this very moment
        return True

    async def _advance(self, timeout_s: float | None) -> bool:
        loop = asyncio.get_running_loop()
        until = None if timeout_s is None else loop.time() + timeout_s
        while not self._consumer.advance(0):
            waiter: asyncio.Future[None] = loop.create_future()
            self._consumer.when_ready(partial(Post(loop).put, waiter))
            try:
                await asyncio.wait_for(waiter, None if until is None else max(0.0, until - loop.time()))
            except TimeoutError:
                return False
        return True


class Outbox:
    """`cordwood.Outbox` for asyncio: the same calls, awaited; appends that wait together share a sync."""

    def __init__(self, *args: Any, **settings: Any):
        from cordwood.edge.outbox import Outbox as BlockingOutbox  # only who uses it loads the journal

        self._outbox = BlockingOutbox(*args, **settings)

    @property
    def pending(self) -> int:
        """How many events are not yet sent."""
        return self._outbox.pending

    @property
    def sent(self) -> int:
        """How many events the broker has."""
        return self._outbox.sent

    @property
    def failed(self) -> int:
        """How many events were refused for good."""
        return self._outbox.failed

    @property
    def last_error(self) -> str | None:
        """Why the last try failed."""
        return self._outbox.last_error

    async def append(self, value: bytes | str | dict[str, Any] | None, **options: Any) -> int:
        """Return the event's number once it is on disk; options are those of `cordwood.Outbox.append`."""
        return await asyncio.to_thread(self._outbox.append, value, **options)

    async def append_many(self, values: Iterable[bytes | str | dict[str, Any] | None], **options: Any) -> int:
        """Return how many events these are once all of them are on disk."""
        return await asyncio.to_thread(self._outbox.append_many, values, **options)

    async def flush(self, timeout: float | None = None) -> None:
        """Return when everything appended before is sent or parked; after `timeout` seconds raise TimeoutError."""
        await asyncio.to_thread(self._outbox.flush, timeout)

    async def stop(self, timeout: float = 5.0) -> int:
        """Send what can be sent within `timeout` seconds, let go, and return how many events are left."""
        return await asyncio.to_thread(self._outbox.stop, timeout)

    async def __aenter__(self) -> "Outbox":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class Client:
    """`cordwood.Client` for asyncio: the same calls, awaited; `read` and `read_batches` are for `async for`."""

    def __init__(self, endpoint: str, **settings: Any):
        self._client = blocking.Client(endpoint, **settings)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        call = getattr(self._client, name)
        return lambda *args, **named: asyncio.to_thread(call, *args, **named)

    def read(self, *args: Any, **named: Any) -> AsyncIterator[Message]:
        """Yield messages; as `cordwood.Client.read`."""
        return _each(self._client.read(*args, **named))

    def read_batches(self, *args: Any, **named: Any) -> AsyncIterator[Any]:
        """Yield Arrow record batches; as `cordwood.Client.read_batches`."""
        return _each(self._client.read_batches(*args, **named))

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._client.close)


async def _each(things: Iterator[T]) -> AsyncIterator[T]:
    while True:
        thing = await asyncio.to_thread(next, things, _END)
        if thing is _END:
            return
        yield thing  # type: ignore[misc]
