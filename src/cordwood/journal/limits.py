"""The journal's sizes, together in one place, each with its reason."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """How large things may get.

    `segment_bytes`: a start zero-fills one segment, which took 55 ms for 64 MiB here and stays under 2 s on a disk
    that writes 40 MB/s; larger segments were no faster (docs/decisions/0003). `max_batch_bytes`: the most that one
    group commit takes, so that a lone small append never waits for more than this to reach the disk.
    `spares`: files prepared ahead. One is the reserve for what must go on when the disk is full, the other is
    the next one to be used. `used_again`: how many there may be in all when released segments become spares; with
    no more than `spares` nearly every release came too late, and writing zeros took half of the disk's speed.
    `open_files`: descriptors kept open for reading. `segment_max_age_ms`: a segment this old is closed by the next
    append, so that what is in it can go though little comes.
    """

    segment_bytes: int = 64 << 20
    max_batch_bytes: int = 8 << 20
    spares: int = 2
    used_again: int = 8
    open_files: int = 64
    segment_max_age_ms: int = 3_600_000

    def __post_init__(self) -> None:
        assert self.spares >= 2, "data needs one spare to go on and one as the reserve"
