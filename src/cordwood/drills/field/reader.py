"""Readers: a look at the whole log, by offset, through the broker."""

import json

from cordwood.drills.field.process import BrokerProcess
from cordwood.drills.field.stage import Failed, Timeline
from cordwood.drills.field.witness import History, Place, Reading, Restarted, Seen
from cordwood.drills.field.writer import TOPIC, write_of


def look(broker: BrokerProcess, history: History, reader: str, timeline: Timeline | None = None) -> Reading:
    """Read the whole log from its beginning, and note it."""
    told = len(history.acknowledged)
    seen: list[Seen] = []
    starts = {}
    for about in broker.must("GET", f"/v1/topics/{TOPIC}")["partitions"]:
        partition = about["partition"]
        starts[partition] = about["start_offset"]
        answer = broker.ask("GET", "/v1/read", topic=TOPIC, partition=partition)
        if answer.status != 200:
            raise Failed(f"expected to read partition {partition}; saw {answer.status} {answer.body[:300]!r}")
        for row in map(json.loads, answer.body.splitlines()):
            seen.append(Seen(Place(row["partition"], row["offset"]), write_of(row["value"])))
    history.readings.append(Reading(reader, told, seen, starts))
    if timeline is not None:
        timeline.count("read", len(seen))
    return history.readings[-1]


def restarted(history: History) -> None:
    """Note that the broker was ended: for every group, what was on lease comes again."""
    for group in history.groups:
        group.events.append(Restarted())
