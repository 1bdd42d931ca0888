"""torn: the last write, cut at random bytes, as a crash in the middle of it leaves it.

    idle      every message so far is acknowledged                      ─▶ copy of the journal: before
    one more  a batch is written, synced and acknowledged               ─▶ copy of the journal: after
    torn      before, with some of the bytes that after changed: the first n, or any of its sectors

Had the power gone inside that write, the disk would hold this, and the batch would not have been acknowledged.
Expected: the broker starts, all that was acknowledged before is there, and of the batch all or nothing.
"""

import json
import shutil
import time
from pathlib import Path
from random import Random

from cordwood.drills.field.actor import finish
from cordwood.drills.field.process import BrokerProcess
from cordwood.drills.field.reader import look
from cordwood.drills.field.stage import Stage, until
from cordwood.drills.field.witness import History, Reading, Write
from cordwood.drills.field.writer import PARTITIONS, TOPIC, value_of, writers
from cordwood.journal.frame import MAGIC

SECTOR = 512
LAST = 40  # messages of the batch that is torn
REST = 5  # looks in a row that find the same

Files = dict[str, bytes]


def run(stage: Stage) -> None:
    """Tear the last write of a journal in many ways; each must open, and hold all that was acknowledged."""
    broker = BrokerProcess(stage, stage.directory("data")).start()
    broker.create(TOPIC, PARTITIONS)
    history = History()
    stage.step("publish, wait until all is acknowledged, then write one batch more")
    sending = writers(stage, broker, history)
    until(lambda: len(history.acknowledged) >= 200, "200 acknowledgements")
    finish(sending)
    journal = broker.data / "journal"
    before = _settle(journal)
    last = [Write("last", number) for number in range(LAST)]
    body = "\n".join(json.dumps({"value": value_of(write)}) for write in last).encode()
    broker.must("POST", "/v1/produce", body, topic=TOPIC, partition=0)
    after = _files(journal)
    broker.kill()
    history.sent.update(last)
    name, first, end = _changed(before, after)
    stage.expect("one write in one file", end > first, f"{name}, bytes {first} to {end - 1}")
    worlds = [_world(stage, journal, before, after, number) for number in range(stage.times(3, 20))]
    found = [sum(seen.write in last for seen in world.seen) for world in worlds]
    some = [count for count in found if 0 < count < LAST]
    stage.expect("of a torn batch all or nothing", not some, f"{found.count(LAST)} times all, {len(some)} times some")
    stage.judge(*(History(history.sent, history.acknowledged, readings=[world]) for world in worlds))


def _world(stage: Stage, journal: Path, before: Files, after: Files, number: int) -> Reading:
    """Make a directory as this crash would have left it, start a broker on it, and return all that can be read."""
    data = stage.directory(f"torn-{number}")
    name, first, end = _changed(before, after)
    torn, how = _tear(stage.draw, before[name], after[name][:end] + before[name][end:], first, end)
    shutil.copytree(journal, data / "journal")
    for file, content in before.items():
        (data / "journal" / file).write_bytes(torn if file == name else content)
    stage.mark("torn")
    broker = BrokerProcess(stage, data).start()
    reading = look(broker, History(), f"the reader after cut {number} ({how})", stage.timeline)
    reading.told = 1 << 30  # all that was acknowledged before the cut
    if number % 3 == 0:
        more = broker.must("POST", "/v1/produce", {"value": "more"}, topic=TOPIC, partition=1)
        broker.kill()
        broker.start()
        end = broker.must("GET", f"/v1/topics/{TOPIC}")["partitions"][1]["end_offset"]
        stage.expect("what is sent behind a cut survives a kill", end == more["offset"] + 1, f"{end} messages, {how}")
    broker.kill()
    shutil.rmtree(data)
    return reading


def _settle(journal: Path) -> Files:
    """Return the journal once it no longer changes: the frame that proves the last group is written."""
    last, same = _files(journal), 0

    def at_rest() -> bool:
        nonlocal last, same
        time.sleep(0.1)
        now = _files(journal)
        last, same = now, same + 1 if now == last else 0
        return same == REST

    until(at_rest, "the journal to be at rest")
    return last


def _files(journal: Path) -> Files:
    return {path.name: path.read_bytes() for path in sorted(journal.glob("*.wal"))}


def _changed(before: Files, after: Files) -> tuple[str, int, int]:
    """Return the file that changed, and from which byte to which."""
    names = [name for name in after if after[name] != before.get(name)]
    if len(names) != 1 or names[0] not in before or len(before[names[0]]) != len(after[names[0]]):
        return ", ".join(names), 0, 0  # a rotation came in between
    (name,) = names
    old, new = before[name], after[name]
    differ = [at for at in range(len(new)) if old[at] != new[at]]
    # The broker may have been idle long enough to write the frame that proves this one: that is another write.
    another = new.find(MAGIC, differ[0] + 1)
    return name, differ[0], differ[-1] + 1 if another < 0 else another


def _tear(draw: Random, old: bytes, new: bytes, first: int, end: int) -> tuple[bytes, str]:
    """Return the file with the write done in part, and how."""
    if draw.random() < 0.5:
        cut = draw.randrange(first, end)
        return new[:cut] + old[cut:], f"cut at byte {cut}"
    torn = bytearray(old)
    kept = []
    for sector in range(first // SECTOR, -(-end // SECTOR)):
        if draw.random() < 0.5:
            torn[sector * SECTOR : (sector + 1) * SECTOR] = new[sector * SECTOR : (sector + 1) * SECTOR]
            kept.append(sector)
    return bytes(torn), f"sectors {kept} of {first // SECTOR} to {(end - 1) // SECTOR}"
