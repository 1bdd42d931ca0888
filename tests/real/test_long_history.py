"""Ten million messages, read from the very first one while more come in and the old ones move into the tier."""

import threading
from pathlib import Path

import numpy as np
import pyarrow as pa

from cordwood import Client, Producer
from tests.real.served import Served

MESSAGES = 10_000_000
ROWS = 100_000


def test_a_reader_from_offset_0_gets_every_offset_once_and_in_order_while_producing_goes_on(tmp_path: Path) -> None:
    flags = ("--set", "tier_object_bytes=8388608", "--set", "cache_bytes=33554432")
    with Served(tmp_path, *flags) as broker:
        endpoint = f"http://127.0.0.1:{broker.port}"
        client = Client(endpoint)
        client.create_topic("long")
        half = threading.Event()
        sending = threading.Thread(target=_send, args=(endpoint, half), daemon=True)
        sending.start()
        assert half.wait(120)
        following = 0
        for batch in client.read_batches("long", partition=0, follow=True, limit=MESSAGES):
            offsets = batch.column("offset").to_numpy()
            assert offsets[0] == following, "every one, once"
            assert (np.diff(offsets) == 1).all(), "in order"
            values = np.frombuffer(batch.column("value").buffers()[2], np.int64)
            assert (values == offsets).all(), "and each is the one that was sent"
            following += len(offsets)
        assert following == MESSAGES
        sending.join(60)
        found = client.topic("long")["partitions"][0]
        assert found["end_offset"] == MESSAGES
        assert found["tiered_offset"] > 0, "much of it came from the tier"


def _send(endpoint: str, half: threading.Event) -> None:
    with Producer(endpoint, "long") as producer:
        for first in range(0, MESSAGES, ROWS):
            numbers = np.arange(first, first + ROWS, dtype=np.int64)
            starts = pa.py_buffer(np.arange(0, 8 * ROWS + 8, 8, dtype=np.int32))
            values = pa.Array.from_buffers(pa.binary(), ROWS, [None, starts, pa.py_buffer(numbers)])
            future = producer.send_table(pa.table({"value": values}))
            if first == MESSAGES // 2:
                future.result()
                half.set()
        future.result()
