"""A topic as a Parquet table that any reader sees: every message once, through crashes of everything.

    <table>/                    the rows; nothing but Parquet files, in directories `date=…` or `<column>=…`
    <table>_rejected/           messages that do not fit the schema, with the reason
    <table>_landing/            what is being written; gone when nothing is
    <table>_checkpoint/         Spark's checkpoint; `land/` in it has what was agreed, and a note of each batch

Spark plans batches and numbers them. Each goes through these steps; the third decides.

                                                     what a crash before the next step leaves, and what comes then
    1 plan     offsets/N, by Spark                   nothing: Spark plans the same offsets for N again
    2 stage    files below _landing, by Spark        files that nobody sees: removed; N is staged again
    3 note     land/batches/N.json                   a batch that counts, and is not seen yet: its files are moved
    4 move     each file into the table              a part of the batch is seen: the rest is moved
    5 commit   commits/N, by Spark                   Spark gives N again: it is noted, so nothing is done

So a batch is noted once, and what is noted is moved once: names in the table are made of the table's id, the batch
and the file's number, and a move that was made is not made again. A reader of plain files sees each message at most
once at any moment, and once when the run is over. Between 4's moves it may see a part of a batch.

A note holds Spark's plan, too. A checkpoint that was put back to an older day, or copied, plans other offsets under a
number that is noted, and is refused. Two drivers of one table cannot both note a batch, and on this computer's disk
the second is refused at once.
"""

from os import close
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING

from cordwood.client.endpoint import authority
from cordwood.errors import Conflict
from cordwood.spark.broker import FIRST_TRIES, Broker, reaching
from cordwood.spark.pipelines import land_pact, land_schema
from cordwood.spark.pipelines.land_files import Files, full, local
from cordwood.spark.pipelines.land_landed import Landed
from cordwood.spark.pipelines.land_ledger import Ledger, Places
from cordwood.spark.pipelines.land_pact import Pact
from cordwood.spark.pipelines.land_reach import check_reach
from cordwood.spark.pipelines.land_run import At, Run, started
from cordwood.spark.pipelines.land_shape import Shape
from cordwood.spark.pipelines.progress import Tell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

TARGET_BYTES = 128 << 20  # of a file: few enough to open, small enough to rewrite
EVERY_S = 60.0  # between two batches of a run that goes on: what a reader waits for, and how many files there are


def land(
    spark: "SparkSession",
    endpoint: str,
    topic: str,
    table: str,
    *,
    checkpoint: str | None = None,
    schema: "StructType | str | None" = None,
    partition_by: str | None = "date",
    headers: bool = False,
    once: bool = True,
    every_s: float = EVERY_S,
    target_bytes: int = TARGET_BYTES,
    trigger_bytes: int | None = None,
    fail_on_data_loss: bool = True,
    token: str | None = None,
    ca: str | None = None,
    stop: Event | None = None,
    tell: Tell = lambda line: None,
    at: At = lambda step, batch: None,
) -> Landed:
    """Bring a topic's messages into a table, from where the last run ended; return what was done.

    Without a `schema` the table is raw; with DDL, a StructType or "infer" it has the columns of the JSON. `once` ends
    with what is there now; else a batch is landed each `every_s` until `stop` is set. `trigger_bytes` of messages at
    most are a batch. `at` is called behind each step, for those who want to see one fail there.
    """
    begun = monotonic()
    name = full(table)
    places = Places(name, full(checkpoint) if checkpoint else f"{name}_checkpoint")
    files, kept = Files(spark, places.table), Files(spark, places.checkpoint)
    with reaching(endpoint), Broker(endpoint, token, FIRST_TRIES, ca=ca) as broker:
        pact, shape = _agreed(spark, broker, kept, places, topic, schema, partition_by, headers=headers)
    land_pact.check_table(files, places, pact.id if kept.exists(places.pact) else None)
    check_reach(spark, files, places)
    lock = kept.lock(places.lock)
    try:
        if not kept.exists(places.pact):
            land_pact.write(kept, places, pact)
        done = Landed(
            topic,
            local(places.table),
            local(places.rejected),
            local(places.checkpoint),
            pact.reader,
            None if shape.schema is None else shape.schema.toDDL(),
            partition_by,
        )
        ledger = Ledger(kept, files, places, pact.id)
        _recover(ledger, files, places, tell)
        source = {"endpoint": endpoint, "subscribe": topic, "failOnDataLoss": str(fail_on_data_loss).lower()}
        if token is not None:
            source["token"] = token
        if ca is not None:
            source["ca"] = authority(ca)
        run = Run(spark, kept, files, places, ledger, shape, source, target_bytes, done, tell, at)
        run.go(started(run, pact, once, every_s, trigger_bytes), stop or Event())
        ledger.clear()
    finally:
        if lock is not None:
            close(lock)
    done.seconds = round(monotonic() - begun, 3)
    return done


def _agreed(
    spark: "SparkSession",
    broker: Broker,
    kept: Files,
    places: Places,
    topic: str,
    schema: "StructType | str | None",
    partition_by: str | None,
    *,
    headers: bool,
) -> tuple[Pact, Shape]:
    """Return what was agreed, or what is to be; refuse what does not go with it."""
    extents = broker.topic(topic)
    old = land_pact.read(kept, places)
    if schema == land_schema.INFER:
        if old is not None and old.schema is not None:
            schema = old.schema
        else:
            schema = land_schema.inferred(spark, broker.client, topic)
    columns = None if schema is None else land_schema.parsed(schema)
    shape = land_schema.shape(columns, partition_by, headers=headers)
    asked = Pact(
        land_pact.new_id(),
        topic,
        extents[0].id,
        places.table,
        None if columns is None else columns.json(),
        partition_by,
        headers,
    )
    if old is None:
        return asked, shape
    land_pact.check(old, asked, places)
    return old, shape


def _recover(ledger: Ledger, files: Files, places: Places, tell: Tell) -> None:
    """Bring to an end what an earlier run began, and remove what it did not get to."""
    last = ledger.last()
    if last is not None:
        ledger.settle(last)
        if last.rows and not files.exists(places.table):
            raise Conflict(
                f"{local(places.table)} is gone, but {local(places.checkpoint)} says that it was landed: "
                "remove that as well to land all of it again"
            )
    if files.exists(places.landing):
        tell("what an earlier run left behind is put in order")
        ledger.clear()
