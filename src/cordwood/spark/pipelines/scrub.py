"""Every checksum and every offset of the history, looked at by the cluster.

    an object    its bytes against the checksum in its name, its row groups against theirs, its pages against
                 theirs; its offsets against its name; its keys against its partition       an executor
    a topic      its objects follow each other, from the start to where the journal goes on   the driver

A key in another partition than its own is no damage: a producer may choose. It is counted, since it may be a mistake.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from cordwood import partition as partitions
from cordwood.client.client import Client
from cordwood.errors import CordwoodError, Damaged, NotFound, Refused
from cordwood.machine.objects.opening import open_objects
from cordwood.spark.store import store_of
from cordwood.tier import contents, reading
from cordwood.tier.descriptor import parse
from cordwood.tier.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PER_TASK = 8  # objects; some are larger than others
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong: an object that is damaged or missing, or offsets that nothing holds."""

    topic: str
    partition: int
    first: int
    end: int
    object: str | None
    reason: str


@dataclass(slots=True)
class Scrubbed:
    """What was looked at, and what was found."""

    objects: int = 0
    bytes: int = 0
    messages: int = 0
    keys_elsewhere: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {**asdict(self), "clean": self.clean}


def scrub(
    spark: "SparkSession",
    endpoint: str,
    topics: Sequence[str] | None = None,
    *,
    token: str | None = None,
    ca: str | None = None,
    tell: Tell = lambda line: None,
) -> Scrubbed:
    """Look at all objects of some topics, or of all; return what was found."""
    found = Scrubbed()
    with Client(endpoint, token=token, ca=ca) as client:
        store = store_of(client.config())
        if store is None:
            raise Refused("the broker does not say where its history is, so it cannot be looked at from here")
        names = sorted(topics if topics is not None else [line["name"] for line in client.topics()])
        jobs: list[tuple[str, int, int]] = []  # object, its bytes, partitions of its topic
        for name in names:
            spans = client.spans(name)
            count = len(client.topic(name)["partitions"])
            found.findings += gaps(name, spans)
            jobs += [(s["object"], s["object_bytes"], count) for s in spans if s["source"] == "object"]
    tell(f"{len(names)} topics, {len(jobs)} objects")
    if jobs:
        tasks = max(1, min(len(jobs), len(jobs) // PER_TASK + spark.sparkContext.defaultParallelism))
        looked = spark.sparkContext.parallelize(jobs, tasks).map(lambda job: look(store, *job))
        for number, (messages, size, elsewhere, findings) in enumerate(looked.toLocalIterator(True), 1):
            found.objects += 1
            found.messages += messages
            found.bytes += size
            found.keys_elsewhere += elsewhere
            found.findings += findings
            for finding in findings:
                tell(f"damaged: {finding.object}: {finding.reason}")
            if number % 100 == 0:
                tell(f"{number} of {len(jobs)} objects")
    return found


def gaps(topic: str, spans: Iterable[dict[str, Any]]) -> list[Finding]:
    """Return the offsets between the first and the last of each partition that are nowhere; holes are known."""
    found = []
    at: dict[int, int] = {}
    for span in sorted(spans, key=lambda one: (one["partition"], one["start"])):
        number = span["partition"]
        if number in at and span["start"] != at[number]:
            first, end = sorted((at[number], span["start"]))
            reason = "no object and no journal holds these" if span["start"] > at[number] else "these are there twice"
            found.append(Finding(topic, number, first, end, None, reason))
        if span["source"] == "hole":
            reason = "lost with a journal before they were in the tier"
            found.append(Finding(topic, number, span["start"], span["end"], None, reason))
        at[number] = span["end"]
    return found


def look(store: str, name: str, size: int, count: int) -> tuple[int, int, int, list[Finding]]:
    """Return messages, bytes, keys in another partition than their own, and what is wrong with one object."""
    objects = open_objects(store)
    found = parse(name)
    assert found is not None, "the broker names objects"

    def wrong(reason: object) -> tuple[int, int, int, list[Finding]]:
        return 0, size, 0, [Finding(found.topic, found.partition, found.first, found.end, name, str(reason))]

    try:
        damage = verify(objects, found)
        if damage is not None:
            return wrong(damage)
        messages = elsewhere = 0
        following = found.first
        for offsets, batch in reading.read(objects, found, contents.fetch(objects, found), found.first, found.end):
            if offsets[0] != following or bool((np.diff(offsets) != 1).any()):
                return wrong(f"offsets are missing behind {following}")
            following = int(offsets[-1]) + 1
            messages += len(offsets)
            if "key" in batch.schema.names and count > 1:
                owners = partitions.of_keys(batch.column("key"), count)
                elsewhere += int(((owners != partitions.NONE) & (owners != found.partition)).sum())
        if following != found.end or messages != found.count:
            return wrong(
                f"it has {messages} messages up to {following}, its name says {found.count} up to {found.end}"
            )
        return messages, size, elsewhere, []
    except (Damaged, NotFound) as error:
        return wrong(error)
    except CordwoodError as error:
        return wrong(f"it could not be read: {error}")


def page(found: Scrubbed) -> str:
    """Return what was found as a page of HTML that needs nothing else."""
    rows = "".join(
        f"<tr><td>{escape(one.topic)}<td>{one.partition}<td>{one.first}<td>{one.end - 1}"
        f"<td>{escape(one.object or '')}<td>{escape(one.reason)}"
        for one in found.findings
    )
    verdict = "Nothing is wrong." if found.clean else f"{len(found.findings)} findings."
    table = (
        f"<table><tr><th>topic<th>partition<th>first<th>last<th>object<th>what is wrong{rows}</table>" if rows else ""
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Scrub</title><style>body{font:16px system-ui;"
        "margin:2rem;color-scheme:light dark}td,th{padding:.2rem .6rem;text-align:left;border-bottom:1px solid #8886}"
        f"</style><h1>{verdict}</h1><p>{found.objects:,} objects, {found.bytes:,} bytes, {found.messages:,} messages;"
        f" {found.keys_elsewhere:,} keys in another partition than their own.</p>{table}</html>\n"
    )
