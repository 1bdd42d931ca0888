"""What a survey means. Pure: a survey in, a verdict out.

    what proves that frame n was synced?                        what it means           what follows
    a later frame's "synced", a later segment, the clean mark   the disk changed it     refuse, and name the place
    nothing                                                     a write was cut short   keep a copy, cut it, sync
    nothing, and no byte behind is of this segment              the end                 start

A frame we acknowledged was synced first. So it is proven as soon as anything was written after it, and until
then nothing in the file tells damage to it from a torn write.
"""

from dataclasses import dataclass

from cordwood.errors import Damage
from cordwood.journal import clean
from cordwood.journal.survey import SegmentReport, Survey

REPAIR = "Nothing was changed; run `cordwood wal verify` to see all of it, then `cordwood wal repair`."
LOSSLESS = "Nothing was changed and no frame is lost; `cordwood wal repair` mends it."


@dataclass(frozen=True, slots=True)
class Cut:
    """Bytes of the last segment that are not part of the log: from a write that never finished."""

    name: str
    lsn: int
    position: int
    behind: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with a journal.

    `damages` is empty if it may be opened. Then the frames below `proven` are known to have been synced, those
    from there to `end` are whole and must be written again, `torn` must be copied and cut, and the state begins
    with the snapshot of segment number `snapshot` (None: from nothing).
    """

    damages: tuple[Damage, ...]
    proven: int
    end: int
    torn: Cut | None
    snapshot: int | None
    is_clean: bool


def judge(found: Survey) -> Verdict:
    """Return what this survey means."""
    damages: list[Damage] = []
    clean_end = clean.decode_clean(found.clean) if found.clean is not None else None
    segments = found.segments
    for number, report in enumerate(segments[:-1]):
        following = segments[number + 1]
        proof = f"{following.name} follows"
        _judge_head(report, damages)
        _judge_frames(report, following.first, proof, damages)
        if clean_end is not None and report.end == following.first and report.behind < report.size:
            damages.append(_behind(report, following.first))
        last = report.runs[-1] if report.runs else None
        link = last.last if last else (report.header.chain if report.header else None)
        if (
            following.header is not None
            and link is not None
            and (last is None or last.end == following.first)
            and link != following.header.chain
        ):
            damages.append(
                Damage(
                    following.name,
                    0,
                    following.first,
                    following.first,
                    f"the segment does not chain to {report.name}",
                    "a segment is named after what came before is synced",
                    REPAIR,
                )
            )
    proven = end = 0
    torn = None
    if segments:
        report = segments[-1]
        _judge_head(report, damages)
        proven = max(report.first, report.synced, clean_end or 0)
        end = report.end
        if end < proven:
            proof = (
                "the clean mark covers it"
                if (clean_end or 0) >= proven
                else f"a later frame says that all below LSN {proven} was synced"
            )
            _judge_frames(report, proven, proof, damages)
            assert damages, "a log that ends before the proven point is damaged"
        elif clean_end is not None and end > clean_end:
            reason = f"the log goes on to LSN {end - 1}, behind the clean mark's end at {clean_end}"
            proof = "nothing is appended while there is a mark"
            damages.append(Damage(clean.NAME, 16, end, end, reason, proof, LOSSLESS))
        elif clean_end is not None and report.behind < report.size and report.first != clean_end:
            # (An opening that was cut off after it began its own segment leaves the mark: that one has room left.)
            damages.append(_behind(report, end))
        elif report.stray:
            torn = Cut(report.name, end, report.behind, report.stray)
    elif clean_end:
        proven = clean_end
        damages.append(
            Damage(clean.NAME, 0, 0, clean_end, "the segments are gone", "the clean mark covers them", REPAIR)
        )
    if found.clean is not None and clean_end is None:
        expected = clean.encode_clean(end)
        differs = (i for i, (a, b) in enumerate(zip(found.clean, expected, strict=False)) if a != b)
        damages.append(
            Damage(
                clean.NAME,
                next(differs, min(len(found.clean), len(expected))),
                end,
                end,
                "the clean mark does not match its checksum" + ("" if segments else ", and the segments are gone"),
                "the mark is renamed into place after it is synced",
                LOSSLESS if segments else REPAIR,
            )
        )
    snapshot = _newest_snapshot(segments)
    if not damages and snapshot is None and segments and segments[0].first > 0:
        damages.append(
            Damage(
                segments[0].name,
                0,
                0,
                segments[0].first,
                "no segment holds a snapshot of what came before",
                "the log does not begin at LSN 0",
                REPAIR,
            )
        )
    return Verdict(tuple(damages), proven, end, torn, snapshot, clean_end is not None)


def _newest_snapshot(segments: tuple[SegmentReport, ...]) -> int | None:
    for number in reversed(range(len(segments))):
        header = segments[number].header
        if header is not None and header.has_snapshot:
            return number
    return None


def _judge_head(report: SegmentReport, damages: list[Damage]) -> None:
    """A segment gets its name after its header and snapshot are synced: what does not hold is damage."""
    proof = "a segment is named after its head is synced"
    if report.header is None:
        reason = "the segment's header does not match its checksum or its name"
        damages.append(Damage(report.name, 0, report.first, report.first, reason, proof, LOSSLESS))
    elif report.snapshot_fault:
        position, why = report.snapshot_fault
        damages.append(
            Damage(report.name, position, report.first, report.first, f"in the snapshot, {why}", proof, LOSSLESS)
        )


def _judge_frames(report: SegmentReport, proven: int, proof: str, damages: list[Damage]) -> None:
    """Name each run of frames below `proven` that cannot be read."""
    expected = report.first
    position = report.header.body if report.header else 0
    why = "no frame of this segment begins here"
    for run in report.runs:
        if run.first > expected:
            end = min(run.first, proven)
            damages.append(Damage(report.name, position, expected, end, why, proof, REPAIR))
        expected, position, why = run.end, run.behind, str(run.why)
        if expected >= proven:
            return
    if position == report.size:
        why = "the file ends"
    damages.append(Damage(report.name, position, expected, proven, why, proof, REPAIR))


def _behind(report: SegmentReport, end: int) -> Damage:
    return Damage(
        report.name,
        report.behind,
        end,
        end,
        f"{report.size - report.behind} bytes stand behind the end of the log",
        "a clean shutdown leaves nothing behind the end",
        LOSSLESS,
    )
