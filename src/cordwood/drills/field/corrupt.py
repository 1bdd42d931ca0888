"""corrupt: bits flipped in the tail and in the middle of a stopped journal, with its history in a tier.

    where the bit is                       the start                          what brings it back
    in frames that hold the only copy      refused, exit 65, the place named  `wal repair --quarantine`: all else
    in frames whose messages are tiered    refused, exit 65, the place named  `wal repair`: everything, from the tier
    in a header, a snapshot, the mark      refused, exit 65, the place named  `wal repair`: everything

Expected: nothing is changed by a refused start; a repair keeps a copy; what it says is lost is all that is missing.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from cordwood.drills.field.actor import finish
from cordwood.drills.field.process import BrokerProcess
from cordwood.drills.field.reader import look
from cordwood.drills.field.stage import Stage, until
from cordwood.drills.field.witness import History, Place
from cordwood.drills.field.writer import BATCH, PARTITIONS, TOPIC, writers

DAMAGED = 65
# An object after each second.
TIER: dict[str, Any] = {"tier": "", "tier_interval_s": 1, "tier_object_bytes": 1 << 20, "cache_bytes": 0}


def run(stage: Stage) -> None:
    """Flip one bit after the other; each is found and named, and repaired with no more loss than is said."""
    broker = BrokerProcess(stage, stage.directory("data"), **TIER).start()
    broker.create(TOPIC, PARTITIONS)
    history = History()
    stage.step("publish until a segment is full and tiered, start again, publish a little more, and stop cleanly")
    sending = writers(stage, broker, history, size=4_000)
    until(lambda: len(_segments(broker.data)) >= 2, "a second segment")
    finish(sending)
    until(lambda: _tiered(broker), "all messages in the tier")
    broker.stop()
    broker.start()  # its first segment begins with a snapshot that knows what is in the tier; the one before it stays
    more = writers(stage, broker, history, numbered=1, single=1, shift="-later")
    before = len(history.acknowledged)
    until(lambda: len(history.acknowledged) >= before + 50, "50 messages more")
    finish(more)
    stage.expect("the broker stops cleanly", (code := broker.stop()) == 0, f"exit code {code}")
    segments = _segments(broker.data)
    stage.expect("two segments or more", len(segments) >= 2, ", ".join(path.name for path in segments))
    flips = stage.times(2, 10)
    for number in range(flips):
        place = "the tail" if number % 2 else "the middle"
        _round(stage, broker.data, history, segments[-1] if number % 2 else segments[-2], place)
    stage.expect("every flip is found, named and repaired", True, f"{flips} of {flips}")


def _round(stage: Stage, source: Path, history: History, segment: Path, place: str) -> None:
    data = source.parent / "damaged"
    shutil.copytree(source, data)
    path = data / "journal" / segment.name
    position, bit = _flip(stage, path, tail=place == "the tail")
    before = _content(data)
    stage.mark("flipped bit")
    stage.step(f"bit {bit} of byte {position} in {place} ({segment.name}) is flipped")
    broker = BrokerProcess(stage, data, **TIER)
    code, said = broker.refused()
    stage.expect("the start is refused with exit code 65", code == DAMAGED, f"{code}: {said}")
    stage.expect("it names the file", segment.name in said or "clean" in said, said)
    stage.expect("nothing was changed", _content(data) == before, "every file is as it was")
    report = json.loads(_wal("verify", data, "--json").stdout)
    near = [one for one in report["damages"] if one["file"] == segment.name and one["position"] <= position]
    stage.expect("`wal verify` names the place", bool(near), json.dumps(report["damages"])[:500])
    lost, unnamed = _repair(stage, data, tiered=place == "the middle")
    broker.start()
    reading = look(broker, History(), f"the reader after the repair of {place}", stage.timeline)
    broker.kill()
    held = {seen.place: seen.write for seen in reading.seen}
    missing = {place for _, place in history.acknowledged} - held.keys()
    last = {place for place in missing - lost if Place(place.partition, place.offset + 1) not in held}
    # Behind the very last frame nothing says what it held: its LSN is named, and one request is at most a batch.
    stage.expect(
        "nothing is missing but what the repair named",
        missing == lost | last and len(last) <= unnamed * BATCH,
        f"{len(missing)} of {len(history.acknowledged)} missing, {len(lost)} named, {unnamed} LSNs at the end",
    )
    strange = [place for write, place in history.acknowledged if place in held and held[place] != write]
    stage.expect("all else is as it was acknowledged", not strange, f"{len(held)} messages are")
    shutil.rmtree(data)


def _repair(stage: Stage, data: Path, *, tiered: bool) -> tuple[set[Place], int]:
    """Repair, without a choice if that loses nothing, else by giving up what cannot be read.

    Returns the messages that it names as lost, and how many frames at the end of the log.
    """
    done = _wal("repair", data, "--json")
    if tiered:
        stage.expect(
            "`wal repair` restores it from the tier", done.returncode == 0, (done.stdout + done.stderr).strip()
        )
    if done.returncode == 0:
        stage.expect("`wal repair` keeps a copy", ".aside" in done.stdout, done.stdout.strip())
        return set(), 0
    stage.expect("`wal repair` gives up nothing by itself", done.returncode == DAMAGED, f"exit {done.returncode}")
    choices = json.loads(done.stdout)
    done = _wal("repair", data, "--quarantine")
    stage.expect("`wal repair --quarantine` keeps a copy", ".aside" in done.stdout, done.stdout.strip())
    named = {
        Place(loss["partition"], offset)
        for loss in choices["messages"]["quarantine"]
        for offset in range(loss["first"], loss["end"])
    }
    return named, sum(end - first for first, end in choices["choices"]["quarantine"])


def _flip(stage: Stage, path: Path, *, tail: bool) -> tuple[int, int]:
    """Flip one bit of a segment's used part, in its last bytes or anywhere before; return where."""
    content = bytearray(path.read_bytes())
    used = len(bytes(content).rstrip(b"\0"))
    position = stage.draw.randrange(max(64, used - 200), used) if tail else stage.draw.randrange(64, used * 3 // 4)
    bit = stage.draw.randrange(8)
    content[position] ^= 1 << bit
    path.write_bytes(content)
    return position, bit


def _wal(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cordwood", "wal", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ), timeout=120)


def _segments(data: Path) -> list[Path]:
    return sorted((data / "journal").glob("*.wal"))


def _content(data: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((data / "journal").iterdir()) if path.is_file()}


def _tiered(broker: BrokerProcess) -> bool:
    partitions = broker.must("GET", f"/v1/topics/{TOPIC}")["partitions"]
    return all(one["tiered_offset"] == one["end_offset"] for one in partitions)
