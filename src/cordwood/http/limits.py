"""The server's sizes, counts and times, together in one place, each with its reason."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """How large, how many and how slow; more than this is refused or cut.

    Sizes
    `max_body_bytes`: eight of the journal's largest group commits. `small_body_bytes`: bodies up to this are not
    counted in `max_receiving_bytes`, so that a few clients with large ones cannot shut out the small; all the
    connections there may be, together, make 56 MiB of them. `max_receiving_bytes`: bodies that are on their way
    in; a length counts from the moment it is announced, or else many half-read bodies would all fail together.
    `max_head_bytes`, `max_headers`, `max_target_bytes`: what proxies and browsers send fits several times.
    `write_buffer_bytes`: what may wait for a slow reader before we stop making more.

    Counts
    `max_connections`: below the 1,024 descriptors that a process usually gets, with room for the journal's.
    `max_pipelined`: requests that one read (256 KiB) may bring. Honest ones, of a hundred bytes or more, never come
    near; it is there for a read full of tiny ones. What arrives later waits in the kernel, not here.
    `backlog`: connections that wait to be accepted.

    Times
    `head_s`, `body_s`: from the first byte of a head, or the last of it, to the end; the largest body in `body_s` is
    1 MB/s. `idle_s`: between requests; longer than the 60 s that proxies keep theirs. `send_s`: without one byte
    taken by the reader of a response; a stream may stall for as long as its peer's machine answers.
    `linger_s`: after a refusal, to let the client read it before the connection is reset.
    """

    max_body_bytes: int = 64 << 20
    small_body_bytes: int = 64 << 10
    max_receiving_bytes: int = 256 << 20
    max_head_bytes: int = 32 << 10
    max_headers: int = 100
    max_target_bytes: int = 8 << 10
    write_buffer_bytes: int = 256 << 10

    max_connections: int = 900
    max_pipelined: int = 4096
    backlog: int = 1024

    head_s: float = 10.0
    body_s: float = 64.0
    idle_s: float = 75.0
    send_s: float = 30.0
    linger_s: float = 2.0

    def __post_init__(self) -> None:
        assert self.max_target_bytes <= self.max_head_bytes, "the target is a part of the head"
        assert min(self.head_s, self.body_s, self.idle_s, self.send_s, self.linger_s) > 0, "a time must pass"
