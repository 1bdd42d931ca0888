"""Opening a large journal: in a child process, so that its time and its memory are its own.

    fill          a journal of so many bytes; its last group has no proof that it was synced, as after a kill
    copy_of       a copy to open, because an opening changes what it opens
    opened        the child's report

`python -m bench.opening DIRECTORY` is the child.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

from bench.still import open_still
from cordwood.errors import Preparing
from cordwood.journal.journal import Journal
from cordwood.journal.limits import Limits


@dataclass(frozen=True, slots=True)
class Opened:
    """What one opening took: `peak_bytes` is the most memory of the whole child, `before_bytes` without a journal."""

    seconds: float
    peak_bytes: int
    before_bytes: int
    frames: int


def fill(journal: Journal, total_bytes: int, frame_bytes: int) -> None:
    """Write frames in groups as large as a busy committer makes them, until there are `total_bytes`."""
    piece = os.urandom(frame_bytes)
    group_bytes = Limits().max_batch_bytes
    left = total_bytes // frame_bytes
    while left:
        for _ in range(min(left, group_bytes // frame_bytes)):
            try:
                journal.append([piece])
            except Preparing:
                journal.maintain()
                break
            left -= 1
        while journal.queued:  # one commit ends where a segment does
            journal.commit()
    journal.maintain()  # a running broker has its spares ready


def segments(path: Path) -> list[Path]:
    """Return the segments in this directory, in order."""
    return sorted(path.glob("*.wal"))


def copy_of(source: Path, target: Path) -> Path:
    """Make `target` a journal like `source`, durable and in the page cache.

    An opening never writes to a segment that has a later one, so these are shared; the rest is copied.
    """
    shared = set(segments(source)[:-1])
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path in shared:
            os.link(path, target / path.name)
        else:
            shutil.copyfile(path, target / path.name)
            descriptor = os.open(target / path.name, os.O_RDWR)
            os.fsync(descriptor)
            os.close(descriptor)
    return target


def opened(path: Path) -> Opened:
    """Open the journal at `path` in a new process and return what it took."""
    child = subprocess.run(
        [sys.executable, "-m", "bench.opening", str(path.resolve())],
        cwd=Path(__file__).resolve().parent.parent,
        stdout=subprocess.PIPE,
        check=True,
    )
    return Opened(**json.loads(child.stdout))


def _memory_bytes(field: str) -> int:
    """Return VmRSS or VmHWM of this process: `ru_maxrss` would be the parent's where that is larger."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def _report(path: Path) -> Opened:
    before = _memory_bytes("VmHWM")
    began = perf_counter()
    journal = open_still(path)
    seconds = perf_counter() - began
    result = Opened(seconds, _memory_bytes("VmHWM"), before, journal.end)
    journal.abandon()
    return result


if __name__ == "__main__":
    print(json.dumps(asdict(_report(Path(sys.argv[1])))))
