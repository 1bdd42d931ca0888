"""The tier: what shipping costs producers, how fast history is read, how small it is, how soon a broker is open.

produce      at peak for a while, with shipping to a directory and without; then the backlog drains
sustained    at the rate that shipping sustains, for minutes: the journal stays bounded
read         history through the broker, as Arrow, beside pyarrow that reads the same files alone
at rest      bytes of objects beside the bytes of the JSON that was sent
open         a broker with many objects in its store: with its journal, and on an empty disk
"""

import itertools
import json
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import perf_counter

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from cordwood import Client, Producer
from cordwood.bench.ours import IN_FLIGHT
from cordwood.bench.result import Result, alone, at_least, at_most, compared
from cordwood.bench.served import Served
from cordwood.broker import ops, snapshot
from cordwood.broker.shipping import stored
from cordwood.broker.state import State
from cordwood.broker.terms import TopicTerms
from cordwood.machine.objects.directory import open_directory
from cordwood.record import TIME, assemble
from cordwood.tier import state as states
from cordwood.tier.catalogue import ListedCatalogue
from cordwood.tier.rows import Rows
from cordwood.tier.ship import Freight, ship

Tell = Callable[[str], None]

TOPIC = "events"
ROWS = 10_000  # of one table
TABLES = 60  # other ones; an object has as many
OBJECT_BYTES = 64 << 20
MB = 1e6


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure."""

    peak_s: float = 60.0
    without_s: float = 20.0
    sustained_s: float = 300.0
    drain_s: float = 600.0
    objects: int = 10_000
    reads: int = 3


QUICK = Effort(peak_s=8.0, without_s=5.0, sustained_s=15.0, drain_s=120.0, objects=1_000, reads=1)


def measure(scratch: Path, effort: Effort, tell: Tell) -> Iterator[Result]:
    """Yield the results of all parts."""
    events = make_events(TABLES)
    yield from _produce(scratch, events, effort, tell)
    yield from _open(scratch, effort.objects, tell)


def make_events(count: int) -> list[pa.Table]:
    """Return tables of JSON events such as shops have, about 250 bytes each, no two alike."""
    random = Random(1)
    pages = [f"/shop/{random.choice(('shoes', 'hats', 'coats'))}/{number}" for number in range(400)]
    found = []
    for table in range(count):
        values, keys = [], []
        for row in range(ROWS):
            user = int(random.paretovariate(1.2)) % 50_000
            event = {
                "id": f"{random.getrandbits(128):032x}",
                "user": user,
                "time": f"2026-11-01T{row // 420:02}:{random.randrange(60):02}:{row % 60:02}.{row % 1000:03}Z",
                "type": random.choice(("view", "view", "view", "cart", "order")),
                "page": random.choice(pages),
                "amount": round(random.expovariate(0.02), 2),
                "agent": random.choice(("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (iPhone)", "curl/8")),
            }
            values.append(json.dumps(event, separators=(",", ":")).encode())
            keys.append(f"user:{user}".encode())
        times = np.arange(table * ROWS, (table + 1) * ROWS, dtype=np.int64) + 1_790_000_000_000_000
        found.append(pa.table({"timestamp": pa.array(times, TIME), "key": keys, "value": values}))
    return found


def _produce(scratch: Path, events: list[pa.Table], effort: Effort, tell: Tell) -> Iterator[Result]:
    size = sum(table["value"].nbytes for table in events) / len(events) / ROWS
    directory = _folder(scratch, "without")
    with Served(directory, "--tier", "none") as service:
        service.create_topic(TOPIC)
        without, _ = _send(service, events, effort.without_s)
    shutil.rmtree(directory)
    tell(f"without a tier {without:,.0f}/s, {without * size / MB:.0f} MB/s of JSON")
    directory = _folder(scratch, "with")
    service = Served(directory)
    try:
        service.create_topic(TOPIC)
        with_tier, sent = _send(service, events, effort.peak_s)
        behind = _gauge(service, "cordwood_tier_backlog_bytes")
        shipped = sent - behind / (_gauge(service, "cordwood_bytes_produced_total") / sent)
        tell(f"with it {with_tier:,.0f}/s; {behind / MB:.0f} MB are not yet shipped")
        began = perf_counter()
        while (left := _gauge(service, "cordwood_tier_backlog_bytes")) >= OBJECT_BYTES:  # less waits for its minute
            assert perf_counter() < began + effort.drain_s, "the backlog drains"
            time.sleep(0.2)
        drained = perf_counter() - began
        yield compared(
            "produce while shipping",
            "msgs/s",
            [(with_tier, without)],
            at_least(0.5),
            f"{effort.peak_s:g} s at peak, events of {size:.0f} bytes; the backlog of {behind / MB:.0f} MB drained"
            f" in {drained:.0f} s, but for {left / MB:.0f} MB",
            against="no tier",
        )
        sustained = 0.8 * shipped / effort.peak_s
        yield from _sustained(service, events, sustained, effort.sustained_s, tell)
        yield from _at_rest(service, size)
        yield from _read(service, directory, effort, tell)
    finally:
        service.stop()
        shutil.rmtree(directory)


def _send(service: Served, events: list[pa.Table], seconds: float, rate: float = 0.0) -> tuple[float, int]:
    """Send tables round and round, at a rate if one is given; return messages a second, and how many there were."""
    count = 0
    waiting: deque = deque()
    with Producer(service.endpoint, TOPIC) as producer:
        began = perf_counter()
        for table in itertools.cycle(events):
            waiting.append(producer.send_table(table))
            count += ROWS
            if len(waiting) >= IN_FLIGHT:
                waiting.popleft().result()
            now = perf_counter() - began
            if rate and now < count / rate:
                time.sleep(count / rate - now)
            if now > seconds:
                break
        for future in waiting:
            future.result()
        return count / (perf_counter() - began), count


def _sustained(service: Served, events: list[pa.Table], rate: float, seconds: float, tell: Tell) -> Iterator[Result]:
    """Yield the journal's size while messages come as fast as they are shipped."""
    sizes = []
    step = seconds / 10
    for _ in range(10):
        _send(service, events, step, rate)
        sizes.append(_gauge(service, "cordwood_journal_bytes") / MB)
    tell(
        f"sustained {rate:,.0f}/s for {seconds:g} s: the journal has {', '.join(f'{size:.0f}' for size in sizes)} MB"
    )
    yield alone(
        "sustained: growth of the journal",
        "times",
        [float(np.mean(sizes[5:]) / np.mean(sizes[:5]))],
        at_most(1.5),
        f"its mean size in the second half of {seconds:g} s beside that in the first, at {rate:,.0f} msgs/s;"
        f" {max(sizes):.0f} MB at most",
    )


def _at_rest(service: Served, size: float) -> Iterator[Result]:
    found = json.loads(service.ask("GET", f"/v1/topics/{TOPIC}"))["partitions"][0]
    messages = found["tiered_offset"]
    yield alone(
        "bytes at rest",
        "of the JSON",
        [found["object_bytes"] / (messages * size)],
        at_most(0.35),
        f"{found['objects']} objects, {messages:,} events; keys and timestamps are in them, too",
    )


def _read(service: Served, directory: Path, effort: Effort, tell: Tell) -> Iterator[Result]:
    """Yield how fast the newest objects are read through the broker, beside pyarrow alone."""
    spans = json.loads(service.ask("GET", f"/v1/spans?topic={TOPIC}"))["spans"]
    objects = [span for span in spans if span["source"] == "object"][-16:]
    first, end = objects[0]["start"], objects[-1]["end"]
    files = [directory / "data" / "tier" / span["object"] for span in objects]
    rounds = []
    for number in range(effort.reads):
        began = perf_counter()
        rows = sum(parquet.read_table(file, partitioning=None).num_rows for file in files)
        theirs = rows / (perf_counter() - began)
        began = perf_counter()
        with Client(service.endpoint) as client:
            rows = sum(
                batch.num_rows for batch in client.read_batches(TOPIC, partition=0, offset=first, limit=end - first)
            )
        assert rows == end - first, "every message was read"
        rounds.append((rows / (perf_counter() - began), theirs))
        tell(f"read, round {number + 1}: {rounds[-1][0]:,.0f}/s, pyarrow {theirs:,.0f}/s")
    yield compared(
        "read history",
        "msgs/s",
        rounds,
        at_least(0.5),
        f"{end - first:,} events of {len(files)} objects, as Arrow through the broker; read_table on the files",
        against="pyarrow",
    )


def _open(scratch: Path, count: int, tell: Tell) -> Iterator[Result]:
    """Yield how long a broker takes to open with many objects in its store."""
    directory = _folder(scratch, "many")
    tell(f"making {count:,} objects")
    make_store(directory / "data" / "tier", count)
    for name in ("on an empty disk", "with its journal"):
        began = perf_counter()
        with Served(directory) as service:
            seconds = perf_counter() - began
            found = json.loads(service.ask("GET", "/v1/topics/many"))["partitions"][0]
            assert (found["objects"], found["tiered_offset"]) == (count, count), "every object is known"
        yield alone(f"open with {count:,} objects, {name}", "s", [seconds], at_most(3.0), "until it listens")
    shutil.rmtree(directory)


def make_store(path: Path, count: int) -> None:
    """Make a store with so many objects of one message each, and the snapshot that names them."""
    path.parent.mkdir(parents=True)
    objects = open_directory(path)
    state = State()
    state.apply(0, [ops.TopicMade("many", "00000000000000aa", 1, TopicTerms(), 0)])
    batch = assemble({"timestamp": pa.array([1], TIME), "value": pa.array([b"x" * 100], pa.binary())})
    catalogue = ListedCatalogue(objects)
    for number in range(count):
        freight = Freight("many", "00000000000000aa", 0, number, number + 1, 0)
        shipped = ship(objects, catalogue, freight, [Rows.dense(number, batch)])
        piece = ops.Piece(0, number, 1, 0, 100, 1)
        state.apply(2 * number + 1, [ops.Appended("many", 0, [piece], 0)])
        state.apply(2 * number + 2, [stored(shipped)])
    states.put(objects, states.Mark(0, 2 * count + 1, False), states.encode(snapshot.capture(state).parts))
    states.identity(objects, "bench")


def _gauge(service: Served, name: str) -> float:
    """Return a metric, summed over its labels."""
    lines = service.ask("GET", "/metrics").decode().splitlines()
    found = [line.rsplit(" ", 1)[1] for line in lines if line.startswith((f"{name} ", f"{name}{{"))]
    return sum(map(float, found))


def _folder(scratch: Path, name: str) -> Path:
    path = scratch / name
    path.mkdir()
    return path
