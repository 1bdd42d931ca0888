"""The load of a soak, one process each: a producer at a rate, or a consumer that checks every message.

    python -m cordwood.drills.soak_load produce ENDPOINT TOPIC PARTITION RATE     until its input ends
    python -m cordwood.drills.soak_load consume ENDPOINT TOPIC

Each says once a second how far it is, as a line of JSON. A producer has a partition to itself, and the n-th message
that it sends begins with n: so a message's offset is in it, and whoever reads it sees what is missing or twice.
"""

import json
import select
import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa

from cordwood.client.consumer import Consumer
from cordwood.client.producer import Producer

GROUP = "soak"
BATCH = 100  # messages in a request
VALUE_BYTES = 100


def _table(first: int, partition: int) -> Any:
    """Return the next messages: each its number, then padding."""
    values = np.zeros((BATCH, VALUE_BYTES), np.uint8)
    numbers = np.arange(first, first + BATCH, dtype="<i8")
    values[:, :8] = numbers.view(np.uint8).reshape(BATCH, 8)
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(VALUE_BYTES), BATCH, [None, pa.py_buffer(values)])
    where = pa.Array.from_buffers(pa.int32(), BATCH, [None, pa.py_buffer(np.full(BATCH, partition, np.int32))])
    return pa.table({"value": fixed.cast(pa.binary()), "partition": where})


def _input_ended() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def _say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def produce(endpoint: str, topic: str, partition: int, rate: float) -> None:
    """Send at a rate (0: as fast as it goes), each request waited for; at the end say how many are durable."""
    sent = 0
    took: list[float] = []
    begun = said = time.monotonic()
    with Producer(endpoint, topic, linger_ms=0) as producer:
        while not _input_ended():
            table = _table(sent, partition)
            if rate:
                time.sleep(max(0.0, begun + sent / rate - time.monotonic()))
            asked = time.monotonic()
            producer.send_table(table).result()
            now = time.monotonic()
            sent += BATCH
            took.append(now - asked)
            if now - said >= 1:
                _say(sent=sent, p50_ms=_ms(took, 50), p99_ms=_ms(took, 99))
                took.clear()
                said = now
    _say(sent=sent, end=True)


def _ms(seconds: list[float], share: int) -> float:
    return round(float(np.percentile(seconds, share)) * 1000, 3)


def consume(endpoint: str, topic: str) -> None:
    """Take everything, in order, and see that each offset has its own number; ends with its input, once all came."""
    ends: dict[int, int] = {}
    wrong = 0
    said = time.monotonic()
    with Consumer(endpoint, topic, group=GROUP, idle_timeout_ms=1_000) as consumer:
        while True:
            idle = True
            for batch in consumer.batches():
                idle = False
                wrong += _check(batch, ends)
                batch.ack()
                if time.monotonic() - said >= 1:
                    said = time.monotonic()
                    _say(got=sum(ends.values()), wrong=wrong)
            if idle and _input_ended():
                break
    _say(got=sum(ends.values()), wrong=wrong, ends={str(number): end for number, end in ends.items()}, end=True)


def _check(batch: Any, ends: dict[int, int]) -> int:
    """Count the messages of a batch that are not the next ones of their partition."""
    wrong = 0
    table = batch.record_batch
    partitions = table.column("partition").to_numpy()
    offsets = table.column("offset").to_numpy()
    values = b"".join(table.column("value").to_pylist())
    numbers = np.frombuffer(values, np.uint8).reshape(-1, VALUE_BYTES)[:, :8].copy().view("<i8").reshape(-1)
    for partition in np.unique(partitions).tolist():
        mine = partitions == partition
        first = ends.get(partition, 0)
        expected = np.arange(first, first + int(mine.sum()))
        wrong += int(((offsets[mine] != expected) | (numbers[mine] != expected)).sum())
        ends[partition] = int(offsets[mine][-1]) + 1
    return wrong


if __name__ == "__main__":
    if sys.argv[1] == "produce":
        produce(sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
    else:
        consume(sys.argv[2], sys.argv[3])
