"""The data source `cordwood` with a trap in it: something dies at a place of a batch that is told beforehand.

    planned      a task begins, and nothing of it is staged     in an executor's Python
    written      a task's rows are staged                       in an executor's Python
    staged       all tasks' rows are staged                     beside the driver, where `commit` runs
    published    all are visible, and Spark does not know       beside the driver
    committed    Spark's file is in `commits/`                  beside the driver, where the next batch is planned

    victim       what is done there, once for each batch
    driver       all processes of its session get SIGKILL: Python, Spark's Java, workers
    broker       a note asks for its SIGKILL; the place is left when it is dead
    executor     the Java process that this Python belongs to gets SIGKILL
    raced        nobody dies: the first attempt of a task waits until a second, that Spark started, has staged, too

Only the drill's driver registers it. What it does itself is inherited.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from cordwood.drills.spark_cluster import end_session, kill, processes
from cordwood.record import Batch
from cordwood.spark.options import read_options, write_options
from cordwood.spark.sink import BATCH_ID, Staged, StreamWriter
from cordwood.spark.source import CordwoodSource, to_arrow
from cordwood.spark.stream import StreamReader

OPTION = "trap"
WAIT_S = 300.0  # then the trap itself is broken, and says so


@dataclass(frozen=True, slots=True)
class Trap:
    """Who dies at which place of which batches; notes of it are files named by the batch."""

    points: dict[int, str]  # such as "broker staged"
    notes: str
    checkpoint: str

    @classmethod
    def of(cls, text: str) -> "Trap":
        """Return what `text` says."""
        given = json.loads(text)
        return cls(**{**given, "points": {int(batch): point for batch, point in given["points"].items()}})

    def reached(self, place: str, batch: int) -> None:
        """Do what is to be done at this place; the note says what Spark had on its disk then."""
        victim, _, at = self.points.get(batch, "").partition(" ")
        if at != place:
            return
        if not self._noted(f"{batch}", place):
            return
        if victim == "driver":
            end_session(os.getsid(0))  # and this process with it
        elif victim == "executor":
            # Our parent is a daemon, and Java is its parent.
            kill(next(one.parent for one in processes() if one.pid == os.getppid()))
            self._wait(lambda: False)  # until that ends us
        elif victim == "broker":
            self._wait(lambda: (Path(self.notes) / f"{batch}.dead").exists())

    def raced(self, batch: int) -> None:
        """Have an attempt of the first task wait for another one, which notes itself while the first still runs."""
        context = TaskContext.get()
        if self.points.get(batch) != "executor raced" or context is None or context.partitionId() != 0:
            return
        first, second = (Path(self.notes) / f"{batch}.{which}" for which in ("first", "second"))
        while not self._noted(first.name, "raced"):
            if any(one.pid == json.loads(first.read_text())["pid"] for one in processes()):
                self._noted(second.name, "raced")
                return
            first.unlink()  # it died with its executor, and this is no race but a retry
        self._wait(second.exists)
        time.sleep(WAIT_S)  # Spark has the second by then, and ends this one

    def done(self) -> None:
        """See whether Spark has committed a batch of this trap."""
        for batch in self.points:
            if (Path(self.checkpoint) / "commits" / str(batch)).exists():
                self.reached("committed", batch)

    def _noted(self, name: str, place: str) -> bool:
        """Leave a note, whole or not at all; say whether it is the first of that name."""
        known = {folder: last(self.checkpoint, folder) for folder in ("offsets", "commits")}
        draft = Path(self.notes) / f".{name}.{os.getpid()}"
        draft.write_text(json.dumps({"place": place, "pid": os.getpid(), **known}))
        try:
            os.link(draft, Path(self.notes) / name)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def _wait(self, fact: Any) -> None:
        until = time.monotonic() + WAIT_S
        while not fact():
            if time.monotonic() > until:
                raise AssertionError("nobody came to the trap")
            time.sleep(0.005)


def last(checkpoint: str, folder: str) -> int:
    """Return the last batch that a folder of a checkpoint knows, -1 if there is none."""
    found = Path(checkpoint, folder).glob("*")
    return max((int(file.name) for file in found if file.name.isdigit()), default=-1)


class TrappedSource(CordwoodSource):
    """`cordwood`, with the option `trap` for streaming queries."""

    def __init__(self, options: dict[str, str]):
        self.trap = Trap.of(options[OPTION])
        super().__init__({name: value for name, value in options.items() if name != OPTION})

    @classmethod
    def name(cls) -> str:
        """The name that follows `format`."""
        return "cordwood-trapped"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader, with the trap."""
        return TrappedReader(self.trap, read_options(self.options), to_arrow(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer, with the trap."""
        return TrappedWriter(self.trap, write_options(self.options))


class TrappedReader(StreamReader):
    """Reads as always; the end of a batch is where the next one is planned."""

    def __init__(self, trap: Trap, *given: Any):
        super().__init__(*given)
        self._trap = trap

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Plan the next batch, unless the one before was to be the last."""
        self._trap.done()
        return super().latestOffset(start, limit)


class TrappedWriter(StreamWriter):
    """Writes as always."""

    def __init__(self, trap: Trap, *given: Any):
        super().__init__(*given)
        self._trap = trap

    def write(self, iterator: Iterator[Batch]) -> Staged:
        """Stage the rows of a task."""
        context = TaskContext.get()
        assert context is not None, "Spark runs this in a task"
        batch = int(context.getLocalProperty(BATCH_ID) or -1)
        self._trap.reached("planned", batch)
        found = super().write(iterator)
        self._trap.reached("written", batch)
        self._trap.raced(batch)
        return found

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Make the rows of a batch visible."""
        self._trap.reached("staged", batchId)
        super().commit(messages, batchId)
        self._trap.reached("published", batchId)
