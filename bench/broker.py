"""The broker beside its peers, beside the disk, and beside what a Python loop can do.

Each figure is a ratio within one run. Peers and ours take turns; who is not installed is named and left out. Without
a broker that starts, the peers are measured alone.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.callers import Thread
from bench.growth import measure_disorder, measure_partitions
from bench.idle import measure_idle
from bench.still import open_still
from cordwood.bench import raw, singles
from cordwood.bench.contest import (
    BATCHES,
    CALLERS,
    LARGE,
    LOOP,
    SINGLES,
    SMALL,
    TAKE_BATCHES,
    TAKE_EACH,
    Loads,
    batches_name,
    make_loads,
    races,
)
from cordwood.bench.load import Clock, Load
from cordwood.bench.modes import CORDWOOD
from cordwood.bench.ours import TOPIC, Ours
from cordwood.bench.peers.peer import Missing, Peer
from cordwood.bench.peers.roster import Entrant, running, safe_only
from cordwood.bench.race import Race
from cordwood.bench.result import Bar, Result, at_least, at_most, compared

Tell = Callable[[str], None]

MB = 1_000_000
REDIS = "Redis Streams"
MIB = 1 << 20
PROBE_BYTES = 4096
PROBE_WRITES = 50  # some 10 ms on a disk with a cache that outlives the power
JOURNAL_IN_FLIGHT = 8
WARM_UP_BYTES = 192 * MIB  # as in the bench of the journal

# What is wanted, as a multiple of the best peer. Batches of 100 have no bar.
BARS: dict[str, Bar] = {
    batches_name(SMALL, 1000): at_least(5),
    batches_name(SMALL, 10_000): at_least(12),
    batches_name(LARGE, 1000): at_least(2),
    batches_name(LARGE, 10_000): at_least(2),
    LOOP: at_least(3),
    TAKE_BATCHES: at_least(10),
    TAKE_EACH: at_least(3),
}


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured. The defaults take some seven minutes with every peer, and 3 GiB of disk."""

    rounds: int = 3
    seconds: float = 0.6  # one lap
    writes: int = 1000  # one round of one caller
    open_messages: int = 1_000_000
    idle_seconds: float = 5.0


QUICK = Effort(rounds=1, seconds=0.25, writes=200, open_messages=100_000, idle_seconds=2.0)


def measure(scratch: Path, effort: Effort, tell: Tell) -> Iterator[Result | Race | Entrant]:
    """Yield who takes part, every race, and every figure that has a bar."""
    loads = make_loads(effort.seconds)
    with raw.Prepared(scratch / "raw", 64 * MIB) as file, ExitStack() as stack:

        def probe() -> float:
            return raw.write_rate(file, bytes(PROBE_BYTES), count=PROBE_WRITES)

        ours, left_out = _start(stack, scratch, tell)
        roster = stack.enter_context(running(scratch, safe_only(), tell))
        systems: dict[str, Peer] = {**({ours.name: ours} if ours else {}), **roster.peers}
        yield Entrant(Ours.name, Ours.name, CORDWOOD[0], ours.version if ours else "", left_out)
        yield from roster.entrants
        for race in races(systems, loads, effort.rounds, probe, tell):
            yield race
            if ours and roster.peers and race.name != SINGLES:
                yield race.against_best(ours.name, BARS.get(race.name))
            if ours and race.name == SINGLES and REDIS in race.laps:
                yield from _beside_redis(ours, race, roster.peers[REDIS], loads.small, effort)
        if ours:
            yield from waited(ours, loads.small, effort, tell)
            yield from beside_the_journal(ours, scratch, loads, effort, tell)
            yield from beside_a_bare_loop(ours, loads.small, effort, tell)
            yield from one_caller(ours, loads.small, file, effort, tell)
            yield from measure_partitions(ours, loads.small, effort.rounds, tell)
    (scratch / "raw").unlink()
    if ours:
        yield from measure_disorder(scratch, effort.open_messages, tell)
        yield from measure_idle(scratch, effort.idle_seconds)


def _start(stack: ExitStack, scratch: Path, tell: Tell) -> tuple[Ours | None, str]:
    ours = Ours()
    directory = scratch / "cordwood"
    directory.mkdir()
    stack.callback(shutil.rmtree, directory)
    stack.callback(ours.stop)
    try:
        tell(f"starting {ours.name}")
        ours.start(directory)
    except Missing as missing:
        return None, str(missing)
    return ours, ""


def _beside_redis(ours: Ours, race: Race, redis: Peer, load: Load, effort: Effort) -> Iterator[Result]:
    """Yield the rate of callers who wait for one message each, beside Redis's with its Python client.

    Bare sockets on both sides are shown, too: there the servers are compared, not what their users have.
    """
    from cordwood.bench.peers.redis_streams import RedisStreams  # needs its client

    assert isinstance(redis, RedisStreams)
    yield race.against(ours.name, redis.name, None, "a POST for each message; bare sockets on both sides")
    for name, action, bar in (
        ("… a POST for each, beside redis-py", ours.singles, at_least(1.5)),
        ("… through Producer, asyncio, beside redis-py", ours.singles_in_asyncio, at_least(4)),
        ("… through Producer, threads, beside redis-py", ours.singles_in_threads, None),
    ):
        rounds = [(action(load, CALLERS), redis.singles_in_asyncio(load, CALLERS)) for _ in range(effort.rounds)]
        yield compared(name, "msgs/s", rounds, bar, against=redis.name)


def waited(ours: Ours, load: Load, effort: Effort, tell: Tell) -> Iterator[Result]:
    """Yield what it costs to wait for each table before the next is sent."""
    for batch in BATCHES:
        rounds = [
            (ours.produce_batches(load, batch, in_flight=1), ours.produce_batches(load, batch))
            for _ in range(effort.rounds)
        ]
        name = f"{batches_name(SMALL, batch)}, each waited for"
        found = compared(name, "msgs/s", rounds, against="in flight")
        tell(f"{name}: {found.ours:,.0f}/s")
        yield found


def beside_the_journal(ours: Ours, scratch: Path, loads: Loads, effort: Effort, tell: Tell) -> Iterator[Result]:
    """Yield megabytes a second of messages of 1 KiB beside those of the bare journal with frames of the same size."""
    load = loads.large
    for batch in BATCHES[1:]:
        piece = os.urandom(batch * load.message_bytes)
        path = scratch / "journal"
        thread = Thread(open_still(path), releases=True)
        rounds = []
        for number in range(effort.rounds):
            theirs = _journal_rate(thread, piece, effort.seconds)
            rounds.append((ours.produce_batches(load, batch) * load.message_bytes / MB, theirs))
            tell(f"beside the journal, round {number + 1}: {rounds[-1][0]:.0f} MB/s, journal {theirs:.0f} MB/s")
        thread.committer.stop()
        thread.committer.journal.close()
        shutil.rmtree(path)
        yield compared(
            f"{batches_name(LARGE, batch)}, bytes",
            "MB/s",
            rounds,
            at_least(0.6),
            "values only; the journal recycles its segments, the broker keeps every message",
            against="journal",
        )


def _journal_rate(thread: Thread, piece: bytes, seconds: float) -> float:
    """Return megabytes a second in the middle of a flow: the first segments are zero-filled, later ones recycled."""
    thread.send(piece, count=WARM_UP_BYTES // len(piece), in_flight=JOURNAL_IN_FLIGHT)
    thread.wait(thread.committer.journal.end - 1)
    count = 0
    began = perf_counter()
    while perf_counter() < began + seconds:
        thread.send(piece, count=JOURNAL_IN_FLIGHT, in_flight=JOURNAL_IN_FLIGHT)
        count += JOURNAL_IN_FLIGHT
    thread.wait(thread.committer.journal.end - 1)
    return count * len(piece) / MB / (perf_counter() - began)


def beside_a_bare_loop(ours: Ours, load: Load, effort: Effort, tell: Tell) -> Iterator[Result]:
    """Yield `send` in a loop beside a loop that only keeps what it is given."""
    rounds = [(ours.produce_loop(load), _bare_rate(load)) for _ in range(effort.rounds)]
    found = compared(
        f"{LOOP}, beside Python",
        "msgs/s",
        rounds,
        at_least(0.2),
        "until the last result(); the bare loop appends (value, key) to a list",
        against="list.append",
    )
    tell(f"{found.name}: {found.ours:,.0f}/s, bare {found.raw:,.0f}/s")
    yield found


def _bare_rate(load: Load) -> float:
    clock = Clock(load)
    kept = []
    for messages in load.batches(10_000):
        for value, key in messages:
            kept.append((value, key))
        if not clock.goes_on(len(messages)):
            break
    return clock.rate()


def one_caller(ours: Ours, load: Load, file: raw.Prepared, effort: Effort, tell: Tell) -> Iterator[Result]:
    """Yield the median time of one POST of a caller who is alone, beside a bare write and sync of as many bytes."""
    requests = ours.posts(load)
    rounds = []
    ours.service.create_topic(TOPIC)
    for number in range(effort.rounds):
        theirs = 1e6 * median(raw.write_times(file, requests[0], count=effort.writes))
        found = singles.times(ours.service.port, requests, singles.http_reply, effort.writes)
        rounds.append((1e6 * median(found), theirs))
        tell(f"one caller, round {number + 1}: {rounds[-1][0]:.0f} µs, raw {theirs:.0f} µs")
    ours.service.delete_topic(TOPIC)
    yield compared("one caller", "µs p50", rounds, at_most(3), f"a POST of {SMALL} B on one connection, to its reply")
