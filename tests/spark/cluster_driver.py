"""A driver in a process of its own that does what it is told: a line of JSON in, a line of JSON out.

python -m tests.spark.cluster_driver MASTER SETTINGS
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from cordwood.drills.spark_cluster import SETTINGS
from cordwood.spark import session, table
from cordwood.spark.pipelines.compact import compact
from cordwood.spark.pipelines.land import land
from cordwood.spark.pipelines.replay import replay
from cordwood.spark.pipelines.scrub import scrub

running: list[Any] = []


def batch(spark: SparkSession, endpoint: str, topic: str) -> list[list[Any]]:
    """Return every row of a batch query."""
    frame = spark.read.format("cordwood").option("endpoint", endpoint).option("subscribe", topic)
    return _rows(frame.option("minPartitions", "4").load())


def whole(spark: SparkSession, endpoint: str, topic: str) -> list[list[Any]]:
    """Return every row of a topic as a table."""
    return _rows(table(spark, endpoint, topic))


def _rows(frame: Any) -> list[list[Any]]:
    rows = frame.selectExpr("partition", "offset", "cast(value as string) as value")
    return sorted([list(row) for row in rows.collect()])


def hosts(spark: SparkSession) -> list[str]:
    """Return on which of the cluster's hosts tasks run."""

    def host(number: int) -> str:
        import os
        import time

        time.sleep(0.2)  # so that no executor does all of it
        return os.environ["SPARK_LOCAL_IP"]

    return sorted(set(spark.sparkContext.parallelize(range(8), 8).map(host).collect()))


def copy(spark: SparkSession, endpoint: str, source: str, target: str, checkpoint: str, rows: int) -> None:
    """Begin to copy a topic: of each message the name of its place."""
    frame = spark.readStream.format("cordwood").option("endpoint", endpoint).option("subscribe", source)
    frame = frame.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", str(rows))
    made = frame.option("minPartitions", "4").load().selectExpr("concat(partition, ':', offset) as value", "key")
    writer = made.writeStream.format("cordwood").option("endpoint", endpoint).option("topic", target)
    running.append(writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start())


def copied(spark: SparkSession) -> int:
    """Return how many rows the copy read, when it is at its end."""
    query = running.pop()
    query.awaitTermination()
    return sum(one["numInputRows"] for one in query.recentProgress)


def compacted(spark: SparkSession, endpoint: str, topic: str) -> Any:
    """Compact a topic."""
    return compact(spark, endpoint, topic).as_dict()


def scrubbed(spark: SparkSession, endpoint: str, topic: str) -> Any:
    """Scrub a topic."""
    return scrub(spark, endpoint, [topic]).as_dict()


def replayed(spark: SparkSession, endpoint: str, source: str, target: str, where: str) -> Any:
    """Replay a part of a topic into another."""
    return replay(spark, endpoint, source, target, where=where).as_dict()


def landed(spark: SparkSession, endpoint: str, topic: str, directory: str) -> Any:
    """Land a topic."""
    return land(spark, endpoint, topic, directory, trigger_bytes=20_000).as_dict()


STEPS: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (batch, whole, hosts, copy, copied, compacted, scrubbed, replayed, landed)
}


def main(master: str, settings: str) -> None:
    """Do what each line says."""
    spark = session.start(master, "cluster tests", {**SETTINGS, **json.loads(settings)})
    print(json.dumps({"done": "started"}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"done": STEPS[asked.pop("step")](spark, **asked)}
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
