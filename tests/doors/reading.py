"""Reads bytes through a door, sorted by what comes out."""

from typing import NamedTuple

from cordwood.doors.recognise import AIRUNNER, BLIPMQ, DANUBE, DRIFTQ, Door
from cordwood.doors.record import Aside, Item, Kind, Place, Record, Topic
from cordwood.doors.source import File, Source
from tests.doors.writers import SAMPLES

DOORS = {"driftq": DRIFTQ, "danube": DANUBE, "blipmq": BLIPMQ, "airunner": AIRUNNER}


class Read(NamedTuple):
    records: list[Record]
    topics: list[Topic]
    asides: list[Aside]
    torn: list[Place]
    corrupt: list[Place]
    gaps: list[Place]

    @property
    def values(self) -> list[bytes]:
        return [record.value for record in self.records]


def source(door: Door, *files: bytes, name: str = "here") -> Source:
    return Source(
        name,
        door,
        tuple(File(f"file-{n}", len(data), lambda data=data: memoryview(data)) for n, data in enumerate(files)),
    )


def read(door: Door, *files: bytes) -> Read:
    items: list[Item] = [item for _, item in source(door, *files).items()]
    places = [item for item in items if isinstance(item, Place)]
    return Read(
        [item for item in items if isinstance(item, Record)],
        [item for item in items if isinstance(item, Topic)],
        [item for item in items if isinstance(item, Aside)],
        *([place for place in places if place.kind is kind] for kind in (Kind.TORN, Kind.CORRUPT, Kind.GAP)),
    )


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()
