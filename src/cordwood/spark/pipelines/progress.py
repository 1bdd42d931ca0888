"""How far Spark is, told while it works."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tell = Callable[[str], None]
EVERY_S = 2.0  # often enough to see that it moves


@contextmanager
def watched(spark: "SparkSession", tell: Tell) -> Iterator[None]:
    """Tell from time to time how many of the running tasks are done, until what is inside is over."""
    over = Event()
    watcher = Thread(target=_watch, args=(_tracker(spark), tell, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(tracker: Any, tell: Tell, over: Event) -> None:
    said: str | None = None
    while tracker is not None and not over.wait(EVERY_S):
        line = tasks(tracker)
        if line is not None and line != said:
            said = line
            tell(line)


def tasks(tracker: Any) -> str | None:
    """Return how many of the running tasks are done, None where none runs."""
    stages = [found for one in tracker.getActiveStageIds() if (found := tracker.getStageInfo(one)) is not None]
    done, all_ = sum(one.numCompletedTasks for one in stages), sum(one.numTasks for one in stages)
    return f"{done} of {all_} tasks" if all_ else None


def _tracker(spark: "SparkSession") -> Any:
    try:
        return spark.sparkContext.statusTracker()
    except Exception:  # a session without a context of its own; it shows its progress itself
        return None
