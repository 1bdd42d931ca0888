"""Which system wrote this? The bytes say it; Danube's, which begin with nothing of their own, also by their names."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cordwood.doors import airunner, blipmq, danube, driftq
from cordwood.doors.frames import SANE_NUMBER
from cordwood.doors.preamble import MAGIC_BYTES, resembles
from cordwood.doors.record import Item, Record

HEAD_BYTES = 1 << 20  # how much of a file is looked through
_ROTATED = re.compile(r"wal(?:\.(\d+))?\.log", re.ASCII)


@dataclass(frozen=True, slots=True)
class Door:
    """A format: its name, and what reads a file of it. `numbered` where no checksum covers a record's number."""

    name: str
    records: Callable[[memoryview, str], Iterator[Item]]
    numbered: bool = False


DRIFTQ = Door("driftq", driftq.records)
DANUBE = Door("danube", danube.records, numbered=True)
BLIPMQ = Door("blipmq", blipmq.records, numbered=True)
AIRUNNER = Door("airunner", airunner.records)


def recognise(data: memoryview) -> Door | None:
    """Return the format of a file, None if it is none that is known.

    A damaged beginning is still recognised when something whole follows soon.
    """
    head = bytes(data[:HEAD_BYTES])
    if resembles(head, blipmq.HEADER):
        return BLIPMQ
    if resembles(head, airunner.HEADER):
        return AIRUNNER
    if danube.Frames().whole(data, 0):  # before the lines: its messages may have such lines in them
        return DANUBE
    if _is_driftq(head):
        return DRIFTQ
    if any(_records(danube.records(memoryview(head), ""))):
        return DANUBE
    return None


def begins_otherwise(data: memoryview) -> bool:
    """Whether a file begins as another system's log does, and so is none of Danube's, whatever its name.

    No frame of Danube's begins like that: its number would be one that no log has come to.
    """
    head = bytes(data[:HEAD_BYTES])
    if len(head) < MAGIC_BYTES or int.from_bytes(head[:8], "little") < SANE_NUMBER:
        return False
    if resembles(head, blipmq.HEADER) or resembles(head, airunner.HEADER):
        return True
    return _is_driftq(head.partition(b"\n")[0])


def rotation(name: str) -> int | None:
    """Return which file of a Danube topic's log this is, by its name; None if it is none."""
    found = _ROTATED.fullmatch(name)
    return int(found[1] or 0) if found else None


def is_object(name: str) -> bool:
    """Whether this is the name of one of Danube's objects. Their names have no order; the frames in them have."""
    return name.endswith(".dnb1")


def _records(items: Iterator[Item]) -> Iterator[bool]:
    return (True for item in items if isinstance(item, Record))


def _is_driftq(head: bytes) -> bool:
    if head[:8] == b'{"type":'[: len(head)] and head:
        return True
    for line in head.split(b"\n"):
        try:
            if line.lstrip()[:1] == b"{" and any(driftq.line_items(line, 0, 0)):
                return True
        except driftq.NotDriftQ:
            continue
    return False
