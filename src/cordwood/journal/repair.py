"""What an operator may choose to do about damage. Every choice keeps a copy and names what is lost.

    choice       what is lost                            how
    mend         nothing; refused if a frame would be    damaged headers, snapshots and marks are made anew
    quarantine   the frames that cannot be read          a LOST frame stands in for them, the rest stays
    truncate     everything from the first damage on     the log ends before it

A segment is never changed in place: a copy is kept as `*.aside`, the new file is written and synced under another
name, and one rename puts it in. A repair that is cut off anywhere can be run again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from cordwood.errors import Damaged, Full
from cordwood.journal import clean
from cordwood.journal.frame import Kind, Lost, encode_header, lost_payload
from cordwood.journal.scan import Scan
from cordwood.journal.segment import HEADER_BYTES, SegmentHeader, segment_name
from cordwood.journal.spares import NO_ROOM, UNFINISHED
from cordwood.journal.survey import SegmentReport, Survey, survey
from cordwood.journal.verdict import LOSSLESS, Verdict, judge
from cordwood.machine.disk import Directory, File, copy_bytes, write_all

ASIDE = ".aside"
ROUNDS = 4  # what is mended may show what else is wrong: a mark that ends too early, a state that is in no snapshot


class Choice(StrEnum):
    MEND = "mend"
    QUARANTINE = "quarantine"
    TRUNCATE = "truncate"


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair did: which LSNs are lost, which files were made anew or taken out, where the copies are."""

    lost: tuple[tuple[int, int], ...]
    changed: tuple[str, ...]
    copies: tuple[str, ...]


def lost_by(choice: Choice, found: Survey, verdict: Verdict) -> tuple[tuple[int, int], ...]:
    """Return the runs of LSNs that this choice gives up; one from 0 is the state that no snapshot holds any more."""
    begin = found.segments[0].first if found.segments else 0
    lost = _unreadable(found, verdict)
    kept = list(found.segments)
    if choice is Choice.TRUNCATE and lost:
        ends = [run.end for report in found.segments for run in report.runs]
        lost = [(lost[0][0], max(verdict.end, verdict.proven, *ends, lost[0][1]))]
        kept = _kept(found, lost[0][0])
        if not kept:
            return ((0, lost[0][1]),)
    if _begins_late(kept):
        lost.insert(0, (0, begin))
    return tuple(lost)


def _unreadable(found: Survey, verdict: Verdict) -> list[tuple[int, int]]:
    """Return the runs of frames, from the first segment on, that cannot be read."""
    begin = found.segments[0].first if found.segments else 0
    return sorted((damage.first, damage.end) for damage in verdict.damages if damage.end > damage.first >= begin)


def can_mend(found: Survey, verdict: Verdict) -> bool:
    """Say whether the journal can be made whole without giving up a frame."""
    return all(damage.remedy == LOSSLESS for damage in verdict.damages) and not _begins_late(found.segments)


def repair(directory: Directory, choice: Choice, random: Random) -> Repaired:
    """Make the journal open again by this choice, or raise `Damaged`. The caller holds the directory's lock."""
    found = survey(directory)
    verdict = judge(found)
    if not verdict.damages:
        return Repaired((), (), ())
    if choice is Choice.MEND and not can_mend(found, verdict):
        raise Damaged(verdict.damages)
    lost = lost_by(choice, found, verdict)
    work = _Repair(directory, random)
    try:
        unreadable = _unreadable(found, verdict)
        if choice is Choice.TRUNCATE and unreadable:
            work.end_at(found, unreadable[0][0])
        for _ in range(ROUNDS):
            found = survey(directory)
            verdict = judge(found)
            if not verdict.damages:
                return Repaired(lost, tuple(work.changed), tuple(work.copies))
            work.rebuild(found, verdict)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise Full(f"no room in {directory.path} for the copies; free some space, then repair again") from error
        raise
    raise Damaged(judge(survey(directory)).damages)


def _begins_late(segments: Sequence[SegmentReport]) -> bool:
    """Say whether what came before the first of these segments is in no snapshot that can be read."""
    heads = (report.header for report in segments if report.snapshot_fault is None)
    return bool(segments) and segments[0].first > 0 and not any(head and head.has_snapshot for head in heads)


def _kept(found: Survey, end: int) -> list[SegmentReport]:
    """Return the segments that hold frames below `end`."""
    return [report for report in found.segments if report.first < end]


class _Repair:
    """One repair under way: what it changed, and where the copies are."""

    def __init__(self, directory: Directory, random: Random):
        self._directory = directory
        self._random = random
        self.changed: list[str] = []
        self.copies: list[str] = []

    def rebuild(self, found: Survey, verdict: Verdict) -> None:
        """Make every damaged file anew, with LOST frames for what cannot be read or does not chain."""
        damaged = {damage.file for damage in verdict.damages}
        segments = list(found.segments)
        if _begins_late(segments) or (not segments and verdict.proven > 0):
            segments.insert(0, SegmentReport(segment_name(0), 0, 0))
            damaged.add(segment_name(0))
        for number, report in enumerate(segments):
            before = segments[number - 1] if number else None
            following = segments[number + 1] if number + 1 < len(segments) else None
            if report.name not in damaged:
                continue
            if following is not None:
                end, chain_behind = following.first, _link_into(following, report)
            else:
                end, chain_behind = _end_of_last(report, verdict.proven), 0
            self._replace(report, _link_into(report, before), end, chain_behind)
        if clean.NAME in damaged:
            self._take_mark_away()

    def end_at(self, found: Survey, end: int) -> None:
        """Take everything from LSN `end` on out of the journal.

        The last segment and the mark go last: until then they say how far the log went, so that a repair which
        is run again after a power cut names all that is lost.
        """
        kept = _kept(found, end)
        if kept:
            before = kept[-2] if len(kept) > 1 else None
            if kept[-1].end > end or kept[-1].size > kept[-1].behind or kept[-1].header is None:
                self._replace(kept[-1], _link_into(kept[-1], before), end, 0)
        for report in found.segments[len(kept) :]:
            aside = self._unused(report.name)
            self._directory.rename(report.name, aside)
            self._directory.sync()
            self.changed.append(report.name)
            self.copies.append(aside)
        if found.clean is not None:
            self._take_mark_away()

    def _take_mark_away(self) -> None:
        self._keep_copy(clean.NAME)
        self._directory.remove(clean.NAME)
        self._directory.sync()
        self.changed.append(clean.NAME)

    def _replace(self, report: SegmentReport, chain: int, end: int, chain_behind: int) -> None:
        """Put a new file, with the good frames below `end`, in the place of this one.

        LOST frames stand for what is missing between them and up to `end`; what comes there chains to
        `chain_behind`.
        """
        if report.size:
            self._keep_copy(report.name)
        unfinished = f"repair{UNFINISHED}"
        if unfinished in self._directory.names():
            self._directory.remove(unfinished)
        source = self._directory.open(report.name, write=False) if report.size else None
        target = self._directory.open(unfinished, create=True)
        try:
            self._write(report, source, target, chain, end, chain_behind)
            target.sync()
        finally:
            target.close()
            if source is not None:
                source.close()
        self._directory.rename(unfinished, report.name)
        self._directory.sync()
        self.changed.append(report.name)

    def _write(
        self, report: SegmentReport, source: File | None, target: File, chain: int, end: int, chain_behind: int
    ) -> None:
        header = report.header
        identity = report.identity if report.identity is not None else self._random.getrandbits(64)
        position, link = HEADER_BYTES, chain
        keeps_snapshot = (
            header is not None
            and header.has_snapshot
            and report.snapshot_fault is None
            and header.chain == chain  # else it is of another history
        )
        if keeps_snapshot and header is not None and source is not None:
            position = copy_bytes(source, HEADER_BYTES, header.body, target, position)
            link = _chain_through(source, header)
        created_ms = header.created_ms if header else 0
        new = SegmentHeader(identity, report.first, chain, position, created_ms, keeps_snapshot)
        write_all(target, [new.encode()], 0)
        expected = report.first
        for run in report.runs:
            if run.first >= end or source is None:
                break
            if run.first > expected or run.chain != link:
                lost = Lost(run.first, run.chain, "unreadable frames, set aside by repair")
                position = _write_lost(target, position, identity, link, expected, lost)
            position = copy_bytes(source, run.position, run.behind, target, position)
            expected, link = run.end, run.last
        if expected < end:
            lost = Lost(end, chain_behind, "unreadable frames, set aside by repair")
            _write_lost(target, position, identity, link, expected, lost)

    def _keep_copy(self, name: str) -> None:
        aside = self._unused(name)
        unfinished = f"copy{UNFINISHED}"
        if unfinished in self._directory.names():
            self._directory.remove(unfinished)
        source = self._directory.open(name, write=False)
        try:
            copy = self._directory.open(unfinished, create=True)
            try:
                copy_bytes(source, 0, source.size(), copy, 0)
                copy.sync()
            except OSError:
                self._directory.remove(unfinished)
                raise
            finally:
                copy.close()
        finally:
            source.close()
        self._directory.rename(unfinished, aside)
        self._directory.sync()
        self.copies.append(aside)

    def _unused(self, name: str) -> str:
        taken = set(self._directory.names())
        number = 1
        while f"{name}.{number}{ASIDE}" in taken:
            number += 1
        return f"{name}.{number}{ASIDE}"


def _link_into(report: SegmentReport, before: SegmentReport | None) -> int:
    """Return the chain that leads into a segment: the end of the one before, or else what its header says."""
    last = before.runs[-1] if before is not None and before.runs else None
    if last is not None and last.end == report.first:
        return last.last
    return report.header.chain if report.header is not None else 0


def _end_of_last(report: SegmentReport, proven: int) -> int:
    """Return where the log ends in its last segment: behind the first run that reaches the proven point."""
    return next((run.end for run in report.runs if run.end >= proven), proven)


def _chain_through(source: File, header: SegmentHeader) -> int:
    """Return what the first frame behind a good snapshot chains to."""
    parts = Scan(source, header.identity, HEADER_BYTES, 0, header.chain, end=header.body, snapshot=True)
    for _ in parts:
        pass
    return parts.chain


def _write_lost(target: File, position: int, identity: int, chain: int, lsn: int, lost: Lost) -> int:
    """Write the frame that stands for those from `lsn` to `lost.end`; return the position behind it.

    It says itself that all below its end is synced, so that it is proven wherever it stands.
    """
    payload = lost_payload(lost)
    header, _ = encode_header(Kind.LOST, lsn, lost.end, identity, chain, payload.length, payload.checksum)
    return write_all(target, [header, *payload.buffers], position)
