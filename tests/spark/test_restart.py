"""A query that runs outlives its broker."""

import socket
from collections import Counter
from pathlib import Path
from typing import Any

from cordwood import Client, Producer
from tests.real.served import Served, until
from tests.spark.conftest import Kept
from tests.spark.messages import numbered


def test_a_stream_is_written_exactly_once_though_the_broker_is_killed(spark: Any, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    flags = ("--port", str(port), "--set", "tier_interval_s=1", "--set", "tier_object_bytes=1048576")
    with Served(tmp_path / "data", *flags) as served:
        broker = Kept(f"http://127.0.0.1:{served.port}", tmp_path / "data")
        client = Client(broker.endpoint, tries=20)
        client.create_topic("source", 3)
        client.create_topic("target", 2)
        with Producer(broker.endpoint, "source") as producer:
            producer.send_table(numbered(3_000))
        frame = broker.stream(spark, subscribe="source", startingOffsets="earliest", maxOffsetsPerTrigger="200")
        frame = frame.selectExpr("concat(partition, ':', offset) as value")
        query = broker.sink(frame, "target", tmp_path / "checkpoint").trigger(availableNow=True).start()

        def written() -> int:
            return int(sum(one["end_offset"] for one in client.topic("target")["partitions"]))

        for part in (1, 2):
            until(lambda least=part * 600: written() >= least, "some of it is written")
            assert query.isActive
            served.again()
        assert query.awaitTermination(100)
        assert served.port == port
        wanted = Counter(f"{one.partition}:{one.offset}".encode() for one in client.read("source"))
        assert Counter(one.value for one in client.read("target")) == wanted
        assert wanted.total() == 3_000
