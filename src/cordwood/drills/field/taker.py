"""Takers: they lease messages for a group and ack half of them, out of order; and the end, when all is drained."""

import random
from collections.abc import Sequence

from cordwood.drills.field.actor import Actor
from cordwood.drills.field.process import GONE, BrokerProcess, Line
from cordwood.drills.field.stage import Failed, Stage, Timeline, until
from cordwood.drills.field.witness import Delivered, Done, Group, Place, Unsure
from cordwood.drills.field.writer import AGAIN_S, TOPIC, write_of

ACKS = 5_000  # ranges of one ack; the broker takes 10,000
LEASE_MS = 3_600_000  # no lease runs out within a drill, unless it is meant to


class _Refused(Failed):
    """The broker answered, and did not do it."""


class Taker(Actor):
    """Leases messages for a group and acks half of them, out of order.

    It ends with the broker, or goes on over cut wires (`lasting`) until it is told to stop. `dying`: the disk may go
    before the broker does, which then says 503.
    """

    def __init__(
        self,
        port: int,
        group: Group,
        timeline: Timeline,
        seed: str,
        *,
        lasting: bool = False,
        dying: bool = False,
        lease_ms: int = LEASE_MS,
    ):
        super().__init__(f"taker {seed}")
        self._port, self._group, self._timeline = port, group, timeline
        self._draw = random.Random(seed)
        self._lasting, self._dying, self._lease_ms = lasting, dying, lease_ms

    def act(self) -> None:
        line = Line(self._port)
        try:
            while not self.over.is_set():
                try:
                    self._turn(line)
                except _Refused:
                    if not self._dying:
                        raise
                    return
                except GONE:
                    if not self._lasting:
                        return  # the broker is gone: what was on lease comes again
                    self.over.wait(AGAIN_S)
        finally:
            line.close()

    def _turn(self, line: Line) -> None:
        most = self._draw.randint(1, 50)
        found = lease(
            line, self._group, self._timeline, self.name, wait_ms=100, max_messages=most, lease_ms=self._lease_ms
        )
        some = self._draw.sample(found, len(found) // 2)
        if some:
            ack(line, self._group, self._timeline, some, owner=self.name)


def lease(line: Line, group: Group, timeline: Timeline, owner: str, **asked: object) -> list[Place]:
    """Take some messages for a group and note them; empty when none came in time."""
    body = {"topic": TOPIC, "group": group.name, "owner": owner, "lease_ms": LEASE_MS, **asked}
    answer = line.ask("POST", "/v1/lease", body)
    if answer.status == 204:
        return []
    if answer.status != 200:
        raise _Refused(f"expected messages on lease; saw {answer.status} {answer.body[:300]!r}")
    rows = answer.json["messages"]
    found = [Place(row["partition"], row["offset"]) for row in rows]
    group.events += [
        Delivered(place, write_of(row["value"]), row["attempts"]) for place, row in zip(found, rows, strict=True)
    ]
    timeline.count("delivered", len(found))
    return found


def ack(line: Line, group: Group, timeline: Timeline, places: Sequence[Place], owner: str) -> None:
    """Ack these, partition by partition, in the order given; who hears nothing is unsure, and raises one of GONE."""
    for partition in sorted({place.partition for place in places}):
        mine = [place for place in places if place.partition == partition]
        for these in (mine[at : at + ACKS] for at in range(0, len(mine), ACKS)):
            ranges = [[place.offset, place.offset + 1] for place in these]
            body = {"topic": TOPIC, "group": group.name, "owner": owner, "partition": partition, "ranges": ranges}
            try:
                answer = line.ask("POST", "/v1/ack", body)
            except GONE:
                group.events += map(Unsure, these)
                raise
            if answer.status not in (204, 409):
                group.events += map(Unsure, these)
                raise _Refused(f"expected that an ack is taken; saw {answer.status} {answer.body[:300]!r}")
            # 409: its lease ran out, and another has the message now.
            group.events += map(Done if answer.status == 204 else Unsure, these)
            timeline.count("acked", len(these))


def drain(stage: Stage, broker: BrokerProcess, group: Group) -> None:
    """Let a group have all that it has not done, and say that it is done; then nothing may be left."""
    line = Line(broker.port)
    held: list[Place] = []
    try:

        def all_held() -> bool:
            some = lease(line, group, stage.timeline, "the last", wait_ms=500, max_messages=10_000)
            held.extend(some)
            return not some and _open(broker, group) <= len(held)

        until(all_held, f"all that {group.name} has not done to be delivered")
        group.drained = True
        ack(line, group, stage.timeline, held, "the last")
        left = _open(broker, group)
        stage.expect("the group has done everything", left == 0, f"{len(held)} delivered at the end, {left} left")
    finally:
        line.close()


def _open(broker: BrokerProcess, group: Group) -> int:
    """Return how many messages a group has not done."""
    found = broker.must("GET", f"/v1/groups/{TOPIC}/{group.name}")
    return sum(one["lag"] for one in found["partitions"])
