"""A captured state restored is the same state, however it grew, and within the bounds that were promised."""

from collections.abc import Iterable
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.broker import ops, ranges, snapshot
from cordwood.broker.snapshot import capture, restore
from cordwood.broker.state import Group, Partition, State
from cordwood.broker.terms import GroupTerms, TopicTerms
from cordwood.errors import OtherVersion


class Growing:
    """A state that grows by random facts, each of which could have been written."""

    def __init__(self, random: Random):
        self.random = random
        self.state = State()
        self.lsn = 0
        self.apply(ops.TopicMade("t", "id-t", 3, TopicTerms(retention_ms=5, discard="acked"), 1))
        self.apply(ops.TopicMade("dlq.t", "id-d", 3, TopicTerms(), 2))
        self.apply(ops.GroupMade("t", "g", [0, 0, 0], GroupTerms(mode="ordered", max_attempts=3), 3))
        self.apply(ops.GroupMade("t", "h", [0, 0, 0], GroupTerms(), 4))

    def apply(self, *facts: ops.Op) -> None:
        self.state.apply(self.lsn, facts)
        self.lsn += 1

    def grow(self, steps: int) -> "Growing":
        for _ in range(steps):
            self.random.choice((self._append, self._append, self._stage, self._publish, self._consume, self._other))()
        return self

    def _append(self) -> None:
        random, number, count = self.random, self.random.randrange(3), self.random.randrange(1, 5)
        end = self.state.topics["t"].partitions[number].end
        known = self.state.topics["t"].partitions[number].producers.get("p")
        numbered = ops.Numbered("p", 1, known.next if known else 0) if random.random() < 0.3 else None
        keys = [(random.randbytes(16), number, end)] if random.random() < 0.3 else []
        piece = ops.Piece(number, end, count, 0, count * 7, random.randrange(100))
        self.apply(ops.Appended("t", 0, [piece], self.lsn, numbered, keys))

    def _stage(self) -> None:
        last = self.state.writers["w"].last if "w" in self.state.writers else -1
        pieces = [ops.Piece(number, 0, 2, 2 * number, 14, 5) for number in range(self.random.randrange(1, 4))]
        task, attempt = self.random.randrange(2), self.random.randrange(2)
        self.apply(ops.Staged("t", 0, pieces, self.lsn, "w", last + self.random.choice((1, 2)), task, attempt))

    def _publish(self) -> None:
        writer = self.state.writers.get("w")
        if writer is None or not writer.stages:
            return
        key = sorted(writer.stages)[0]
        placed = []
        ends = [partition.end for partition in self.state.topics["t"].partitions]
        for part in writer.stages[key]:
            for piece in part.pieces:
                first = ends[piece.partition]
                numbered = ops.Piece(piece.partition, first, piece.count, piece.row, piece.bytes, piece.latest_us)
                placed.append(ops.Placed("t", part.lsn, part.payload, numbered))
                ends[piece.partition] += piece.count
        self.apply(ops.Published("w", key[0], placed, self.lsn))

    def _consume(self) -> None:
        random = self.random
        group, number = random.choice("gh"), random.randrange(3)
        end = self.state.topics["t"].partitions[number].end
        if not end:
            return
        first = random.randrange(end)
        span = [(first, random.randrange(first, end) + 1)]
        self.apply(
            random.choice(
                (
                    ops.Delivered("t", group, number, span, self.lsn),
                    ops.Delivered("t", group, number, span, self.lsn),
                    ops.Failed("t", group, number, span, self.lsn + 50, random.choice(("", "boom"))),
                    ops.GivenBack("t", group, number, span),
                    ops.Done("t", group, number, span, self.lsn),
                    ops.Redriven("t", group, number, span),
                )
            )
        )

    def _other(self) -> None:
        random, number = self.random, self.random.randrange(3)
        partition = self.state.topics["t"].partitions[number]
        self.apply(
            random.choice(
                (
                    ops.ReaderPut("t", "r", [(number, partition.end)], self.lsn),
                    ops.Trimmed("t", number, random.randint(partition.start, partition.end)),
                    ops.Sought("t", "h", [(number, partition.start)], self.lsn),
                    ops.Forgotten(self.lsn - 30, self.lsn - 30, self.lsn - 30),
                )
            )
        )


def plain(thing: Any) -> Any:
    """Return everything that a state knows as dicts and lists; `shown` and the fold's own table are not known."""
    if isinstance(thing, State):
        return {"topics": plain(thing.topics), "writers": plain(thing.writers)}
    if isinstance(thing, dict):
        return {key: plain(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [plain(one) for one in thing]
    if isinstance(thing, ranges.Ranges):
        return list(thing)
    if isinstance(thing, Partition):
        return {name: plain(getattr(thing, name)) for name in thing.__slots__ if name != "shown"}
    if isinstance(thing, Group):
        slots = {name: plain(getattr(thing, name)) for name in thing.__slots__}
        slots["redriven"] = {number: found for number, found in slots["redriven"].items() if found}
        return slots
    if type(thing).__module__.startswith("cordwood.broker") and not isinstance(thing, msgspec.Struct):
        return {name: plain(getattr(thing, name)) for name in thing.__slots__}
    return thing.tobytes() if hasattr(thing, "tobytes") else thing


def redrawn(parts: Iterable[Any]) -> State:
    return restore([memoryview(bytes(part)) for part in parts])


@given(st.integers(0, 2**32), st.integers(0, 120))
def test_what_is_captured_and_restored_is_the_same(seed: int, steps: int) -> None:
    state = Growing(Random(seed)).grow(steps).state
    assert plain(redrawn(capture(state).parts)) == plain(state)


@given(st.integers(0, 2**32), st.integers(0, 80))
def test_the_bounds_hold(seed: int, steps: int) -> None:
    captured = capture(Growing(Random(seed)).grow(steps).state)
    parts = [bytes(part) for part in captured.parts]
    assert len(parts) <= captured.most_parts
    assert sum(map(len, parts)) <= captured.most_bytes


@given(st.integers(0, 2**32))
def test_what_happens_after_the_capture_is_not_in_it(seed: int) -> None:
    growing = Growing(Random(seed)).grow(60)
    before = plain(growing.state)
    captured = capture(growing.state)
    growing.grow(60)
    assert plain(redrawn(captured.parts)) == before, "the parts are drawn later, in another thread"


def test_the_fold_goes_on_from_a_restored_state_as_from_the_first() -> None:
    one, other = Growing(Random(5)).grow(80), Growing(Random(5)).grow(80)
    other.state = redrawn(capture(other.state).parts)
    one.random, other.random = Random(9), Random(9)
    assert plain(one.grow(80).state) == plain(other.grow(80).state)


def test_many_small_things_come_in_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "CHUNK", 64)
    growing = Growing(Random(3))
    for number in range(200):
        end = growing.state.topics["t"].partitions[0].end
        piece = ops.Piece(0, end, 1, 0, 7, number)
        numbered = ops.Numbered(f"p{number}", 0, 0)
        growing.apply(ops.Appended("t", 0, [piece], number, numbered, [(b"%016d" % number, 0, end)]))
        if number % 2:
            growing.apply(ops.Delivered("t", "g", 0, [(end, end + 1)], number))
            growing.apply(ops.Failed("t", "g", 0, [(end, end + 1)], number, "boom"))
    captured = capture(growing.state)
    parts = [bytes(part) for part in captured.parts]
    assert len(parts) > 200 + 4 + 4, "one producer to a part, and pieces, keys and tries in several"
    assert len(parts) <= captured.most_parts
    assert sum(map(len, parts)) <= captured.most_bytes
    assert plain(redrawn(parts)) == plain(growing.state)


def test_a_long_name_stays_within_the_bounds() -> None:
    state = State()
    name = "dlq." + "n" * 240
    state.apply(0, [ops.TopicMade(name, "id", 1, TopicTerms(), 1)])
    state.apply(1, [ops.Appended(name, 0, [ops.Piece(0, 0, 1, 0, 1, 1)], 1)])
    captured = capture(state)
    assert sum(len(bytes(part)) for part in captured.parts) <= captured.most_bytes


def test_a_snapshot_of_another_version_is_told_from_damage() -> None:
    head = b"\x92\x01\x07"  # [1, 7]: the head of version 7
    with pytest.raises(OtherVersion):
        restore([head])
    with pytest.raises(ValueError, match="not a part"):
        restore([b"\xc1"])
