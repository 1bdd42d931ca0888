"""Reading a whole journal, every bit of it, without changing anything, and reporting what is there.

A report is facts only. A segment's frames are reported as runs: the first begins at its first LSN if all is
well, and a later one begins wherever good frames are found again behind bad bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from cordwood.errors import Refused
from cordwood.journal import clean
from cordwood.journal.frame import MAGIC as FRAME_MAGIC
from cordwood.journal.frame import Header, Kind
from cordwood.journal.frame import decode_header as decode_frame_header
from cordwood.journal.scan import Scan, Why, Window, search
from cordwood.journal.segment import (
    HEADER_BYTES,
    SUFFIX,
    Places,
    SegmentHeader,
    decode_segment_header,
    first_of,
)
from cordwood.machine.disk import Directory, File

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Run:
    """Good frames behind each other: LSN `first` to `end`, bytes `position` to `behind`.

    `chain` is what the first of them carries, `last` what the frame behind them must carry; `why` says why
    the run stopped.
    """

    first: int
    end: int
    position: int
    behind: int
    chain: int
    last: int
    why: Why


@dataclass(slots=True)
class SegmentReport:
    """What one file holds. `header` is None when it does not match its checksum."""

    name: str
    first: int
    size: int
    header: SegmentHeader | None = None
    identity: int | None = None
    snapshot_fault: tuple[int, Why] | None = None
    runs: list[Run] = field(default_factory=list)
    places: Places = field(default_factory=lambda: Places(0))  # of the first run
    synced: int = 0  # the highest "synced" of any whole header of this segment, wherever it stands
    stray: int = 0  # the position behind the last bytes of ours that are not in the first run, 0 if there are none
    frames: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)  # runs of LSNs that LOST frames stand for

    @property
    def end(self) -> int:
        """The LSN behind the frames that follow each other from the first."""
        return self.runs[0].end if self.runs and self.runs[0].first == self.first else self.first

    @property
    def behind(self) -> int:
        """The position behind these frames."""
        if self.runs and self.runs[0].first == self.first:
            return self.runs[0].behind
        return self.header.body if self.header else HEADER_BYTES


@dataclass(frozen=True, slots=True)
class Survey:
    """What a journal's directory holds. `clean` is the mark's bytes, None where there is no mark."""

    segments: tuple[SegmentReport, ...]
    clean: bytes | None


def find_segments(directory: Directory) -> list[tuple[int, str]]:
    """Return (first LSN, name) of each segment, in order; refuse a `*.wal` that is not named like one."""
    found = []
    for name in directory.names():
        if name.endswith(SUFFIX):
            first = first_of(name)
            if first is None:
                raise Refused(f"{name!r} in {directory.path} is not named like a segment; move it elsewhere")
            found.append((first, name))
    return sorted(found)


def survey(directory: Directory, *, window: Window | None = None, progress: Progress | None = None) -> Survey:
    """Report on every segment and the clean mark. Nothing is written, no damage raises."""
    window = window or Window()
    segments = find_segments(directory)
    reports = []
    for number, (first, name) in enumerate(segments):
        stop = segments[number + 1][0] if number + 1 < len(segments) else None
        file = directory.open(name, write=False)
        try:
            reports.append(examine(file, name, first, stop, window=window, progress=progress))
        finally:
            file.close()
    return Survey(tuple(reports), clean.read_clean(directory))


def examine(
    file: File,
    name: str,
    first: int,
    stop: int | None,
    *,
    window: Window | None = None,
    progress: Progress | None = None,
) -> SegmentReport:
    """Report on one segment, whose frames at `stop` and above stand in another file."""
    window = window or Window()
    report = SegmentReport(name, first, file.size(), places=Places(first))
    head = bytearray(HEADER_BYTES)
    have = file.read_into(memoryview(head), 0)
    header = decode_segment_header(name, bytes(head[:have]))
    if header is not None and header.first == first and HEADER_BYTES <= header.body <= report.size:
        report.header, report.identity = header, header.identity
        report.synced = first
        chain = header.chain
        if header.has_snapshot or header.body > HEADER_BYTES:
            parts = Scan(file, header.identity, HEADER_BYTES, 0, chain, end=header.body, snapshot=True, window=window)
            for position, _, _ in parts:
                if progress:
                    progress(position)
            if parts.why is not Why.EOF:
                report.snapshot_fault = (parts.position, parts.why)
            chain = parts.chain
        start = header.body
        if report.snapshot_fault:
            _resync(file, report, start, first, stop, window)
        else:
            _run(file, report, start, first, chain, stop, window, progress)
    else:
        report.identity = _guess_identity(file, window)
        start = HEADER_BYTES
        if report.identity is not None:
            _resync(file, report, start, first, stop, window)
    if report.identity is not None and report.runs and report.runs[-1].why not in (Why.LIMIT, Why.EOF):
        last = report.runs[-1]
        # The frame that comes next did not hold where it has to stand; only a later one may.
        _resync(file, report, last.behind, last.end + 1, stop, window)
    return report


def _run(
    file: File,
    report: SegmentReport,
    position: int,
    lsn: int,
    chain: int,
    stop: int | None,
    window: Window,
    progress: Progress | None = None,
) -> Scan:
    """Add the run of good frames that begins here, if there is one frame at least, or if it is the first."""
    assert report.identity is not None
    scan = Scan(file, report.identity, position, lsn, chain, stop_lsn=stop, window=window)
    keep = not report.runs and lsn == report.first
    places = report.places
    for here, header, _ in scan:
        report.frames += 1
        if header.kind == Kind.LOST and scan.lsn > header.lsn:
            report.lost.append((header.lsn, scan.lsn))
        if keep and header.kind == Kind.LOST:
            places.lose(scan.lsn, here)
        elif keep:
            places.add(here)
        if progress:
            progress(scan.position)
    report.synced = max(report.synced, scan.synced)
    if scan.lsn > lsn or keep:
        report.runs.append(Run(lsn, scan.lsn, position, scan.position, chain, scan.chain, scan.why))
    return scan


def _resync(file: File, report: SegmentReport, position: int, lsn: int, stop: int | None, window: Window) -> None:
    """Add every run of good frames from LSN `lsn` on found behind `position`, and whatever whole headers prove."""
    assert report.identity is not None
    behind = position
    for here, header in search(file, report.identity, position):
        if here < behind:
            continue
        length = header.length if header is not None else 0
        report.stray = max(report.stray, min(here + HEADER_BYTES + length, report.size))
        if header is None or header.kind == Kind.SNAPSHOT:
            continue
        report.synced = max(report.synced, header.synced)
        if header.lsn < lsn or (stop is not None and header.lsn >= stop):
            continue
        scan = _run(file, report, here, header.lsn, header.chain, stop, window)
        behind, lsn = scan.position, scan.lsn + 1


def _guess_identity(file: File, window: Window) -> int | None:
    """Return the identity that the first whole frame carries, for a file whose own header is damaged."""
    size, position = file.size(), 0
    while size - position >= HEADER_BYTES:
        view = window.at_least(min(2 * HEADER_BYTES, size - position), size - position)
        have = file.read_into(view[: min(len(view), size - position)], position)
        data = bytes(view[:have])
        found = data.find(FRAME_MAGIC)
        while found >= 0:
            header: Header | None = decode_frame_header(data, found)
            if header is not None:
                return header.identity
            found = data.find(FRAME_MAGIC, found + 1)
        if have < HEADER_BYTES or position + have >= size:
            return None
        position += have - (HEADER_BYTES - 1)
    return None
