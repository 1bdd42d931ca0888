"""One run of `land`: what Spark calls with each batch, and what waits for the end."""

import re
from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING, Any

from cordwood import errors
from cordwood.errors import Conflict, CordwoodError, Refused, Unavailable
from cordwood.spark.broker import TRIES, Broker, reaching
from cordwood.spark.extent import judge
from cordwood.spark.pipelines.land_files import Files, local
from cordwood.spark.pipelines.land_landed import Landed
from cordwood.spark.pipelines.land_ledger import Batch, Ledger, Places
from cordwood.spark.pipelines.land_pact import Pact
from cordwood.spark.pipelines.land_plan import Plan, planned
from cordwood.spark.pipelines.land_shape import KEPT, Shape
from cordwood.spark.pipelines.land_staging import PACKED, stage
from cordwood.spark.pipelines.progress import Tell, watched
from cordwood.spark.store import is_directory, store_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_S = 0.2
At = Callable[[str, int], None]


class Run:
    """One run: what Spark calls with each batch, and what waits for the end."""

    def __init__(
        self,
        spark: "SparkSession",
        kept: Files,
        files: Files,
        places: Places,
        ledger: Ledger,
        shape: Shape,
        source: dict[str, str],
        target_bytes: int,
        done: Landed,
        tell: Tell,
        at: At,
    ):
        self.spark = spark
        self.cores = int(spark.sparkContext.defaultParallelism)
        self.shape = shape
        self._local = str(spark.sparkContext.master).startswith("local")
        self.source = source
        self.places = places
        self.target_bytes = target_bytes
        self._kept = kept
        self._files = files
        self._ledger = ledger
        self._done = done
        self._tell = tell
        self._at = at
        self._failed: BaseException | None = None

    def batch(self, messages: "DataFrame", number: int) -> None:
        """Land a batch; Spark calls this, and takes whatever is raised for its own."""
        try:
            self._land(messages, number)
        except BaseException as error:
            self._failed = error
            raise

    def go(self, query: Any, stop: Event) -> None:
        """Wait for the end of a query, or end it between two batches when `stop` is set."""
        try:
            with watched(self.spark, self._tell):
                while not query.awaitTermination(POLL_S):
                    if stop.is_set() and not query.status["isTriggerActive"]:
                        self._done.stopped = True
                        break
        except Exception as error:  # of the query; what it was is in its text only
            raise _plain(self._failed or error) from error
        finally:
            query.stop()

    def _recognise(self, batch: Batch, plan: Plan) -> None:
        """Bring a batch that was noted to its end."""
        if batch.plan != plan.id:
            raise Conflict(
                f"batch {batch.number} was landed with other offsets than {local(self.places.checkpoint)} has now: "
                "it was put back or copied; land somewhere else, or put back the table as well"
            )
        self._ledger.settle(batch)
        self._done.recovered += 1
        self._tell(f"batch {batch.number} is in the table already")

    def _natively(self, broker: Broker) -> bool:
        """Say whether Spark's own Parquet reader may read history: not where executors might lack the directory."""
        store = store_of(broker.config())
        return store is not None and (self._local or not is_directory(store))

    def _land(self, messages: "DataFrame", number: int) -> None:
        self._at("planned", number)
        source, done = self.source, self._done
        shown = {"token": source.get("token"), "ca": source.get("ca")}
        with reaching(source["endpoint"]), Broker(source["endpoint"], tries=TRIES, **shown) as broker:
            plan = planned(self._kept, self.places.checkpoint, number, broker, source["subscribe"])
            natively = self._natively(broker)
        done.ends = plan.ends
        found = self._ledger.find(number)
        if found is not None:
            self._recognise(found, plan)
            return
        lossy = source["failOnDataLoss"] == "false"
        judge(plan.losses, fail=not lossy)
        spark = messages.sparkSession
        if natively:
            messages = plan.read(spark, source, self.shape.columns)
        name = self._ledger.staged(number)
        root = f"{self.places.landing}/{name}"
        staged = stage(
            messages,
            lambda: plan.read(spark, source, KEPT) if natively else plan.read_by_source(spark, source, KEPT),
            self.shape,
            plan,
            root,
            self.cores,
            self.target_bytes,
            lossy=lossy,
        )
        moves = []
        size = 0
        for tree, count in (("rows", staged.rows), ("rejected", staged.rejected)):
            staged_files = self._files.below(f"{root}/{tree}") if count else []
            self._files.sync(f"{root}/{tree}/{one.path}" for one in staged_files)
            self._files.sync_names((f"{root}/{tree}/{one.path}" for one in staged_files), self.places.landing)
            moves += [
                (tree, one.path, self._ledger.target(number, place, one.path))
                for place, one in enumerate(staged_files)
            ]
            size += sum(one.bytes for one in staged_files)
        batch = Batch(
            number, plan.id, name, staged.rows, staged.rejected, staged.late_rows, staged.late_columns, size, moves
        )
        self._at("staged", number)
        self._ledger.note(batch)
        self._at("noted", number)
        self._ledger.settle(batch)
        self._at("moved", number)
        done.add(batch)
        self._tell(_line(batch))


def started(run: Run, pact: Pact, once: bool, every_s: float, trigger_bytes: int | None) -> Any:
    """Return the query."""
    most = trigger_bytes or run.cores * PACKED * run.target_bytes  # so that a task's file is about the target
    reader = run.spark.readStream.format("cordwood").option("startingOffsets", "earliest")
    options = {
        **run.source,
        "readerId": pact.reader,
        "columns": ",".join(run.shape.columns),
        "maxBytesPerTrigger": str(most),
    }
    if not str(run.spark.sparkContext.master).startswith("local["):
        options["minPartitions"] = str(run.cores)
    for name, value in options.items():
        reader = reader.option(name, value)
    writer = reader.load().writeStream.foreachBatch(run.batch).queryName(f"land {pact.topic} {pact.id}")
    writer = writer.option("checkpointLocation", run.places.checkpoint)
    try:
        if once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{max(1, round(every_s * 1000))} milliseconds").start()
    except Exception as error:
        raise _plain(error) from error


def _plain(error: BaseException) -> CordwoodError:
    """Return what Spark raised as what was raised at first, on whichever computer, in one line."""
    if isinstance(error, CordwoodError):
        return error
    text = str(error)
    for name, said in re.findall(r"cordwood\.errors\.(\w+): (.+)", text)[:1]:
        kind = getattr(errors, name, Unavailable)
        if kind in (Refused, errors.NotFound, Conflict, Unavailable, errors.Full):
            found: CordwoodError = kind(said)
            return found
        return Unavailable(said)
    lost = re.search(r"DataLost: (.+)", text)
    if lost is not None:
        return Refused(lost[1])
    return Unavailable(f"Spark ended the run: {' '.join(text.split())[:300]}. What was landed stays; run it again")


def _line(batch: Batch) -> str:
    line = f"batch {batch.number}: {batch.rows} rows in {len(batch.files)} files"
    if batch.rejected:
        line += f", {batch.rejected} rejected"
    if batch.late_rows:
        line += f", {batch.late_rows} with fields that the schema lacks: {', '.join(batch.late_columns)}"
    return line
