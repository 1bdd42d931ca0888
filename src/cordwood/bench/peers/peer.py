"""A peer: a system that keeps messages, in one of its modes, asked to do what Cordwood does.

    produce_batches     one client, a batch is acknowledged before the next is sent; in a transaction, if any
    produce_loop        one call of the client for each message, none waited for; a flush or commit each LOOP_FLUSH
    singles             so many callers who each send one message and wait until it is acknowledged
    consume_batches     take a batch, acknowledge it whole
    consume_each        take message by message (the client may fetch ahead), one call for each acknowledgement

Each returns messages a second, begins with an empty queue, and lets its data go when it is done. What acknowledged
means is the mode's: in a safe one, that it is on the disk.
"""

from pathlib import Path
from typing import Protocol

from cordwood.bench.load import Load
from cordwood.bench.modes import Mode

LOOP_FLUSH = 10_000  # the largest batch: the loop is not held back by its commits
FETCH_AHEAD = 10_000  # the largest batch, for everybody
FILL_BATCH = 10_000


class Missing(Exception):
    """This peer cannot take part; the text says what is not there."""


class Peer(Protocol):
    """One system in one mode, from start to stop. `version` is known once it is started."""

    name: str
    mode: Mode
    version: str

    def start(self, directory: Path) -> None:
        """Run on this directory's disk, on a free loopback port. Missing if something it needs is not installed."""

    def stop(self) -> None:
        """End every process that was started. Also after a start that failed."""

    def produce_batches(self, load: Load, batch: int) -> float: ...

    def produce_loop(self, load: Load) -> float: ...

    def singles(self, load: Load, callers: int) -> float: ...

    def consume_batches(self, load: Load, batch: int) -> float: ...

    def consume_each(self, load: Load) -> float: ...
