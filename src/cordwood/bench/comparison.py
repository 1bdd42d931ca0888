"""The comparison: everybody who is installed, in all modes, in one run on one disk.

    settle, probe, lap      settle, probe, lap      …      by turns, round after round

Before each lap all files of the comparison are synced, so that nobody pays for what another one's unsafe mode left
behind; then the bare disk is probed. Whoever fails in a race is not in it, and that is told.
"""

import contextlib
import os
import platform
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cordwood.bench import raw
from cordwood.bench.contest import (
    LOOP,
    SINGLES,
    SMALL,
    TAKE_BATCHES,
    TAKE_EACH,
    batches_name,
    make_loads,
    races,
)
from cordwood.bench.load import Load, make_messages
from cordwood.bench.peers.peer import Peer
from cordwood.bench.peers.roster import CORDWOOD, Entrant, System, every_mode, running
from cordwood.bench.race import Race
from cordwood.errors import Unavailable

PROBE_BYTES = 4096
PROBE_WRITES = 50  # some 10 ms on a disk with a cache that outlives the power
PROBE_FILE_BYTES = 16 << 20
CLOCK_SECONDS = 1.0  # by which the times of files may be behind
WARM_UP_MESSAGES = 10_000  # the batch that queues are filled with
WARM_UP_BATCH = 1000
WARM_UP_CALLERS = 8
WARM_UP_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured; no races are all races. The defaults take some 15 minutes with every peer."""

    rounds: int = 3
    seconds: float = 0.6  # one lap
    races: tuple[str, ...] = ()


QUICK = Effort(1, 0.15, (batches_name(SMALL, 1000), LOOP, SINGLES, TAKE_BATCHES, TAKE_EACH))


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was found. `failures` are sentences about those who did not finish a race."""

    machine: str
    entrants: Sequence[Entrant]
    races: Sequence[Race]
    failures: Sequence[str] = field(default=())


def compare(scratch: Path, peers: Sequence[System], effort: Effort, tell: Callable[[str], None]) -> Comparison:
    """Measure Cordwood and these peers in a directory that is given for it; every server is stopped in the end."""
    loads = make_loads(effort.seconds)
    failures: list[str] = []

    def failed(label: str, error: Exception) -> None:
        failures.append(f"{label} failed: {str(error) or type(error).__name__}")
        tell(failures[-1])

    with (
        raw.Prepared(scratch / "raw", PROBE_FILE_BYTES) as file,
        running(scratch, every_mode([CORDWOOD, *peers]), tell) as roster,
    ):
        settled = 0.0

        def probe() -> float:
            nonlocal settled
            settled, since = time.time() - CLOCK_SECONDS, settled
            settle(scratch, since)
            return raw.write_rate(file, bytes(PROBE_BYTES), count=PROBE_WRITES)

        for entrant in roster.entrants:
            if entrant.left_out:
                tell(f"{entrant.label} is left out: {entrant.left_out}")
                if entrant.system == CORDWOOD.name:
                    raise Unavailable(f"there is nothing to compare with: {entrant.left_out}")
        tell("warming up")
        for label in tuple(roster.peers):
            try:
                warm_up(roster.peers[label])
            except Exception as error:
                failed(label, error)
                del roster.peers[label]
        found = races(roster.peers, loads, effort.rounds, probe, tell, only=effort.races, failed=failed)
        return Comparison(machine(), roster.entrants, list(found), failures)


def warm_up(peer: Peer) -> None:
    """Let it do a little of everything: who does something for the first time loads code, and makes files."""
    load = Load(make_messages(SMALL, WARM_UP_MESSAGES), WARM_UP_SECONDS)
    peer.produce_batches(load, WARM_UP_BATCH)
    if peer.mode.confirms:
        peer.singles(load, WARM_UP_CALLERS)
    peer.consume_batches(load, WARM_UP_BATCH)


def settle(directory: Path, since: float = 0.0) -> None:
    """Sync every file below this directory that was written since; servers may remove some meanwhile.

    Not all of them, as there are thousands, and a disk flushes for each.
    """
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                _sync(os.path.join(folder, name), since)


def _sync(path: str, since: float) -> None:
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_mtime < since:  # a socket, or settled before
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def machine() -> str:
    """Return what it was measured on, in words."""
    return f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"
