"""The journal beside the disk it writes to: throughput, sharing of syncs, latency, opening.

Each figure is a ratio to a raw loop (`bench.raw`) taken in turns with it, so that a noisy neighbour slows both.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.callers import Tasks, Thread
from bench.opening import Opened, copy_of, fill, opened, segments
from bench.still import open_still
from cordwood.bench import raw
from cordwood.bench.loop import event_loop
from cordwood.bench.result import Result, alone, at_least, at_most, compared
from cordwood.journal.committer import Committer
from cordwood.journal.frame import HEADER_BYTES, pack
from cordwood.journal.journal import Journal

Tell = Callable[[str], None]

MB = 1_000_000
MIB = 1 << 20
CALLERS = 64
IN_FLIGHT = 8
SETTLE_SECONDS = 0.15  # an idle committer writes one mark after 50 ms; raw must not meet it


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured. The defaults take under four minutes and under 3 GiB of disk.

    `frames` and `warm_up_frames` (of 1 MiB) span several segments, so that rotations are in every round.
    """

    rounds: int = 7
    extra_rounds: int = 3  # for the lines that have no bar
    frames: int = 256
    warm_up_frames: int = 192
    seconds: float = 0.45  # one round of the 64 callers
    writes: int = 1000  # one round of one caller
    opening_bytes: int = 1 << 30
    small_frames_bytes: int = 1 << 30  # the journal of the extra lines


QUICK = Effort(
    rounds=3,
    extra_rounds=1,
    frames=96,
    warm_up_frames=96,
    seconds=0.3,
    writes=300,
    opening_bytes=128 << 20,
    small_frames_bytes=64 << 20,
)


def measure(scratch: Path, effort: Effort, tell: Tell) -> Iterator[Result]:
    """Yield every figure of the journal, measured in this directory, which is left empty."""
    yield from large_frames(scratch, effort, tell)
    yield from many_callers(scratch, effort, tell)
    yield from one_caller(scratch, effort, tell)
    yield from openings(scratch, effort, tell)


# Frames of 1 MiB


def large_frames(scratch: Path, effort: Effort, tell: Tell) -> Iterator[Result]:
    """Yield megabytes a second of large frames, as a running broker writes them and in two harder ways."""
    piece = os.urandom(MIB)
    per_second = MIB / MB
    with raw.Prepared(scratch / "raw", effort.frames * MIB) as file:

        def beside(rounds: int, name: str, ours: Callable[[], float]) -> list[tuple[float, float]]:
            pairs = []
            for number in range(rounds):
                raw.write_rate(file, piece, count=effort.frames // 4)
                theirs = raw.write_rate(file, piece, count=effort.frames) * per_second
                pairs.append((ours() * per_second, theirs))
                tell(f"{name}, round {number + 1}: {pairs[-1][0]:.0f} MB/s, raw {theirs:.0f} MB/s")
            return pairs

        path = scratch / "recycled"
        thread = Thread(open_still(path), releases=True)

        def recycled(in_flight: int) -> float:
            return _flow_rate(thread, piece, effort, in_flight)

        name = "frames of 1 MiB"
        recycled(IN_FLIGHT)  # the first segments are zero-filled; from then on they are recycled
        yield compared(
            name,
            "MB/s",
            beside(effort.rounds, name, lambda: recycled(IN_FLIGHT)),
            at_least(0.8),
            f"a running broker: segments released and recycled, up to {IN_FLIGHT} frames in flight, "
            f"the clock started after {effort.warm_up_frames} frames of warm-up",
        )
        name = "… each frame waited for"
        yield compared(
            name,
            "MB/s",
            beside(effort.extra_rounds, name, lambda: recycled(1)),
            note="as above, one frame in flight",
        )
        _end(thread.committer, path)

        def fresh() -> float:
            path = scratch / "fresh"
            thread = Thread(open_still(path), releases=False)
            rate = _flow_rate(thread, piece, effort, IN_FLIGHT)
            _end(thread.committer, path)
            return rate

        name = "… nothing released"
        yield compared(
            name,
            "MB/s",
            beside(effort.extra_rounds, name, fresh),
            note="every segment is zero-filled while the one before is written: two bytes to the disk for each "
            "of ours, and a page cache that grows, which is dear on a virtual machine whose memory was never touched",
        )
    (scratch / "raw").unlink()


def _flow_rate(thread: Thread, piece: bytes, effort: Effort, in_flight: int) -> float:
    """Return frames a second in the middle of a flow: spares made before it began are used up in the warm-up."""
    thread.send(piece, count=effort.warm_up_frames, in_flight=in_flight)
    thread.wait(thread.committer.journal.end - 1)
    began = perf_counter()
    thread.send(piece, count=effort.frames, in_flight=in_flight)
    thread.wait(thread.committer.journal.end - 1)
    rate = effort.frames / (perf_counter() - began)
    _settle(thread.committer.journal)
    return rate


# 64 callers


def many_callers(scratch: Path, effort: Effort, tell: Tell) -> Iterator[Result]:
    """Yield appends a second of callers who share syncs, and how many share one."""
    piece = os.urandom(1024)
    path = scratch / "many"
    name = f"{CALLERS} callers, 1 KiB"
    pairs, groups = [], []
    with raw.Prepared(scratch / "raw", 64 * MIB) as file, event_loop() as runner:
        tasks = runner.run(_tasks(open_still(path), CALLERS))
        runner.run(_appends(tasks, piece, effort.seconds / 2))
        for number in range(effort.rounds):
            _settle(tasks.committer.journal)
            theirs = raw.write_rate_for(file, piece, seconds=effort.seconds)
            before = tasks.syncs
            count, seconds = runner.run(_appends(tasks, piece, effort.seconds))
            pairs.append((count / seconds, theirs))
            groups.append(count / (tasks.syncs - before))
            tell(f"{name}, round {number + 1}: {count / seconds:.0f}/s, raw {theirs:.0f}/s")
        _end(tasks.committer, path)
    (scratch / "raw").unlink()
    yield compared(
        name,
        "appends/s",
        pairs,
        at_least(8),
        f"asyncio tasks that each wait for their sync; raw syncs one by one; rounds of {effort.seconds:g} s",
    )
    yield alone("… appends per sync", "", groups, at_least(16))


async def _tasks(journal: Journal, callers: int) -> Tasks:
    return Tasks(journal, callers)


async def _appends(tasks: Tasks, piece: bytes, seconds: float) -> tuple[int, float]:
    """Return how many appends all callers made, and in what time."""
    began = perf_counter()
    until = began + seconds

    async def call() -> int:
        count = 0
        while perf_counter() < until:
            await tasks.write(piece)
            count += 1
        return count

    counts = await asyncio.gather(*(call() for _ in range(CALLERS)))
    return sum(counts), perf_counter() - began


# One caller


def one_caller(scratch: Path, effort: Effort, tell: Tell) -> Iterator[Result]:
    """Yield the median time from append to synced of a caller who is alone."""
    piece = os.urandom(1024)
    frame = bytes(HEADER_BYTES) + b"".join(pack([piece]).buffers)
    from_thread, from_loop = [], []
    with raw.Prepared(scratch / "raw", 64 * MIB) as file, event_loop() as runner:
        journal = open_still(scratch / "thread")
        journal.maintain()
        tasks = runner.run(_tasks(open_still(scratch / "loop"), 1))
        runner.run(_latency(tasks, piece, 50))
        _times(journal, piece, 50)
        for number in range(effort.rounds):
            _settle(tasks.committer.journal)
            theirs = 1e6 * median(raw.write_times(file, frame, count=effort.writes))
            thread = 1e6 * median(_times(journal, piece, effort.writes))
            loop = 1e6 * median(runner.run(_latency(tasks, piece, effort.writes)))
            from_thread.append((thread, theirs))
            from_loop.append((loop, theirs))
            tell(f"one caller, round {number + 1}: {thread:.0f} and {loop:.0f} µs, raw {theirs:.0f} µs")
        _end(tasks.committer, scratch / "loop")
    journal.close()
    shutil.rmtree(scratch / "thread")
    (scratch / "raw").unlink()
    yield compared(
        "one caller, a thread",
        "µs p50",
        from_thread,
        at_most(2),
        f"1 KiB, append to synced, with journal.write; raw writes the frame's {len(frame)} bytes",
    )
    yield compared(
        "one caller, asyncio",
        "µs p50",
        from_loop,
        at_most(2),
        "the same from an event loop, which commits for a lone caller itself",
    )


def _times(journal: Journal, piece: bytes, count: int) -> list[float]:
    times = []
    for _ in range(count):
        began = perf_counter()
        journal.write([piece])
        times.append(perf_counter() - began)
    return times


async def _latency(tasks: Tasks, piece: bytes, count: int) -> list[float]:
    times = []
    for _ in range(count):
        began = perf_counter()
        await tasks.write(piece)
        times.append(perf_counter() - began)
    return times


# Opening


def openings(scratch: Path, effort: Effort, tell: Tell) -> Iterator[Result]:
    """Yield the time and memory of opening a large journal, after a kill and after a clean shutdown."""
    for frame_bytes in (MIB, 64 << 10, 4 << 10):
        large = frame_bytes == MIB
        total_bytes = effort.opening_bytes if large else effort.small_frames_bytes
        tell(f"writing {total_bytes >> 20} MiB in frames of {frame_bytes >> 10} KiB")
        closed = scratch / "closed"
        journal = open_still(closed)
        fill(journal, total_bytes, frame_bytes)
        killed = copy_of(closed, scratch / "killed")  # of a journal in use: what a kill would leave
        journal.close()
        for source in (killed, closed):
            size = "1 GiB" if total_bytes == 1 << 30 else f"{total_bytes >> 20} MiB"
            about = f"opening {size}" if large else f"… in frames of {frame_bytes >> 10} KiB"
            name = f"{about}, {source.name}"
            rounds = effort.rounds if large else effort.extra_rounds
            pairs, found = [], []
            for number in range(rounds):
                theirs, ours = _opening(source, scratch / "copy", frame_bytes)
                assert ours.frames == total_bytes // frame_bytes, "every frame is there again"
                pairs.append((ours.seconds, theirs))
                found.append(ours)
                tell(f"{name}, round {number + 1}: {ours.seconds:.3f} s, raw {theirs:.3f} s")
            grown = median((one.peak_bytes - one.before_bytes) / MB for one in found)
            yield compared(
                name,
                "s",
                pairs,
                at_most(1.5) if total_bytes == 1 << 30 and large else None,  # below, fixed costs decide
                f"warm page cache; raw reads and checksums the same files in pieces of {frame_bytes >> 10} KiB; "
                f"memory grew by {grown:.0f} MB",
            )
            if large:
                peaks = [one.peak_bytes / MB for one in found]
                yield alone("… peak memory", "MB", peaks, at_most(200), "VmHWM of the process that opened it")
        shutil.rmtree(killed)
        shutil.rmtree(closed)


def _opening(source: Path, copy: Path, piece_bytes: int) -> tuple[float, Opened]:
    """Return the raw seconds and the opening of a copy, both with a warm page cache."""
    copy_of(source, copy)
    files = segments(copy)
    raw.read_checked(files, MIB)
    theirs = raw.read_checked(files, piece_bytes)
    ours = opened(copy)
    shutil.rmtree(copy)
    return theirs, ours


def _settle(journal: Journal) -> None:
    """Wait until no thread of the journal has anything left to do, so that raw has the disk to itself."""
    while journal.wants_maintenance:
        time.sleep(0.01)
    time.sleep(SETTLE_SECONDS)


def _end(committer: Committer, path: Path) -> None:
    committer.stop()
    committer.journal.close()
    shutil.rmtree(path)
