"""A real filesystem of a few megabytes that fills up and is freed again."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cordwood.errors import Full
from cordwood.journal.fold import Blank
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.machine.disk import RealDirectory
from tests.conftest import skip_for_want_of

LIMITS = Limits(segment_bytes=1 << 20)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 6 MiB."""
    if os.geteuid() != 0:
        skip_for_want_of("root, to mount a tmpfs")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(tmp_path)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        skip_for_want_of(f"the right to mount a tmpfs ({mounted.stderr.strip()})")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_full_disk_refuses_before_numbering_and_goes_on_after_space_is_freed(small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes(1 << 20))
    written: list[int] = []
    with open_journal(RealDirectory(small_disk), Blank(), LIMITS) as journal:
        with pytest.raises(Full, match="no room"):
            for _ in range(100):
                written.append(journal.write([b"%d " % journal.end + bytes(100_000)]))
        assert written == list(range(len(written)))
        assert journal.end == len(written), "nothing was numbered"
        assert journal.failure is None
        acks = [journal.write([b"%d " % journal.end], reserve=True) for _ in range(20)]
        assert sum(1 for _ in journal.frames(0)) == len(written) + 20, "reads and acks go on"
        filler.unlink()
        more = [journal.write([b"%d " % journal.end + bytes(100_000)]) for _ in range(5)]
        assert [*acks, *more] == list(range(len(written), journal.end))
    with open_journal(RealDirectory(small_disk), Blank(), LIMITS) as journal:
        found = [int(bytes(entries[0][:20]).split()[0]) for _, entries in journal.frames(0)]
        assert found == list(range(len(written) + 25))


def test_a_disk_filled_to_the_last_byte_still_opens(small_disk: Path) -> None:
    with open_journal(RealDirectory(small_disk), Blank(), LIMITS) as journal:
        written = [journal.write([bytes(100_000)]) for _ in range(5)]
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space"):
        filler.write_bytes(bytes(8 << 20))
    with open_journal(RealDirectory(small_disk), Blank(), LIMITS) as journal:
        assert journal.end == len(written)
        journal.write([b"ack"], reserve=True)
        filler.unlink()
        journal.write([bytes(100_000)])
