"""A batch as Parquet files that nobody sees yet, and the count of them.

One pass over the messages writes the rows that fit. They are counted from the files: where there are as many as the
batch has messages, all of them fit. Else a second pass writes the others with their reasons, and all are counted.

    files    a task writes one file for each directory it has rows for. A batch that is large enough for a file of
             every task is written as it comes: messages are mostly in the order of their time, so a task has few
             days. A smaller one, and any that is partitioned by a column, is first brought together by directory.

Spark's commit protocol chooses one attempt of each task, so retries and speculation leave one. Every message that was
planned is in one of the files in the end, or the batch fails: so what an executor wrote to its own disk is missed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from cordwood.errors import Unavailable
from cordwood.spark.pipelines.land_files import local
from cordwood.spark.pipelines.land_plan import Plan
from cordwood.spark.pipelines.land_shape import DATE, WHOLE, Shape
from cordwood.spark.store import literally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKED = 4  # a file is smaller than the messages in it by about this
WRITERS = 8  # files that a task has open at once; with more directories it sorts its rows first
MOST_NAMES = 20  # of late columns that are told


class Staged(NamedTuple):
    """What was staged."""

    rows: int
    rejected: int
    late_rows: int
    late_columns: dict[str, int]


def stage(
    messages: "DataFrame",
    again: "Callable[[], DataFrame]",
    shape: Shape,
    plan: Plan,
    root: str,
    cores: int,
    target_bytes: int,
    *,
    lossy: bool,
) -> Staged:
    """Write the rows of a batch below `root`, in `rows` and in `rejected`; return how many there are.

    `again` gives the messages for a second pass. A batch that is `lossy` may have fewer than were planned.
    """
    spark = messages.sparkSession
    late_rows = rejected = 0
    with _set(spark, _settings(target_bytes)):
        rows = shape.rows(messages)
        if together(shape, plan, cores, target_bytes):
            rows = rows.hint("rebalance", *_directories(shape))
        _write(rows, f"{root}/rows", _directories(shape))
        fitting, late_rows = _count(spark, f"{root}/rows", None if shape.schema is None else shape.names[WHOLE])
        if fitting < plan.messages and shape.schema is not None:
            _write(shape.rejected(again()).hint("rebalance"), f"{root}/rejected", [])
            rejected, _ = _count(spark, f"{root}/rejected", None)
    if fitting + rejected != plan.messages and not (lossy and fitting + rejected < plan.messages):
        raise Unavailable(
            f"the batch has {plan.messages} messages, and {fitting + rejected} are in the files below {local(root)}: "
            "it must be one directory that the driver and all executors share"
        )
    late_columns = _late_columns(spark, shape, f"{root}/rows") if late_rows else {}
    return Staged(fitting, rejected, late_rows, late_columns)


def together(shape: Shape, plan: Plan, cores: int, target_bytes: int) -> bool:
    """Say whether the rows of a batch are to be brought together before they are written."""
    if shape.partition_by is not None and not shape.dated:
        return True
    return plan.bytes < (cores - 1) * PACKED * target_bytes


def _directories(shape: Shape) -> list[str]:
    if shape.partition_by is None:
        return []
    return [DATE if shape.dated else shape.partition_by]


def _settings(target_bytes: int) -> dict[str, str]:
    return {
        "spark.sql.adaptive.enabled": "true",  # streams turn it off; without it `rebalance` is a plain shuffle
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(
            2 * target_bytes
        ),  # a shuffle packs about half as well
        "spark.sql.maxConcurrentOutputFileWriters": str(WRITERS),
    }


@contextmanager
def _set(spark: "SparkSession", settings: dict[str, str]) -> Iterator[None]:
    """Have settings in force; this is the stream's own session, which plans the next batch by those it had."""
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _write(rows: "DataFrame", path: str, directories: list[str]) -> None:
    writer: Any = rows.write.mode("errorifexists")
    (writer.partitionBy(*directories) if directories else writer).parquet(path)


def _count(spark: "SparkSession", path: str, column: str | None) -> tuple[int, int]:
    """Return how many rows the files have, and in how many of them a column of text is not null."""
    from pyspark.sql import functions as F

    name = column or "offset"
    files = spark.read.schema(f"`{name}` {'bigint' if column is None else 'string'}").parquet(literally(path))
    some = F.count(files[name]) if column is not None else F.lit(0)
    rows, found = files.agg(F.count(F.lit(1)), some).collect()[0]
    return int(rows), int(found)


def _late_columns(spark: "SparkSession", shape: Shape, path: str) -> dict[str, int]:
    """Return the fields that the schema lacks, the most frequent first, with the rows that have them."""
    from pyspark.sql import functions as F

    rows = spark.read.parquet(literally(path))
    late = rows.where(rows[shape.names[WHOLE]].isNotNull()).select(
        F.explode(F.array_distinct(shape.late_columns(rows))).alias("name")
    )
    counted = late.groupBy("name").count().orderBy(F.desc("count"), "name").limit(MOST_NAMES)
    return {row["name"]: row["count"] for row in counted.collect()}
