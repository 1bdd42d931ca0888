"""Cordwood among its peers: `cordwood serve` in a process of its own, and the client library as its users have it.

It does what a peer does (`bench.peers.peer`), and more: what was acknowledged is read back and compared.
"""

import asyncio
import itertools
import json
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

import cordwood
from bench import singles
from bench.broker_process import Service
from bench.callers import event_loop
from bench.load import Clock, Load
from bench.peers.peer import FILL_BATCH, LOOP_FLUSH, Missing
from bench.tables import check_read, tables

IN_FLIGHT = 64  # tables that are sent and not yet acknowledged; the producer's own buffer is the limit for large ones
IN_FLIGHT_MESSAGES = 100_000  # that a group has out and not yet acknowledged
TOPIC, GROUP = "bench", "group"


class Ours:
    name = "Cordwood"

    def __init__(self) -> None:
        self.service: Service | None = None

    def start(self, directory: Path) -> None:
        try:
            from cordwood import Client, Consumer, Producer
        except ImportError as error:
            raise Missing(f"no client library: {error}") from error
        self._client, self._consumer, self._producer = Client, Consumer, Producer
        self.service = Service(directory, "--tier", "none")  # peers keep no history either
        self.version = cordwood.__version__
        self.setting = f"--sync always --tier none; send_table with all columns, up to {IN_FLIGHT} tables in flight"

    def stop(self) -> None:
        if self.service:
            self.service.stop()

    @property
    def endpoint(self) -> str:
        assert self.service is not None, "it was started"
        return self.service.endpoint

    def produce_batches(self, load: Load, batch: int, in_flight: int = IN_FLIGHT) -> float:
        sent = tables(load, batch)
        with self._topic():
            rate, times = self.send_tables(TOPIC, sent, load, in_flight)
            check_read(self._read(), sent, times)
            return rate

    def produce_loop(self, load: Load) -> float:
        """Every message goes out by a `send` of its own; the last one's result comes behind all others."""
        with self._topic():
            with self._producer(self.endpoint, TOPIC) as producer:
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
        from cordwood import aio

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
            with self._producer(self.endpoint, TOPIC) as producer:
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
            with self._consumer(self.endpoint, TOPIC, group=GROUP) as consumer:
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
            with self._consumer(self.endpoint, TOPIC, group=GROUP) as consumer:
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
        waiting: deque = deque()
        with self._producer(self.endpoint, topic) as producer:
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
            yield times.total() * FILL_BATCH

    def _read(self) -> Iterator[pa.RecordBatch]:
        with self._client(self.endpoint) as client:
            yield from client.read_batches(TOPIC)

    def _check_loop(self, load: Load, count: int) -> None:
        read = pa.Table.from_batches(self._read()).select(["value", "key"])
        expected = pa.table(dict(zip(["value", "key"], zip(*load.messages, strict=True), strict=True)))
        assert read.num_rows == count, "every message is there"
        for start in range(0, count, len(load.messages)):
            part = read.slice(start, len(load.messages))
            assert part.cast(expected.schema).equals(expected.slice(0, part.num_rows)), "as it was sent"

    def _check_count(self, count: int) -> None:
        assert sum(batch.num_rows for batch in self._read()) == count, "every message is there"

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
