"""An owner whose state never changes, so that a bench measures the journal and not its owner."""

from pathlib import Path

from cordwood.journal.fold import Blank, Snapshot
from cordwood.journal.journal import Journal
from cordwood.journal.opening import open_journal
from cordwood.machine.disk import RealDirectory, make_directory

STATE = b"still"


class Still(Blank):
    """It looks at no frame, and unlike `Blank` it has a snapshot: so segments can be released."""

    def snapshot(self) -> Snapshot | None:
        return Snapshot([STATE], most_parts=1, most_bytes=len(STATE))


def open_still(path: Path) -> Journal:
    """Return the journal in this directory, begun if there is none, with the limits a broker has."""
    make_directory(path)
    return open_journal(RealDirectory(path), Still())
