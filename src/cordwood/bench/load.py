"""What is sent in a measurement, and for how long.

Messages are distinct and made before a clock starts; they are sent round and round until time is up, so that a
slow system and a fast one are measured for the same time and not with the same count.
"""

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

Message = tuple[bytes, bytes]  # value, key

KEYS = 1000
POOL = 60_000  # a whole number of every batch size, and 60 MB in messages of 1 KiB


@dataclass(frozen=True, slots=True)
class Load:
    """Messages, and an end: `seconds`, or `most` messages where those are sent sooner."""

    messages: Sequence[Message]
    seconds: float
    most: int = 4_000_000  # of 100 B; keeps a fast system from filling a disk

    @property
    def message_bytes(self) -> int:
        return len(self.messages[0][0])

    def batches(self, size: int) -> Iterator[Sequence[Message]]:
        """Yield batches without end."""
        cut = [self.messages[start : start + size] for start in range(0, len(self.messages), size)]
        return itertools.cycle(cut)


class Clock:
    """The time and the messages since it was made."""

    def __init__(self, load: Load):
        self._load = load
        self.count = 0
        self._began = perf_counter()

    def goes_on(self, count: int) -> bool:
        """Count messages that are done, and return whether there is time for more."""
        self.count += count
        return self.count < self._load.most and not self.late

    @property
    def late(self) -> bool:
        """Whether time is up."""
        return self.seconds >= self._load.seconds

    @property
    def seconds(self) -> float:
        """How long it runs."""
        return perf_counter() - self._began

    def rate(self) -> float:
        """Return messages a second, up to this moment."""
        return self.count / self.seconds


def make_messages(message_bytes: int, count: int = POOL) -> list[Message]:
    """Return messages whose values nothing can shorten, with one of so many keys each."""
    values = os.urandom(count * message_bytes)
    return [
        (values[place * message_bytes : (place + 1) * message_bytes], b"user:%d" % (place % KEYS))
        for place in range(count)
    ]
