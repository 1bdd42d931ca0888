"""Opening a journal after we do not know what happened.

    1  lock the directory                             a second process is told so
    2  survey, judge                                  damage: refuse; nothing has been changed so far
    3  remove unfinished files
    4  copy the torn bytes to *.torn, sync            found again, and copied again, if cut off here
    5  fold the frames that are proven to be synced
    6  write a new segment: a snapshot of that state, then every good frame above, again
    7  publish it                                     from here on the old bytes above do not count
    8  cut what the new segment replaced, sync
    9  take the clean mark away, sync the directory

A power cut between any two of these leaves a journal that opens with the same frames. A frame above the proven
point may be in the kernel and not on the disk, so it is written again, to another file, before anybody sees it.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random, SystemRandom

from cordwood.errors import Damage, Damaged, Full
from cordwood.journal import clean
from cordwood.journal.fold import Fold
from cordwood.journal.frame import CHAIN_AT, Kind, payload_of, unpack
from cordwood.journal.journal import Journal
from cordwood.journal.limits import Limits
from cordwood.journal.scan import Scan, Window
from cordwood.journal.segment import HEADER_BYTES, Segment
from cordwood.journal.spares import NO_ROOM, UNFINISHED, Spare, Spares, lengthen
from cordwood.journal.survey import SegmentReport, Survey, survey
from cordwood.journal.verdict import REPAIR, Cut, Verdict, judge
from cordwood.journal.writer import Writer
from cordwood.machine.clock import Clock, SystemClock
from cordwood.machine.disk import Directory, copy_bytes

log = logging.getLogger("cordwood.journal")


def open_journal(
    directory: Directory,
    fold: Fold,
    limits: Limits | None = None,
    *,
    clock: Clock | None = None,
    random: Random | None = None,
) -> Journal:
    """Return the journal in this directory, begun if there is none, with `fold` brought up to its end.

    Raises `Locked` if another process has it and `Damaged` if acknowledged data does not read as it was written;
    then nothing was changed. The directory is closed with the journal, also when this raises.
    """
    try:
        directory.lock()
        window = Window()
        found = survey(directory, window=window)
        verdict = judge(found)
        if verdict.damages:
            raise Damaged(verdict.damages)
        return recover(
            directory,
            fold,
            limits or Limits(),
            clock or SystemClock(),
            random or SystemRandom(),
            found,
            verdict,
            window,
        )
    except OSError as error:
        directory.close()
        if error.errno in NO_ROOM:
            raise Full(
                f"no room in {directory.path} to open the journal: free some space, then start again"
            ) from error
        raise
    except BaseException:
        directory.close()
        raise


def recover(
    directory: Directory,
    fold: Fold,
    limits: Limits,
    clock: Clock,
    random: Random,
    found: Survey,
    verdict: Verdict,
    window: Window,
) -> Journal:
    """Make a judged journal ready for appends: steps 3 to 9 above."""
    for name in directory.names():
        if name.endswith(UNFINISHED):
            try:
                directory.remove(name)
            except OSError as error:
                log.warning("%r is left alone: %s", name, error.strerror)
    spares = Spares(directory, limits.segment_bytes, lambda: random.getrandbits(64))
    if verdict.torn:
        keep_torn(directory, verdict.torn, spares)
    reports = list(found.segments)
    chain = _fold_proven(directory, fold, reports, verdict, window)
    if reports and not spares.ready:
        cut(directory, reports[-1], verdict.end)  # what it has left may be the only room there is
    prepared = _first_file(directory, spares, limits)
    writer = Writer.begin(
        directory,
        prepared,
        first=verdict.proven,
        chain=chain,
        snapshot=fold.snapshot(),
        identity=random.getrandbits(64),
        created_ms=clock.now_ms(),
    )
    try:
        if reports and verdict.end > verdict.proven:
            _write_again(directory, fold, reports[-1], writer, verdict, window)
        writer.publish(prepared)
        if reports and reports[-1].first == verdict.proven:
            reports.pop()  # the new segment took its name and holds all that it held
        segments = [cut(directory, report, writer.segment.first) for report in reports]
        if found.clean is not None:
            directory.remove(clean.NAME)
            directory.sync()
    except BaseException:
        writer.file.close()
        raise
    journal = Journal(directory, fold, limits, clock, random, [*segments, writer.segment], writer, spares)
    journal.torn_bytes = verdict.torn.behind - verdict.torn.position if verdict.torn else 0
    return journal


def _fold_proven(
    directory: Directory, fold: Fold, reports: list[SegmentReport], verdict: Verdict, window: Window
) -> int:
    """Bring `fold` to the proven point and return what the frame there must chain to."""
    chain = 0
    for number, report in enumerate(reports):
        assert report.header is not None and report.identity is not None
        chain = report.header.chain
        if verdict.snapshot is not None and number < verdict.snapshot:
            continue
        file = directory.open(report.name, write=False)
        try:
            parts = Scan(
                file,
                report.identity,
                HEADER_BYTES,
                0,
                chain,
                end=report.header.body,
                snapshot=True,
                window=window,
            )
            if number == verdict.snapshot:
                with _understood(report.name, HEADER_BYTES, report.first):
                    fold.restore(payload for _, _, payload in parts)
                if parts.position != report.header.body:
                    for _ in parts:  # an owner that stopped early; the chain goes through all of them
                        pass
                for earlier in reports[:number]:
                    for first, end in earlier.lost:  # the snapshot may be older than the choice to give them up
                        fold.lost(first, end)
            else:
                for _ in parts:
                    pass
            stop = min(report.end, verdict.proven)
            if stop > report.first:
                scan = Scan(
                    file,
                    report.identity,
                    report.header.body,
                    report.first,
                    parts.chain,
                    stop_lsn=stop,
                    window=window,
                )
                _apply(fold, report.name, scan)
                assert scan.lsn == stop, "what was read once reads again"
                chain = scan.chain
        finally:
            file.close()
    return chain


def _apply(fold: Fold, name: str, scan: Scan) -> None:
    for position, header, payload in scan:
        if header.kind == Kind.DATA:
            with _understood(name, position, header.lsn):
                fold.apply(header.lsn, _entries(name, position, header.lsn, payload))
        elif header.kind == Kind.LOST and scan.lsn > header.lsn:
            fold.lost(header.lsn, scan.lsn)


@contextmanager
def _understood(name: str, position: int, lsn: int) -> Iterator[None]:
    """Say where it stands if the owner finds that bytes which are whole are not its own."""
    try:
        yield
    except ValueError as error:
        proof, remedy = "its checksum holds", "Open it with what wrote it, or put a copy back; nothing was changed."
        raise Damaged([Damage(name, position, lsn, lsn, str(error), proof, remedy)]) from error


def _entries(name: str, position: int, lsn: int, payload: memoryview) -> list[memoryview]:
    try:
        return unpack(payload)
    except ValueError as error:
        damage = Damage(name, position, lsn, lsn + 1, str(error), "its checksum holds", REPAIR)
        raise Damaged([damage]) from error


def _write_again(
    directory: Directory, fold: Fold, report: SegmentReport, writer: Writer, verdict: Verdict, window: Window
) -> None:
    """Copy the frames from the proven point to the end into the new segment, and fold them."""
    assert report.identity is not None
    run = report.runs[0]
    lsn, position = report.places.find(verdict.proven)
    assert lsn == verdict.proven, "a LOST frame says itself that it is synced"
    file = directory.open(report.name, write=False)
    try:
        link = bytearray(8)
        file.read_into(memoryview(link), position + CHAIN_AT)
        chain = int.from_bytes(link, "little")
        scan = Scan(file, report.identity, position, verdict.proven, chain, stop_lsn=run.end, window=window)
        for position, header, payload in scan:
            writer.write([(header.kind, payload_of([payload]))], verdict.proven)
            if header.kind == Kind.DATA:
                with _understood(report.name, position, header.lsn):
                    fold.apply(header.lsn, _entries(report.name, position, header.lsn, payload))
        assert scan.lsn == verdict.end, "what was read once reads again"
    finally:
        file.close()


def keep_torn(directory: Directory, torn: Cut, spares: Spares) -> None:
    """Copy what is to be cut to `<segment>-<LSN>.torn`, into a spare if need be, and make the copy durable."""
    name = f"{torn.name.removesuffix('.wal')}-{torn.lsn}.torn"
    if name in directory.names():
        directory.remove(name)
    try:
        directory.open(name, create=True).close()
        _copy_torn(directory, torn, name)
    except OSError as error:
        if error.errno not in NO_ROOM or not spares.ready:
            raise
        spare = spares.ready.pop()
        directory.rename(spare.name, name)
        _copy_torn(directory, torn, name)
    log.warning(
        "%s was cut at byte %d (LSN %d): a write that was never acknowledged; a copy is in %s",
        torn.name,
        torn.position,
        torn.lsn,
        name,
    )


def _copy_torn(directory: Directory, torn: Cut, name: str) -> None:
    length = torn.behind - torn.position
    source = directory.open(torn.name, write=False)
    try:
        copy = directory.open(name)
        try:
            done = copy_bytes(source, torn.position, torn.behind, copy, 0)
            assert done == length, "the file is as long as it was"
            copy.truncate(length)
            copy.sync()
        finally:
            copy.close()
    finally:
        source.close()
    directory.sync()


def cut(directory: Directory, report: SegmentReport, end: int) -> Segment:
    """Cut a segment behind the frames that count, if anything stands there, and return it as a closed one."""
    assert report.header is not None
    behind = report.behind
    if end < report.end:
        _, behind = report.places.find(end)
        report.places.cut(end)
    if behind < report.size:
        file = directory.open(report.name)
        try:
            file.truncate(behind)
            file.sync()
        finally:
            file.close()
        report.size = behind
    return Segment(report.header, report.places, behind)


def _first_file(directory: Directory, spares: Spares, limits: Limits) -> str:
    """Return a file to begin the new segment in: a spare, a new one, or, on a full disk, an empty one."""
    spare = spares.fitting(limits.segment_bytes)
    if spare is not None:
        spares.ready.remove(spare)
        return spare.name
    try:
        return spares.make(limits.segment_bytes).name
    except Full:
        return _small_file(directory).name


def _small_file(directory: Directory) -> Spare:
    """Return an empty file: the disk is full, and opening needs less than a whole segment."""
    name = f"opening{UNFINISHED}"
    file = directory.open(name, create=True)
    try:
        lengthen(file, 0, HEADER_BYTES)
    except OSError:
        directory.remove(name)
        raise
    finally:
        file.close()
    return Spare(name, HEADER_BYTES)
