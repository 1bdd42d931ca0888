"""Cordwood among its peers: `cordwood serve` in a process of its own, and the client library as its users have it.

It does what a peer does (`bench.peers.peer`), and more: what was acknowledged is read back and compared.
"""

import asyncio
import itertools
import json
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

import cordwood
from cordwood import aio
from cordwood.bench import singles
from cordwood.bench.load import Clock, Load
from cordwood.bench.loop import event_loop
from cordwood.bench.modes import CORDWOOD, Mode
from cordwood.bench.peers.peer import FILL_BATCH, LOOP_FLUSH
from cordwood.bench.served import Served
from cordwood.bench.tables import check_read, tables
from cordwood.client.client import Client
from cordwood.client.consumer import Consumer
from cordwood.client.future import TableFuture
from cordwood.client.producer import Producer

IN_FLIGHT = 64  # tables that are sent and not yet acknowledged; the producer's own buffer is the limit for large ones
IN_FLIGHT_MESSAGES = 100_000  # that a group has out and not yet acknowledged
SHOWN_SECONDS = 30  # for the timer of --sync interval, on a disk that is busy
TOPIC, GROUP = "bench", "group"


class Ours:
    name = "Cordwood"

    def __init__(self, mode: Mode = CORDWOOD[0]) -> None:
        self.mode = mode
        self._served: Served | None = None

    def start(self, directory: Path) -> None:
        sync = "interval" if self.mode.name == "interval" else "always"
        self._served = Served(directory, "--tier", "none", "--sync", sync)  # peers keep no history either
        self.version = cordwood.__version__

    def stop(self) -> None:
        if self._served:
            self._served.stop()

    @property
    def service(self) -> Served:
        assert self._served is not None, "it was started"
        return self._served

    @property
    def endpoint(self) -> str:
        return self.service.endpoint

    def produce_batches(self, load: Load, batch: int, in_flight: int = IN_FLIGHT) -> float:
        sent = tables(load, batch)
        with self._topic():
            rate, times = self.send_tables(TOPIC, sent, load, in_flight)
            count = sum(times[place] * table.num_rows for place, table in enumerate(sent))
            check_read(self._read(count), sent, times)
            return rate

    def produce_loop(self, load: Load) -> float:
        """Every message goes out by a `send` of its own; the last one's result comes behind all others."""
        with self._topic():
            with Producer(self.endpoint, TOPIC) as producer:
                send = producer.send
                clock = Clock(load)
                for messages in load.batches(LOOP_FLUSH):
                    for value, key in messages:
                        last = send(value, key=key)
                    if not clock.goes_on(LOOP_FLUSH):
                        break
                last.result()
                rate = clock.rate()
            self._check_loop(load, clock.count)
            return rate

    def singles(self, load: Load, callers: int) -> float:
        """One POST a message, on as many connections; without a client library, like Redis's XADDs."""
        with self._topic():
            clock = singles.run(self.service.port, self.posts(load), singles.http_reply, load, callers)
            rate = clock.rate()
            self._check_count(clock.count)
            return rate

    def singles_in_asyncio(self, load: Load, callers: int) -> float:
        """Tasks that share a `cordwood.aio.Producer`, each waiting for its own message."""

        async def run() -> Clock:
            async with aio.Producer(self.endpoint, TOPIC) as producer:
                clock = Clock(load)

                async def call(place: int) -> None:
                    for value, key in itertools.cycle(load.messages[place::callers]):
                        await producer.send(value, key=key)
                        if not clock.goes_on(1):
                            return

                await asyncio.gather(*map(call, range(callers)))
                return clock

        with self._topic(), event_loop() as runner:
            clock = runner.run(run())
            rate = clock.rate()
            self._check_count(clock.count)
            return rate

    def singles_in_threads(self, load: Load, callers: int) -> float:
        """Threads that share a `Producer`, each waiting for its own message."""
        with self._topic():
            with Producer(self.endpoint, TOPIC) as producer:
                clock = Clock(load)
                counts = [0] * callers

                def call(place: int) -> None:
                    for value, key in itertools.cycle(load.messages[place::callers]):
                        producer.send(value, key=key).result()
                        counts[place] += 1
                        if clock.late:
                            return

                threads = [threading.Thread(target=call, args=(place,), daemon=True) for place in range(callers)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                clock.goes_on(sum(counts))
                rate = clock.rate()
            self._check_count(clock.count)
            return rate

    def consume_batches(self, load: Load, batch: int) -> float:
        """The group may have much in flight, as it may with the peers."""
        with self._filled(load) as count:
            self.service.ask("PATCH", f"/v1/groups/{TOPIC}/{GROUP}", {"max_in_flight": IN_FLIGHT_MESSAGES})
            clock = Clock(load)
            with Consumer(self.endpoint, TOPIC, group=GROUP) as consumer:
                for found in consumer.batches():
                    found.ack()
                    if not clock.goes_on(len(found)) or clock.count == count:
                        break
            rate = clock.rate()  # leaving the block waited for the acknowledgements
            self._check_lag(count - clock.count)
            return rate

    def consume_each(self, load: Load) -> float:
        with self._filled(load) as count:
            self.service.ask("PATCH", f"/v1/groups/{TOPIC}/{GROUP}", {"max_in_flight": IN_FLIGHT_MESSAGES})
            clock = Clock(load)
            with Consumer(self.endpoint, TOPIC, group=GROUP) as consumer:
                for taken, message in enumerate(consumer, 1):
                    message.ack()
                    if taken % 1000 == 0 and (not clock.goes_on(1000) or taken == count):
                        break
            rate = clock.rate()
            self._check_lag(count - clock.count)
            return rate

    def send_tables(
        self, topic: str, sent: Sequence[pa.Table], load: Load, in_flight: int = IN_FLIGHT
    ) -> tuple[float, Counter[int]]:
        """Send tables round and round; return the rate of those that are durable, and how often each was sent."""
        times: Counter[int] = Counter()
        waiting: deque[tuple[int, TableFuture]] = deque()
        with Producer(self.endpoint, topic) as producer:
            clock = Clock(load)
            for place, table in itertools.cycle(enumerate(sent)):
                waiting.append((place, producer.send_table(table)))
                if len(waiting) < in_flight:
                    continue
                first, future = waiting.popleft()
                future.result()
                times[first] += 1
                if not clock.goes_on(sent[first].num_rows):
                    break
            for place, future in waiting:
                future.result()
                times[place] += 1
                clock.goes_on(sent[place].num_rows)
            return clock.rate(), times

    def posts(self, load: Load) -> list[bytes]:
        """Return requests that each produce one message of the load's size."""
        return [_post(TOPIC, value, key) for value, key in load.messages[:1000]]

    @contextmanager
    def _topic(self) -> Iterator[None]:
        self.service.create_topic(TOPIC)
        yield
        self.service.delete_topic(TOPIC)

    @contextmanager
    def _filled(self, load: Load) -> Iterator[int]:
        """Give a topic with as many messages as can be sent in the load's time."""
        with self._topic():
            _, times = self.send_tables(TOPIC, tables(load, FILL_BATCH), load)
            count = times.total() * FILL_BATCH
            with Client(self.endpoint) as client:
                self._wait_until_shown(client, count)
            yield count

    def _read(self, count: int) -> Iterator[pa.RecordBatch]:
        """Yield all that is there, once so many are."""
        with Client(self.endpoint) as client:
            self._wait_until_shown(client, count)
            yield from client.read_batches(TOPIC)

    def _wait_until_shown(self, client: Client, count: int) -> None:
        """Return when readers see so many messages: what is written and not yet synced is not shown."""
        until = time.monotonic() + SHOWN_SECONDS
        while not any(True for _ in client.read(TOPIC, 0, offset=count - 1, limit=1)):
            assert time.monotonic() < until, "every message is shown"
            time.sleep(0.005)

    def _check_loop(self, load: Load, count: int) -> None:
        read = pa.Table.from_batches(self._read(count)).select(["value", "key"])
        expected = pa.table(dict(zip(["value", "key"], zip(*load.messages, strict=True), strict=True)))
        assert read.num_rows == count, "every message is there"
        for start in range(0, count, len(load.messages)):
            part = read.slice(start, len(load.messages))
            assert part.cast(expected.schema).equals(expected.slice(0, part.num_rows)), "as it was sent"

    def _check_count(self, count: int) -> None:
        assert sum(batch.num_rows for batch in self._read(count)) == count, "every message is there"

    def _check_lag(self, lag: int) -> None:
        found = json.loads(self.service.ask("GET", f"/v1/groups/{TOPIC}/{GROUP}"))
        assert found["lag"] == lag, "what was acknowledged is done"


def _post(topic: str, value: bytes, key: bytes) -> bytes:
    """Return a POST whose value is as long as this one, and text, as it is in most JSON."""
    body = json.dumps({"key": key.decode(), "value": value.hex()[: len(value)]}, separators=(",", ":")).encode()
    head = (
        f"POST /v1/produce?topic={topic} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
