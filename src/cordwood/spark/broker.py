"""What a query asks of the broker."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from socket import gethostname
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

from cordwood.client.caller import Caller
from cordwood.client.client import Client
from cordwood.client.endpoint import endpoint as parse
from cordwood.errors import NotFound, Refused, Unavailable
from cordwood.spark.extent import Extent, Key, Range
from cordwood.spark.options import ReadOptions
from cordwood.spark.plan import Held, by_topic

TIMEOUT_S = 30.0
# How often a call is tried while the broker is away. A query that begins says so after some seconds; one that runs,
# and would have to be started again by a person, waits half a minute for a restart.
FIRST_TRIES, TRIES = 6, 40
FEW_PARTITIONS = 32  # up to here each is asked for its own spans, so that one far behind does not list all of another
START_HEADER = b"cordwood-start-offset"
SHOWN_STARTS = 100  # partitions for which one answer has the header


@contextmanager
def reaching(endpoint: str) -> Iterator[None]:
    """Say which broker it was that could not be reached, and from where: on a cluster nobody knows else."""
    try:
        yield
    except Unavailable as error:
        raise Unavailable(f"{endpoint}, from {gethostname()}: {error}") from error


class Broker:
    """Asks a broker what it has; not to be sent to another process."""

    def __init__(self, endpoint: str, token: str | None, tries: int = TRIES, *, ca: str | None = None):
        self.client = Client(endpoint, token=token, ca=ca, timeout=TIMEOUT_S, tries=tries)
        self._caller = Caller(parse(endpoint, token, ca=ca), TIMEOUT_S, tries)

    def extents(self, options: ReadOptions) -> list[Extent]:
        """Return what there is of every partition that the options choose, in order. Raises NotFound.

        A pattern chooses those topics that are there now.
        """
        names: Iterable[str] = options.topics
        if options.pattern is not None:
            pattern = re.compile(options.pattern)
            names = [line["name"] for line in self.client.topics() if pattern.fullmatch(line["name"])]
        return [extent for name in sorted(names) for extent in self._chosen(name, options)]

    def known(self, topics: Iterable[str]) -> list[Extent]:
        """Return what there is of these topics, and nothing for those that are gone."""
        found: list[Extent] = []
        for name in sorted(topics):
            try:
                found += self.topic(name)
            except NotFound:
                continue
        return found

    def topic(self, name: str) -> list[Extent]:
        """Return what there is of each partition of a topic. Raises NotFound."""
        info = self.client.topic(name)
        return [
            Extent(
                name,
                info["id"],
                one["partition"],
                one["start_offset"],
                one["end_offset"],
                tuple((first, end) for first, end in sorted(one.get("holes", ()))),
            )
            for one in info["partitions"]
        ]

    def held(self, ranges: Iterable[Range]) -> dict[Key, list[Held]]:
        """Return where the messages of these ranges are."""
        topics: dict[str, list[Range]] = {}
        for one in ranges:
            topics.setdefault(one.topic, []).append(one)
        return by_topic({topic: list(self._held(topic, wanted)) for topic, wanted in topics.items()})

    def since(self, times_ms: Mapping[Key, int]) -> dict[Key, int]:
        """Return the first offset of each partition at or after a time, its end where there is none."""
        found: dict[Key, int] = {}
        asked: dict[tuple[str, int], list[int]] = {}
        for (topic, partition), time_ms in times_ms.items():
            asked.setdefault((topic, time_ms), []).append(partition)
        for (topic, time_ms), partitions in asked.items():
            for partition, offset in self._since(topic, time_ms, partitions):
                found[topic, partition] = offset
        return found

    def config(self) -> dict[str, Any]:
        """Return the settings in force."""
        return self.client.config()

    def close(self) -> None:
        """Close the connections; they are opened again when need be."""
        self.client.close()
        self._caller.close()

    def __enter__(self) -> "Broker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _chosen(self, name: str, options: ReadOptions) -> list[Extent]:
        found = self.topic(name)
        if options.assigned is None:
            return found
        numbers = options.assigned[name]
        if numbers[-1] >= len(found):
            raise Refused(f"assign: {name!r} has partitions 0 to {len(found) - 1}, not {numbers[-1]}")
        return [found[number] for number in numbers]

    def _held(self, topic: str, ranges: list[Range]) -> Iterator[Held]:
        partitions = sorted({one.partition for one in ranges})
        for partition in partitions if len(partitions) <= FEW_PARTITIONS else [None]:
            mine = [one for one in ranges if partition in (None, one.partition)]
            asked: dict[str, Any] = {
                "topic": topic,
                "from": min(one.start for one in mine),
                "to": max(one.end for one in mine),
            }
            if partition is not None:
                asked["partition"] = partition
            spans = self._get(f"/v1/spans?{urlencode(asked)}").json()["spans"]
            for span in spans:
                if span["source"] != "hole":
                    where = (span.get("object"), span.get("object_bytes", 0))
                    yield Held(span["partition"], span["start"], span["end"], span["bytes"], *where)

    def _since(self, topic: str, time_ms: int, partitions: list[int]) -> Iterator[tuple[int, int]]:
        asked: dict[str, Any] = {"topic": topic, "timestamp": time_ms, "limit": 0}
        if len(partitions) > 1:
            starts = self._starts(asked)
            if starts:
                yield from ((partition, starts[partition]) for partition in partitions)
                return
        for partition in partitions:
            yield partition, self._starts({**asked, "partition": partition})[0]

    def _starts(self, asked: dict[str, Any]) -> list[int]:
        """Return where a read of nothing would begin in each partition; none where a header has no room for them."""
        said = self._get(f"/v1/read?{urlencode(asked)}").headers.get(START_HEADER, b"").decode()
        return [int(number) for number in said.split(", ")] if said else []

    def _get(self, target: str) -> Any:
        return self._caller.call("GET", target).checked()
