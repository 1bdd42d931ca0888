"""The options of `format("cordwood")`: the names, defaults and meanings of Spark's Kafka source, as frozen values.

    which topics    subscribe | subscribePattern | assign                                exactly one
    from            startingTimestamp, else startingOffsetsByTimestamp, else startingOffsets
    up to           endingTimestamp, else endingOffsetsByTimestamp, else endingOffsets   batch only

Spark gives names in lower case, so that is how they are compared. An option that is unknown or impossible is refused
here, before anybody is asked.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from cordwood.client.endpoint import authority, default_ca, default_token
from cordwood.errors import Refused
from cordwood.spark.columns import COLUMNS, DEFAULT_COLUMNS
from cordwood.spark.known import ARCHIVE_OPTIONS, READ_OPTIONS, WRITE_OPTIONS, Option

EARLIEST, LATEST = -2, -1  # as Spark writes them in JSON

SPARKS_OWN = frozenset(("checkpointlocation", "queryname", "outputmode"))  # a streaming query's, which come along

_WORDS = {"earliest": EARLIEST, "latest": LATEST}
_HINTS = {"kafka.bootstrap.servers": "endpoint", "topic": "subscribe", "topics": "subscribe", "path": "subscribe"}

PerPartition = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of what is read; one of the four is given.

    `everywhere` is EARLIEST or LATEST. `offsets` has a number for each partition, EARLIEST and LATEST among them.
    """

    everywhere: int | None = None
    offsets: PerPartition | None = None
    time_ms: int | None = None
    times_ms: PerPartition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What to read, and how. `start` and `end` are None where the default counts, which is not the same for both."""

    endpoint: str
    token: str | None = field(default=None, repr=False)
    ca: str | None = field(default=None, repr=False)
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None
    start: Bound | None = None
    end: Bound | None = None
    late_start: str = "error"  # what a starting time behind the last message means: "error" or "latest"
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    reader_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions:
    """Which archives of outboxes to read; there is no broker to ask."""

    path: str
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    fail_on_data_loss: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Where to write. `writer_id` is the name that a streaming query publishes under, if not Spark's own id of it."""

    endpoint: str
    token: str | None = field(default=None, repr=False)
    ca: str | None = field(default=None, repr=False)
    topic: str | None = None
    writer_id: str | None = None


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Return what the options of a reader mean, or refuse the first that means nothing."""
    found = _Given(given, READ_OPTIONS)
    topics, pattern, assigned = _topics(found)
    start = _bound(found, "starting", LATEST)
    end = _bound(found, "ending", EARLIEST)
    return ReadOptions(
        endpoint=_endpoint(found),
        token=_token(found),
        ca=_ca(found),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        start=start,
        end=end,
        late_start=found.among("startingOffsetsByTimestampStrategy", ("error", "latest")),
        max_offsets_per_trigger=found.number("maxOffsetsPerTrigger"),
        max_bytes_per_trigger=found.number("maxBytesPerTrigger"),
        min_partitions=found.number("minPartitions"),
        max_records_per_partition=found.number("maxRecordsPerPartition"),
        fail_on_data_loss=found.truth("failOnDataLoss", default=True),
        columns=_columns(found),
        reader_id=found.text("readerId"),
    )


def archive_options(given: Mapping[str, str]) -> ArchiveOptions | None:
    """Return what the options mean where archives are to be read, None where a broker is."""
    if "archive" not in {name.lower() for name in given}:
        return None
    known = {name.lower() for name in ARCHIVE_OPTIONS}
    for name in given:
        if name.lower() in {one.lower() for one in READ_OPTIONS} - known:
            others = ", ".join(name for name in ARCHIVE_OPTIONS if name != "archive")
            raise Refused(f"{name} means nothing where archives are read; beside archive there are {others}")
    found = _Given(given, READ_OPTIONS)
    path = found.text("archive")
    assert path is not None
    return ArchiveOptions(
        path=path, columns=_columns(found), fail_on_data_loss=found.truth("failOnDataLoss", default=True)
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Return what the options of a writer mean, or refuse the first that means nothing."""
    found = _Given(given, WRITE_OPTIONS)
    return WriteOptions(
        endpoint=_endpoint(found),
        token=_token(found),
        ca=_ca(found),
        topic=found.text("topic"),
        writer_id=found.text("writerId"),
    )


def check_batch(options: ReadOptions) -> None:
    """Refuse what only a streaming query can do."""
    if options.reader_id is not None:
        raise Refused("readerId names a streaming query's reader; a batch query has none")
    latest = options.start is not None and (
        options.start.everywhere == LATEST or _has(options.start.offsets, lambda offset: offset == LATEST)
    )
    if latest:
        raise Refused("startingOffsets: a batch query cannot start at the latest offset; it would read nothing")


def check_stream(options: ReadOptions) -> None:
    """Refuse what only a batch query can do."""
    if options.end is not None:
        raise Refused("endingOffsets and endingTimestamp are for batch queries; a stream has no end")


class _Given:
    """The options as they were given, each asked for by the name that is documented."""

    def __init__(self, given: Mapping[str, str], known: Mapping[str, Option]):
        self._values = {name.lower(): value for name, value in given.items()}
        names = {name.lower() for name in known}
        for name in self._values:
            if name not in names and name not in SPARKS_OWN:
                raise Refused(f"unknown option {name!r}{_suggest(name, known)}. Known are: {', '.join(known)}")

    def text(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        if value is not None and not value.strip():
            raise Refused(f"{name} is empty")
        return value

    def number(self, name: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch(r"[0-9]{1,18}", value.strip()) or not int(value):
            raise Refused(f"{name} is a whole number above 0, not {value!r}")
        return int(value)

    def time(self, name: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch(r"[0-9]{1,18}", value.strip()):
            raise Refused(f"{name} is a time in milliseconds since 1970, not {value!r}")
        return int(value)

    def truth(self, name: str, *, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise Refused(f"{name} is true or false, not {value!r}")
        return value.lower() == "true"

    def among(self, name: str, words: tuple[str, ...]) -> str:
        value = (self.text(name) or words[0]).lower()
        if value not in words:
            raise Refused(f"{name} is {' or '.join(words)}, not {value!r}")
        return value

    def per_partition(self, name: str, what: str) -> PerPartition | None:
        value = self.text(name)
        return None if value is None else _per_partition(name, value, what)


def _suggest(name: str, known: Mapping[str, Option]) -> str:
    """Return what was perhaps meant."""
    lower = {one.lower(): one for one in known}
    hint = _HINTS.get(name) or lower.get(next(iter(get_close_matches(name, lower, n=1)), ""))
    return f" (did you mean {hint!r}?)" if hint in known else ""


def _endpoint(found: _Given) -> str:
    endpoint = found.text("endpoint") or os.environ.get("CORDWOOD_ENDPOINT")
    if not endpoint:
        raise Refused("the option 'endpoint' is missing; it is the broker's address, such as http://127.0.0.1:7878")
    return endpoint


def _token(found: _Given) -> str | None:
    """Return the token; that of the environment is the driver's, and travels with the options to the executors."""
    return found.text("token") or default_token()


def _ca(found: _Given) -> str | None:
    """Return who signs the broker's certificate, as text: the driver's file is not on the executors."""
    ca = found.text("ca") or default_ca()
    return None if ca is None or not _endpoint(found).startswith("https:") else authority(ca)


def _topics(found: _Given) -> tuple[tuple[str, ...], str | None, Mapping[str, tuple[int, ...]] | None]:
    chosen = [name for name in ("subscribe", "subscribePattern", "assign") if found.text(name) is not None]
    if len(chosen) != 1:
        said = f"not {' and '.join(chosen)}" if chosen else "none is given"
        raise Refused(f"one of subscribe, subscribePattern and assign says which topics to read; {said}")
    text = found.text(chosen[0])
    assert text is not None
    if chosen[0] == "subscribe":
        topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not topics:
            raise Refused(f"subscribe is a list of topics with commas, not {text!r}")
        return topics, None, None
    if chosen[0] == "subscribePattern":
        try:
            re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise Refused(f"subscribePattern {text!r} is no regular expression: {error}") from None
        return (), text, None
    assigned = _assigned(text)
    return tuple(assigned), None, assigned


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    wanted = Refused(f'assign is JSON such as {{"clicks":[0,1]}}, not {text!r}')
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise wanted from None
    if not isinstance(given, dict) or not given:
        raise wanted
    for numbers in given.values():
        if not isinstance(numbers, list) or not numbers or not all(type(n) is int and n >= 0 for n in numbers):
            raise wanted
    return {topic: tuple(sorted(set(numbers))) for topic, numbers in given.items()}


def _bound(found: _Given, which: str, senseless: int) -> Bound | None:
    """Return one end of what is read. `senseless` is the word that this end cannot be."""
    time_ms = found.time(f"{which}Timestamp")
    if time_ms is not None:
        return Bound(time_ms=time_ms)
    times_ms = found.per_partition(f"{which}OffsetsByTimestamp", "a time in milliseconds")
    if times_ms is not None:
        if _has(times_ms, lambda time: time < 0):
            raise Refused(f"{which}OffsetsByTimestamp has a time below 0")
        return Bound(times_ms=times_ms)
    name = f"{which}Offsets"
    text = found.text(name)
    if text is None:
        return None
    word = _WORDS.get(text.strip().lower())
    if word is not None:
        if senseless == EARLIEST and word == EARLIEST:
            raise Refused(f"{name} is latest or offsets for each partition; up to earliest there is nothing")
        return Bound(everywhere=word)
    offsets = found.per_partition(name, "an offset")
    assert offsets is not None
    if senseless == EARLIEST and _has(offsets, lambda offset: offset == EARLIEST):
        raise Refused(f"{name}: -2 (earliest) is no end; up to there is nothing")
    if _has(offsets, lambda offset: offset < EARLIEST):
        raise Refused(f"{name} has an offset below 0; only -2 (earliest) and -1 (latest) have a meaning")
    return Bound(offsets=offsets)


def _per_partition(name: str, text: str, what: str) -> PerPartition:
    words = "earliest, latest or " if what == "an offset" else ""
    wanted = Refused(f'{name} is {words}{what} for each partition, as JSON: {{"clicks":{{"0":23}}}}; not {text!r}')
    try:
        given: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise wanted from None
    if not isinstance(given, dict):
        raise wanted
    found: dict[str, dict[int, int]] = {}
    for topic, partitions in given.items():
        if not isinstance(partitions, dict):
            raise wanted
        # An offset as a streaming query writes it down has the topic's id beside the partitions.
        numbers = {number: value for number, value in partitions.items() if number != "id"}
        if not all(re.fullmatch(r"[0-9]{1,9}", n) and type(value) is int for n, value in numbers.items()):
            raise wanted
        found[topic] = {int(number): value for number, value in numbers.items()}
    return found


def _columns(found: _Given) -> tuple[str, ...]:
    headers = found.truth("includeHeaders", default=False)
    text = found.text("columns")
    if text is None:
        return (*DEFAULT_COLUMNS, "headers") if headers else DEFAULT_COLUMNS
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in COLUMNS:
            raise Refused(f"columns: there is no column {name!r}. Known are: {', '.join(COLUMNS)}")
    if len(set(names)) != len(names):
        raise Refused(f"columns: one comes twice in {text!r}")
    return names


def _has(given: PerPartition | None, fact: Any) -> bool:
    return given is not None and any(fact(value) for numbers in given.values() for value in numbers.values())
