"""Modes: how each system is set up, and what is there after the power went.

    safe        what it acknowledged is on the disk: the mode to compare with
    default     as it comes, if nobody sets anything; for PostgreSQL and Cordwood that is the safe one
    another     a popular way between, named as its users name it

The first mode of a system is its safe one. Memory and room that only help a server are given, and in `setting`, too.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to run a system.

    survives   whether what it acknowledged is there after a power cut
    but        the exception, or how much may be lost
    confirms   whether a sender can wait until a message is taken
    """

    name: str
    setting: str
    survives: bool
    but: str = ""
    confirms: bool = True

    @property
    def survival(self) -> str:
        """The answer to "does it survive a power cut?", in words."""
        word = "yes" if self.survives else "no"
        return f"{word}: {self.but}" if self.but else word


CORDWOOD = (
    Mode("safe = default", "--sync always --tier none; send_table with all columns, many tables in flight", True),
    Mode("interval", "--sync interval (100 ms) --tier none; as above", False, "up to 0.1 s may be lost"),
)

_SCRIPT = "a script that XADDs a batch; loops in MULTI"
REDIS = (
    Mode("safe", f"appendonly yes, appendfsync always; {_SCRIPT}", True),
    Mode(
        "default",
        f"no append-only file, snapshots by save 3600 1 300 100 60 10000; {_SCRIPT}",
        False,
        "all since the last snapshot may be lost, a minute or more",
    ),
    Mode("everysec", f"appendonly yes, appendfsync everysec; {_SCRIPT}", False, "1 to 2 s may be lost"),
)

_ACKS = "publish_async, acks awaited a batch at a time"
NATS = (
    Mode("safe", f"file storage, sync_interval: always; {_ACKS}", True),
    Mode("default", f"file storage, sync_interval not set; {_ACKS}", False, "up to 2 min may be lost"),
)

RABBITMQ = (
    Mode("safe", "quorum queue, persistent messages, publisher confirms; SelectConnection", True),
    Mode(
        "default",
        "classic durable queue, persistent messages, no publisher confirms, one round trip for 10,000 messages; "
        "SelectConnection",
        False,
        "nothing tells what is on the disk",
        confirms=False,
    ),
)

_COPY = "shared_buffers=256MB, max_wal_size=4GB; COPY in binary, a transaction a batch"
POSTGRES = (
    Mode("safe = default", f"fsync=on, synchronous_commit=on, {_COPY}", True),
    Mode("async", f"fsync=on, synchronous_commit=off, {_COPY}", False, "up to 0.6 s may be lost"),
)

_MANY = "executemany in one transaction"
SQLITE = (
    Mode("safe", f"journal_mode=WAL, synchronous=FULL, page_size=16384; {_MANY}", True),
    Mode(
        "default",
        f"journal_mode=DELETE, synchronous=FULL, page_size=4096; {_MANY}",
        True,
        "but for a commit of that very moment",
    ),
    Mode(
        "NORMAL",
        f"journal_mode=WAL, synchronous=NORMAL, page_size=16384; {_MANY}",
        False,
        "all since the last checkpoint may be lost",
    ),
)
