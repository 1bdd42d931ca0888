"""Many small objects into few large ones, while readers read and the broker writes.

    runs       neighbours of one partition, small enough together          the driver
    a run      read, written as one object, put, verified                  an executor
    replace    the broker swaps them in one entry of its journal           the driver

Only `replace` changes what counts. An object that was put and not swapped in, because retention or another compaction
came first, is deleted again. But "no" may also answer the second saying of a `replace` that took effect: so what the
broker reads from, or may have read from until a later compaction, is never deleted here.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from awscrt.checksums import crc64nvme

from cordwood.client.client import Client
from cordwood.errors import Conflict, Refused, Unavailable
from cordwood.machine.objects.opening import open_objects
from cordwood.spark.store import store_of
from cordwood.tier import contents, parquet, reading
from cordwood.tier.descriptor import Descriptor, parse
from cordwood.tier.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET_BYTES = 256 << 20  # of keys, values and headers: what one task has in memory, some times over
Tell = Callable[[str], None]


class Small(NamedTuple):
    """An object, and the bytes of the messages in it."""

    descriptor: Descriptor
    bytes: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """What was done: objects before and after, and runs that somebody else had changed meanwhile."""

    topic: str
    objects_before: int
    objects_after: int
    messages: int
    runs: int
    passed_over: int

    def as_dict(self) -> dict[str, object]:
        """Return it for JSON."""
        return asdict(self)


def compact(
    spark: "SparkSession",
    endpoint: str,
    topic: str,
    *,
    target_bytes: int = TARGET_BYTES,
    token: str | None = None,
    ca: str | None = None,
    tell: Tell = lambda line: None,
) -> Compacted:
    """Replace runs of small objects of a topic by large ones; return what was done."""
    with Client(endpoint, token=token, ca=ca) as client:
        store = store_of(client.config())
        if store is None:
            raise Refused("the broker does not say where its history is, so it cannot be compacted from here")
        spans = client.spans(topic)
        found = runs(_objects(spans), target_bytes)
        before = len({span["object"] for span in spans if span["source"] == "object"})
        tell(f"{before} objects, {len(found)} runs to join")
        passed_over = joined = messages = 0
        if found:
            jobs = [[one.descriptor.name for one in run] for run in found]
            made = spark.sparkContext.parallelize(jobs, len(jobs)).map(lambda names: (names, join(store, names)))
            for names, name in made.toLocalIterator(prefetchPartitions=True):
                new = parse(name)
                assert new is not None, "it was made here"
                try:
                    client.replace(topic, new.partition, names, name)
                except Conflict as error:
                    now = _there(client.spans(topic, new.first, new.end), new)
                    if name not in {one.name for one in now}:
                        passed_over += 1
                        tell(f"partition {new.partition}, {new.first} to {new.end - 1}: {error}")
                        if not counted(new, now):
                            open_objects(store).delete([name])
                        continue
                joined += len(names) - 1
                messages += new.count
                tell(f"partition {new.partition}: {len(names)} objects became one, {new.count} messages")
        return Compacted(topic, before, before - joined, messages, len(found), passed_over)


def runs(objects: Iterable[Small], target_bytes: int) -> list[list[Small]]:
    """Return which neighbours are to be joined, in the order of partitions and offsets.

    A run has two objects at least, none of them larger than half of the target, and no more bytes than it.
    """
    found: list[list[Small]] = []
    run: list[Small] = []
    for one in sorted(objects, key=lambda small: (small.descriptor.partition, small.descriptor.first)):
        here = one.descriptor
        follows = run and (run[-1].descriptor.partition, run[-1].descriptor.end) == (here.partition, here.first)
        if (
            not follows
            or sum(small.bytes for small in run) + one.bytes > target_bytes
            or 2 * one.bytes > target_bytes
        ):
            found.append(run)
            run = []
        if 2 * one.bytes <= target_bytes:
            run.append(one)
    return [run for run in (*found, run) if len(run) > 1]


def join(store: str, names: Sequence[str]) -> str:
    """Put one object with the messages of these, in order, and return its name. Runs where the messages are read."""
    objects = open_objects(store)
    old = [found for name in names if (found := parse(name)) is not None]
    assert len(old) == len(names), "these are names of objects"
    rows = chain.from_iterable(
        reading.read(objects, one, contents.fetch(objects, one), one.first, one.end) for one in old
    )
    data = parquet.write(rows)
    first, last = old[0], old[-1]
    new = Descriptor(
        first.topic,
        first.topic_id,
        first.partition,
        first.first,
        last.end,
        max(one.epoch for one in old),
        1 + max(one.generation for one in old),
        sum(one.count for one in old),
        crc64nvme(data),
    )
    objects.put(new.name, data)
    damage = verify(objects, new)
    if damage is not None:
        objects.delete([new.name])
        raise Unavailable(f"what was put did not come back: {damage}")
    return new.name


def counted(new: Descriptor, now: Iterable[Descriptor]) -> bool:
    """Say whether an object may have been swapped in, by what is there now: itself, or what came after it.

    Readers may still be in one that was replaced; the broker deletes it when they are done.
    """
    return any(one.generation >= new.generation for one in now)


def _there(spans: Iterable[dict[str, object]], new: Descriptor) -> list[Descriptor]:
    """Return the objects that hold messages of a new one's partition."""
    found = (parse(str(span["object"])) for span in spans if span["source"] == "object")
    return [one for one in found if one is not None and one.partition == new.partition]


def _objects(spans: Iterable[dict[str, object]]) -> list[Small]:
    """Return the objects that are read from as a whole."""
    found = []
    for span in spans:
        descriptor = parse(str(span.get("object"))) if span["source"] == "object" else None
        if descriptor is not None and (descriptor.first, descriptor.end) == (span["start"], span["end"]):
            found.append(Small(descriptor, int(str(span["bytes"]))))
    return found
