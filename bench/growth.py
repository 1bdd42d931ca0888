"""What must not cost: partitions, and messages that are acknowledged out of order.

partitions     the same batches to 1 partition, to 1,000 in turn, and with their rows spread over 1,000 by key
disorder       a group that holds many messages and acknowledges them in order, and at random

done  ███ ██ █ ████ ██   an open range is a run of done messages above the floor, with a hole before it
      ^floor
"""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa

from cordwood.bench.load import Load, make_messages
from cordwood.bench.ours import TOPIC, Ours
from cordwood.bench.peers.peer import FILL_BATCH
from cordwood.bench.result import Result, alone, at_least, at_most, compared
from cordwood.bench.tables import tables

Tell = Callable[[str], None]

BATCH = 1000
PARTITIONS = 1000
ACKS = 1000  # ranges in one request
LEASE = {"max_messages": 100_000, "max_bytes": 64 << 20, "lease_ms": 3_600_000, "wait_ms": 1000}
FILL_SECONDS = 60
ARROW = "application/vnd.apache.arrow.stream"


def measure_partitions(ours: Ours, load: Load, rounds: int, tell: Tell) -> Iterator[Result]:
    """Yield the rate of batches to many partitions beside that of the same batches to one."""
    spread = tables(load, BATCH)
    one = [_to_partition(table, 0) for table in spread]
    turns = [_to_partition(spread[number % len(spread)], number) for number in range(PARTITIONS)]
    in_turn, by_key = [], []
    for number in range(rounds):
        alone_rate = _rate(ours, one, load, 1)
        in_turn.append((_rate(ours, turns, load, PARTITIONS), alone_rate))
        by_key.append((_rate(ours, spread, load, PARTITIONS), alone_rate))
        tell(f"partitions, round {number + 1}: 1 {alone_rate:,.0f}, in turn {in_turn[-1][0]:,.0f}/s")
    about = f"{PARTITIONS:,} partitions"
    yield compared(
        f"{about}, in turn",
        "msgs/s",
        in_turn,
        at_least(1 / 1.5),
        f"batches of {BATCH:,}, each to the next partition; beside them the same batches to one partition",
        against="1 partition",
    )
    note = "each batch's rows go wherever their keys say"
    yield compared("… spread by key", "msgs/s", by_key, None, note, against="1 partition")


def _rate(ours: Ours, sent: Sequence[pa.Table], load: Load, partitions: int) -> float:
    ours.service.create_topic(TOPIC, partitions)
    rate, _ = ours.send_tables(TOPIC, sent, load)
    ours.service.delete_topic(TOPIC)
    return rate


def _to_partition(table: pa.Table, partition: int) -> pa.Table:
    return table.append_column("partition", pa.array([partition] * table.num_rows, pa.int32()))


def measure_disorder(scratch: Path, count: int, tell: Tell) -> Iterator[Result]:
    """Yield the memory of open ranges, and the rate of acknowledgements at random beside that in order.

    On a broker of its own, whose heap has no room left over from other work that would hide what grows.
    """
    directory = scratch / "disorder"
    directory.mkdir()
    ours = Ours()
    ours.start(directory)
    try:
        ours.service.create_topic(TOPIC)
        load = Load(make_messages(100), FILL_SECONDS, count)
        ours.send_tables(
            TOPIC, tables(load, FILL_BATCH), load, in_flight=1
        )  # one at a time, so that no more are sent
        at_random = np.random.default_rng(1).permutation(count)
        half = at_random[: count // 2]
        ranges = open_ranges(half, count)
        group = _Group(ours, "memory", count)
        group.ack(half)
        memory = group.grown_bytes / ranges
        rates = []
        for name, offsets in (("random", at_random), ("order", np.arange(count))):
            group = _Group(ours, name, count)
            group.lease()
            rates.append(count / group.ack(offsets))
            group.check_done()
            tell(f"acks in {name}: {rates[-1]:,.0f}/s")
    finally:
        ours.stop()
        shutil.rmtree(directory)
    yield compared(
        f"{count:,} acks at random",
        "acks/s",
        [(rates[0], rates[1])],
        at_least(1 / 3),
        f"all leased before; {ACKS:,} ranges of one message in each request, one request after the other",
        against="in order",
    )
    yield alone(
        "… memory per open range",
        "bytes",
        [memory],
        at_most(200) if count >= 1_000_000 else None,  # below, the broker's ups and downs are larger
        f"what the broker grew by, with {ranges:,} ranges open and nothing leased",
    )


def open_ranges(done: np.ndarray, count: int) -> int:
    """Return how many runs of done messages lie above the floor."""
    state = np.zeros(count + 1, np.int8)
    state[done + 1] = 1  # behind a place that is never done, so that each run has a beginning
    runs = int(np.count_nonzero(np.diff(state) == 1))
    return runs - int(state[1])  # a run at the very beginning is below the floor


class _Group:
    """A group of the topic, which has one partition."""

    def __init__(self, ours: Ours, name: str, count: int):
        self._service = ours.service
        self._path = f"/v1/groups/{TOPIC}/{name}"
        self._who = {"topic": TOPIC, "group": name, "owner": "bench"}
        self._count = count
        self._service.ask("PATCH", self._path, {"max_in_flight": count})
        self._before_bytes = self._service.memory_bytes

    @property
    def grown_bytes(self) -> int:
        """How much more memory the broker has than when the group was made."""
        return self._service.memory_bytes - self._before_bytes

    def lease(self) -> None:
        """Take every message, and keep it."""
        held = 0
        while held < self._count:
            found = self._service.ask("POST", "/v1/lease", {**self._who, **LEASE}, accept=ARROW)
            assert found, "every message can be leased"
            held += pa.ipc.open_stream(found).read_all().num_rows

    def ack(self, offsets: np.ndarray) -> float:
        """Return the seconds to acknowledge these, one range for each, in this order."""
        bodies = [
            json.dumps({**self._who, "partition": 0, "ranges": np.stack([part, part + 1], 1).tolist()}).encode()
            for part in np.array_split(offsets, len(offsets) // ACKS)
        ]
        began = perf_counter()
        for body in bodies:
            self._service.ask("POST", "/v1/ack", body)
        return perf_counter() - began

    def check_done(self) -> None:
        found = json.loads(self._service.ask("GET", self._path))
        assert found["lag"] == 0, "every message is done"
