"""Which messages are lost with frames that cannot be read, told from all that still can.

    a snapshot names the place of every message        exact, for all that was appended before it
    frames carry the offsets of what they append       a gap between two of them is what a lost one held
    a frame says that messages are in the tier         they are not lost, whatever became of the frame they came in

What stood at the very end, behind which nothing is left, only its LSN names.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from cordwood.broker import ops, snapshot
from cordwood.broker.ranges import Ranges
from cordwood.broker.state import State
from cordwood.errors import CordwoodError, Damaged
from cordwood.journal.frame import Kind, unpack
from cordwood.journal.scan import Scan
from cordwood.journal.segment import HEADER_BYTES
from cordwood.journal.survey import SegmentReport, survey
from cordwood.machine.disk import Directory, File

SHOWN = 20  # ranges in one line
TIERED = (
    "Nothing was changed and nothing is lost: the tier has these messages, a later snapshot all else; "
    "`cordwood wal repair` sets the segment aside."
)


class Loss(NamedTuple):
    """Offsets of one partition, from `first` to `end`."""

    topic: str
    partition: int
    first: int
    end: int

    def __str__(self) -> str:
        what = f"offset {self.first}" if self.end == self.first + 1 else f"offsets {self.first} to {self.end - 1}"
        return f"topic {self.topic}, partition {self.partition}, {what}"


def find_losses(directory: Directory, lost: Sequence[tuple[int, int]]) -> list[Loss]:
    """Return the messages that frames with these LSNs held, as far as the rest of the journal tells."""
    found: dict[tuple[str, int], Ranges] = {}
    ends: dict[tuple[str, int], int] = {}
    for report in survey(directory).segments:
        file = directory.open(report.name, write=False)
        try:
            _look_at_snapshot(file, report, lost, found, ends)
            for is_lost, facts in _facts(file, report, lost):
                _look_at(facts, is_lost, lost, found, ends)
        finally:
            file.close()
    return [
        Loss(topic, partition, first, end)
        for (topic, partition), ranges in sorted(found.items())
        for first, end in ranges
    ]


def spares(directory: Directory, lost: Sequence[tuple[int, int]]) -> bool:
    """Say whether nothing is lost with these frames: a later snapshot has what they say, the tier their messages."""
    end = max((end for _, end in lost), default=0)
    for report in reversed(survey(directory).segments):
        header = report.header
        if header is None or not header.has_snapshot:
            continue
        if report.first < end or report.snapshot_fault is not None:
            return False  # a start begins with this one, and needs those behind it
        file = directory.open(report.name, write=False)
        try:
            state = _state_of(file, report)
        finally:
            file.close()
        if state is None:
            return False
        parts = [part for w in state.writers.values() for parts in w.stages.values() for part in parts]
        staged = any(first <= part.lsn < end for part in parts for first, end in lost)
        return not staged and not find_losses(directory, lost)
    return False


def with_losses(directory: Directory, error: Damaged) -> Damaged:
    """Return the error with the messages that are lost named in it."""
    damages = []
    for damage in error.damages:
        losses = find_losses(directory, [(damage.first, damage.end)]) if damage.end > damage.first else []
        reason = damage.reason + (f"; lost: {text_of(losses)}" if losses else "")
        damages.append(replace(damage, reason=reason))
    frames = [(damage.first, damage.end) for damage in damages if damage.end > damage.first]
    if frames and spares(directory, frames):
        damages = [replace(damage, remedy=TIERED) for damage in damages]
    return Damaged(damages)


def text_of(losses: Sequence[Loss]) -> str:
    """Return losses as part of a sentence."""
    more = f" and {len(losses) - SHOWN} more" if len(losses) > SHOWN else ""
    return "; ".join(map(str, losses[:SHOWN])) + more


def _look_at_snapshot(
    file: File,
    report: SegmentReport,
    lost: Sequence[tuple[int, int]],
    found: dict[tuple[str, int], Ranges],
    ends: dict[tuple[str, int], int],
) -> None:
    state = _state_of(file, report)
    if state is None:
        return
    ends.clear()
    for topic in state.topics.values():
        for number, partition in enumerate(topic.partitions):
            ends[(topic.name, number)] = partition.end
            for place in partition.index.places(0, partition.end):
                if any(first <= place.lsn < end for first, end in lost):
                    found.setdefault((topic.name, number), Ranges()).add(place.first, place.end)
            if (topic.name, number) in found:
                for one in partition.index.tiered:
                    found[(topic.name, number)].remove(one.first, one.end)


def _state_of(file: File, report: SegmentReport) -> State | None:
    """Return the state that a segment begins with, None if it has none that can be read."""
    header = report.header
    if header is None or not header.has_snapshot or report.snapshot_fault is not None:
        return None
    parts = Scan(file, header.identity, HEADER_BYTES, 0, header.chain, end=header.body, snapshot=True)
    try:
        return snapshot.restore(payload for _, _, payload in parts)
    except (ValueError, KeyError, CordwoodError):
        return None  # whole, but not the broker's: there are no messages to name


def _facts(file: File, report: SegmentReport, lost: Sequence[tuple[int, int]]) -> Iterator[tuple[bool, list[ops.Op]]]:
    """Yield what each frame that can be read says, and whether it is among the lost all the same."""
    if report.identity is None:
        return
    for run in report.runs:
        scan = Scan(file, report.identity, run.position, run.first, run.chain, stop_lsn=run.end)
        for _, header, payload in scan:
            if header.kind == Kind.DATA:
                is_lost = any(first <= header.lsn < end for first, end in lost)
                try:
                    yield is_lost, ops.unpack(unpack(payload)[0])
                except (ValueError, CordwoodError):
                    return


def _look_at(
    facts: Sequence[ops.Op],
    is_lost: bool,
    lost: Sequence[tuple[int, int]],
    found: dict[tuple[str, int], Ranges],
    ends: dict[tuple[str, int], int],
) -> None:
    for op in facts:
        if isinstance(op, ops.TopicMade | ops.TopicDeleted):
            for key in [key for key in ends if key[0] == op.topic]:
                del ends[key]
        if isinstance(op, ops.TopicMade):
            ends.update({(op.topic, number): 0 for number in range(op.partitions)})
        elif isinstance(op, ops.Appended | ops.AppendedAcross):
            for piece in op.pieces:
                key = (op.topic, piece.partition)
                end = ends.get(key, piece.first)
                if piece.first > end:
                    found.setdefault(key, Ranges()).add(end, piece.first)
                ends[key] = piece.first + piece.count
                if is_lost:
                    found.setdefault(key, Ranges()).add(piece.first, piece.first + piece.count)
        elif isinstance(op, ops.Stored) and not is_lost:
            if (op.topic, op.partition) in found:
                found[(op.topic, op.partition)].remove(op.first, op.end)
        elif isinstance(op, ops.Published):
            for placed in op.placed:
                key = (placed.topic, placed.piece.partition)
                stop = placed.piece.first + placed.piece.count
                ends[key] = stop
                if is_lost or any(first <= placed.lsn < end for first, end in lost):
                    found.setdefault(key, Ranges()).add(placed.piece.first, stop)
