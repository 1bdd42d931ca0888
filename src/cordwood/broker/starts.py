"""Where a group begins, or goes on: earliest, latest, an offset, or a time."""

import re
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from cordwood.broker.ledger import Ledger
from cordwood.broker.state import Partition
from cordwood.errors import Refused
from cordwood.record import times_us

HELP = "earliest, latest, an offset, time:<milliseconds since 1970>, or a time in ISO 8601"


class Start(NamedTuple):
    """A place in every partition: an offset, or a time in ms; neither is the end, offset 0 the beginning."""

    offset: int | None = None
    time_ms: int | None = None


_DIGITS = re.compile(r"-?[0-9]{1,18}", re.ASCII)
EARLIEST = Start(offset=0)
LATEST = Start()


def parse(text: str | int) -> Start:
    """Return the place that this means, or refuse it."""
    if isinstance(text, int) or _DIGITS.fullmatch(text):
        number = int(text)
        if not 0 <= number < 1 << 62:
            raise Refused(f"{text} is no offset; it is {HELP}")
        return Start(offset=number)
    if text == "earliest":
        return EARLIEST
    if text == "latest":
        return LATEST
    if text.startswith("time:") and _DIGITS.fullmatch(text[5:]) and text[5] != "-":
        return Start(time_ms=int(text[5:]))
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return Start(time_ms=max(0, int(moment.timestamp() * 1000)))
    except (ValueError, OverflowError):
        raise Refused(f"{text[:80]!r} is no place to start from: {HELP}") from None


def resolve(ledger: Ledger, partition: Partition, start: Start, end: int) -> int:
    """Return the offset that a place means in a partition whose messages go up to `end`.

    Raises `Away` where only an object in the tier can tell.
    """
    if start.offset is not None:
        return min(max(start.offset, partition.start), max(end, partition.start))
    if start.time_ms is None:
        return end
    time_us, at = start.time_ms * 1000, partition.start
    while (piece := partition.index.since(time_us, at)) is not None and piece.first < end:
        if piece.tiered is not None:
            found = ledger.history.since(piece.tiered, max(at, piece.first), time_us)
            if found is not None:
                return min(end, found)
            at = piece.end
            continue
        late = times_us(ledger.fetch(piece), "timestamp") >= time_us
        late[: max(0, at - piece.first)] = False  # the start may lie within a piece
        if late.any():
            return min(end, piece.first + int(np.argmax(late)))
        at = piece.end
    return end
