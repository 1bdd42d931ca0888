"""Spark: history as a table beside Spark's own reader on the same files, hot data, streams, the sink, landing.

history     count, group, filter, full rows: `table` fully tiered, with 5 % hot, and `format("cordwood")` alone
hot         full rows from the broker's journal beside full rows of history
stream      256 MB triggers beside the batch scan; small triggers beside Spark's own `rate` source
sink        the exactly-once sink beside one that sends row after row from Python
land        JSON events to typed Parquet beside the same `from_json` on native Parquet
"""

import itertools
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from bench.tier import ROWS, TABLES, make_events
from cordwood import Client, Producer
from cordwood.bench.result import Result, at_least, at_most, compared
from cordwood.bench.served import Served

Tell = Callable[[str], None]
Action = Callable[[Any], Any]

TOPIC = "events"
PARTITIONS = 4
SCHEMA = "id STRING, user BIGINT, time STRING, type STRING, page STRING, amount DOUBLE, agent STRING"
AT_REST = "offset bigint, timestamp timestamp, key binary, value binary, headers map<string, binary>, partition int"
WARM = 3  # laps: it takes Java so many until what it runs is compiled
SHIPS = ("--set", "tier_interval_s=1", "--set", "tier_object_bytes=33554432")
KEEPS = ("--set", "tier_interval_s=86400", "--set", f"tier_object_bytes={1 << 32}")


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to read, and how often."""

    history_bytes: int = 1 << 30
    hot_bytes: int = 256 << 20
    sink_rows: int = 500_000
    rounds: int = 3
    triggers: int = 30


QUICK = Effort(history_bytes=96 << 20, hot_bytes=32 << 20, sink_rows=30_000, rounds=1, triggers=8)


def measure(scratch: Path, effort: Effort, tell: Tell) -> Iterator[Result]:
    """Yield the results of all parts."""
    from cordwood.spark import session

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "FATAL",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "3g",
        "spark.local.dir": str(scratch),
    }
    spark = session.start("local[2]", "bench", settings)
    try:
        events = make_events(TABLES)
        size = sum(table["value"].nbytes for table in events) / (len(events) * ROWS)
        rows = int(effort.history_bytes / size) // ROWS * ROWS
        with Served(scratch, *SHIPS) as service:
            service.create_topic(TOPIC, PARTITIONS)
            _send(service.endpoint, TOPIC, events, rows)
            _wait_until_tiered(service.endpoint)
            tell(f"{rows:,} events of {size:.0f} bytes are in the tier")
            bench = Bench(spark, service.endpoint, scratch, rows, effort, tell)
            yield from bench.history("", 0.9)
            yield from bench.scan()
            yield from bench.stream()
            yield from bench.land()
        with Served(scratch, *KEEPS) as service:
            bench = Bench(spark, service.endpoint, scratch, rows, effort, tell)
            yield from bench.hot(events, int(effort.hot_bytes / size) // ROWS * ROWS)
            yield from bench.small_triggers(events)
            yield from bench.sink(events)
            _send(service.endpoint, TOPIC, events, rows // 20)
            yield from bench.history(", 5 % hot", 0.6)
    finally:
        spark.stop()


class Bench:
    """One broker, and Spark beside it. Every figure is rows a second; the two sides take turns."""

    def __init__(self, spark: Any, endpoint: str, scratch: Path, rows: int, effort: Effort, tell: Tell):
        self.spark = spark
        self.endpoint = endpoint
        self.scratch = scratch
        self.rows = rows
        self.effort = effort
        self.tell = tell
        self._paths: list[str] = []

    def compare(
        self,
        name: str,
        ours: Callable[[], int],
        raw: Callable[[], int],
        bar: Any,
        note: str,
        against: str,
        warm: int = WARM,
    ) -> Result:
        """Return what comes of both, in turns; each says how many rows it went through. First laps are for warmth."""
        for _ in range(warm):
            ours(), raw()
        laps = [(_rate(ours), _rate(raw)) for _ in range(self.effort.rounds)]
        self.tell(f"{name}: {', '.join(f'{one:,.0f} / {other:,.0f}' for one, other in laps)} rows/s")
        return compared(name, "rows/s", laps, bar, note, against=against)

    # Frames

    def native(self) -> Any:
        """Spark's own reader on the topic's objects."""
        if not self._paths:
            spans = Client(self.endpoint).spans(TOPIC)
            root = self.scratch / "data" / "tier"
            self._paths = sorted({str(root / span["object"]) for span in spans if span["source"] == "object"})
        paths = self._paths
        folder = str(Path(paths[0]).parent.parent)
        return self.spark.read.schema(AT_REST).option("basePath", folder).parquet(*paths).drop("headers")

    def table(self) -> Any:
        from cordwood.spark import table

        return table(self.spark, self.endpoint, TOPIC)

    def format(self, topic: str = TOPIC) -> Any:
        return self.spark.read.format("cordwood").option("endpoint", self.endpoint).option("subscribe", topic).load()

    def stream_of(self, topic: str, **options: str) -> Any:
        reader = self.spark.readStream.format("cordwood").option("endpoint", self.endpoint)
        return reader.option("subscribe", topic).options(**options).load()

    # Parts

    def history(self, about: str, bar: float) -> Iterator[Result]:
        from pyspark.sql import functions as F

        middle = self.native().selectExpr("percentile(unix_micros(timestamp), 0.5)").first()[0]
        actions: dict[str, Action] = {
            "count": lambda frame: frame.count(),
            "group by key": lambda frame: (
                frame.groupBy("key").agg(F.count("*"), F.max("offset")).write.format("noop").mode("overwrite").save()
            ),
            "filter on partition and time": lambda frame: frame.where(
                (F.col("partition") == 1) & (F.col("timestamp") >= F.timestamp_micros(F.lit(int(middle))))
            ).count(),
            "full rows": _noop,
        }
        count, native_count = self.table().count(), self.native().count()
        assert native_count == self.rows, "the history is all there"
        for name, act in actions.items():
            yield self.compare(
                f"{name}{about}",
                lambda act=act: (act(self.table()) and count) or count,
                lambda act=act: (act(self.native()) and native_count) or native_count,
                at_least(bar),
                "cordwood.spark.table, planned anew each time; the same files by spark.read.parquet",
                "native",
            )

    def scan(self) -> Iterator[Result]:
        yield self.compare(
            "format: full rows",
            lambda: _noop(self.format()) or self.rows,
            lambda: _noop(self.native()) or self.rows,
            at_least(0.8),
            'format("cordwood") alone, all in the tier',
            "native",
        )

    def stream(self) -> Iterator[Result]:
        def drain() -> int:
            shutil.rmtree(self.scratch / "drain", ignore_errors=True)
            frame = self.stream_of(TOPIC, startingOffsets="earliest", maxBytesPerTrigger=str(256 << 20))
            writer = frame.writeStream.format("noop").option("checkpointLocation", str(self.scratch / "drain"))
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            found = sum(one["numInputRows"] for one in query.recentProgress)
            assert found == self.rows, f"{found} rows of {self.rows}"
            return int(found)

        yield self.compare(
            "stream, 256 MB triggers",
            drain,
            lambda: _noop(self.format()) or self.rows,
            at_least(0.8),
            "from the first offset to the last, AvailableNow, start and end of the query included",
            "batch scan",
        )

    def land(self) -> Iterator[Result]:
        from pyspark.sql import functions as F

        from cordwood.spark.pipelines.land import land

        def clean() -> None:
            for path in self.scratch.glob("lake*"):
                shutil.rmtree(path)

        def ours() -> int:
            clean()
            found = land(self.spark, self.endpoint, TOPIC, str(self.scratch / "lake"), schema=SCHEMA)
            assert found.rows == self.rows, found
            return self.rows

        def raw() -> int:
            clean()
            parsed = self.native().select(
                F.from_json(F.col("value").cast("string"), SCHEMA).alias("event"), "partition", "offset", "timestamp"
            )
            parsed = parsed.select(
                "event.*", "partition", "offset", "timestamp", F.to_date("timestamp").alias("date")
            )
            parsed.write.partitionBy("date").parquet(str(self.scratch / "lake"))
            return self.rows

        yield self.compare(
            "land",
            ours,
            raw,
            at_least(0.7),
            "typed, by date, AvailableNow; from_json and write.parquet",
            "native",
            warm=1,
        )
        clean()

    def hot(self, events: list[Any], rows: int) -> Iterator[Result]:
        Client(self.endpoint).create_topic("hot", PARTITIONS)
        _send(self.endpoint, "hot", events, rows)
        yield self.compare(
            "hot: full rows",
            lambda: _noop(self.format("hot")) or rows,
            lambda: _noop(self.format()) or self.rows,
            at_least(0.5),
            'format("cordwood"), from the journal through the broker',
            "history",
        )
        Client(self.endpoint).delete_topic("hot")

    def small_triggers(self, events: list[Any]) -> Iterator[Result]:
        Client(self.endpoint).create_topic("trickle", PARTITIONS)
        small = events[0].slice(0, 100)
        laps = []
        for number in range(self.effort.rounds):
            rate = (
                self.spark.readStream.format("rate").option("rowsPerSecond", 1000).option("numPartitions", 4).load()
            )
            theirs = self._triggers(rate, f"rate{number}", lambda: None)
            with Producer(self.endpoint, "trickle") as producer:
                frame = self.stream_of("trickle", startingOffsets="latest", minPartitions="4")
                ours = self._triggers(frame, f"trickle{number}", lambda producer=producer: producer.send_table(small))
            laps.append((ours, theirs))
            self.tell(f"small triggers: {ours:.0f} ms, rate {theirs:.0f} ms")
        yield compared(
            "a small trigger, p50",
            "ms",
            laps,
            at_most(2.5),
            f"durationMs.triggerExecution of {self.effort.triggers} triggers, 100 messages every 50 ms",
            against="rate",
        )

    def _triggers(self, frame: Any, name: str, feed: Callable[[], Any]) -> float:
        """Return the median time of a trigger that had rows."""
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(self.scratch / name))
        query = writer.start()
        seen: dict[int, float] = {}
        try:
            while len(seen) < self.effort.triggers + 3:
                feed()
                time.sleep(0.05)
                for one in query.recentProgress:
                    if one["numInputRows"]:
                        seen[one["batchId"]] = one["durationMs"]["triggerExecution"]
                assert query.isActive, query.exception()
        finally:
            query.stop()
        return median(list(seen.values())[3:])  # the first ones are slow for everybody

    def sink(self, events: list[Any]) -> Iterator[Result]:
        rows = self.effort.sink_rows
        client = Client(self.endpoint)
        for name in ("from", "ours", "theirs"):
            client.create_topic(name, PARTITIONS)
        _send(self.endpoint, "from", events, rows)
        laps = itertools.count()
        endpoint = self.endpoint

        class Each:
            """A sink as most people write one: a producer for each partition, and a `send` for each row."""

            def open(self, partition: int, epoch: int) -> bool:
                self.producer = Producer(endpoint, "theirs")
                return True

            def process(self, row: Any) -> None:
                self.producer.send(bytes(row["value"]), key=bytes(row["key"]))

            def close(self, error: BaseException | None) -> None:
                self.producer.close()

        def run(writer: Any) -> int:
            checkpoint = str(self.scratch / f"sink{next(laps)}")
            query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            query.awaitTermination()
            return rows

        def frame() -> Any:
            return self.stream_of("from", startingOffsets="earliest").select("key", "value")

        yield self.compare(
            "streaming sink",
            lambda: run(frame().writeStream.format("cordwood").option("endpoint", endpoint).option("topic", "ours")),
            lambda: run(frame().writeStream.foreach(Each())),
            at_least(3),
            f"{rows:,} rows, exactly once; beside it foreach with Producer.send, at least once",
            "row by row",
        )
        for name in ("from", "ours", "theirs"):
            client.delete_topic(name)


def _noop(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _rate(act: Callable[[], int]) -> float:
    began = perf_counter()
    return act() / (perf_counter() - began)


def _send(endpoint: str, topic: str, events: list[Any], rows: int) -> None:
    """Send so many events, whole tables of them, to all partitions in turn."""
    with Producer(endpoint, topic) as producer:
        futures = [producer.send_table(table) for table in itertools.islice(itertools.cycle(events), rows // ROWS)]
        for future in futures:
            future.result()


def _wait_until_tiered(endpoint: str) -> None:
    client = Client(endpoint)
    while any(one["tiered_offset"] < one["end_offset"] for one in client.topic(TOPIC)["partitions"]):
        time.sleep(0.2)
