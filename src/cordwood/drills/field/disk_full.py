"""disk-full: a small filesystem fills up while messages are published, and is freed again.

Expected: 507 before anything is numbered, and no other refusal; reads and acks go on; after space is freed the broker
goes on by itself; nothing acknowledged is missing, nothing refused is there. Root only: it mounts a tmpfs.
"""

from cordwood.drills.field.actor import finish
from cordwood.drills.field.mounts import small
from cordwood.drills.field.process import BrokerProcess, Line
from cordwood.drills.field.reader import look, restarted
from cordwood.drills.field.stage import Stage, until
from cordwood.drills.field.taker import ack, drain, lease
from cordwood.drills.field.witness import Group, History
from cordwood.drills.field.writer import PARTITIONS, TOPIC, writers

FULL = 507


def run(stage: Stage) -> None:
    """Fill a small disk, free some of it, and go on, several times."""
    place = stage.directory("small")
    size_mib = stage.times(8, 32)
    stage.stack.enter_context(small(place, f"{size_mib}m"))
    broker = BrokerProcess(stage, place / "data").start()
    broker.create(TOPIC, PARTITIONS)
    history = History(groups=[Group("workers")])
    fillers = [place / f"filler-{number}" for number in range(stage.times(1, 3))]
    for filler in fillers:
        filler.write_bytes(bytes((size_mib << 20) // (2 * len(fillers) + 2)))
    sending = writers(stage, broker, history, size=3_000)
    for number, filler in enumerate(fillers):
        refused = stage.timeline.total("refused")
        until(lambda refused=refused: stage.timeline.total("refused") > refused + 10, "a full disk")  # type: ignore[misc]
        stage.mark("full")
        stage.step(f"the disk is full, {len(history.acknowledged)} messages are acknowledged")
        look(broker, history, f"a reader of the full disk {number}", stage.timeline)
        line = Line(broker.port)
        some = lease(line, history.groups[0], stage.timeline, "a worker", max_messages=50, wait_ms=10_000)
        ack(line, history.groups[0], stage.timeline, some, "a worker")
        line.close()
        stage.expect("leases and acks go on", bool(some), f"{len(some)} messages acked")
        health = broker.ask("GET", "/v1/healthz").status
        before = len(history.acknowledged)
        filler.unlink()
        stage.mark("freed")
        until(lambda before=before: len(history.acknowledged) > before + 100, "messages to be taken again")  # type: ignore[misc]
        stage.step(f"space is freed: messages are taken again; health was {health} meanwhile")
    finish(sending)
    statuses = {status for one in sending for status in one.statuses}
    stage.expect(
        "only 200 and 507 were answered", statuses <= {200, FULL} and FULL in statuses, f"{sorted(statuses)}"
    )
    stage.step("kill -9, start again, read everything")
    broker.kill()
    restarted(history)
    broker.start()
    look(broker, history, "a reader after the restart", stage.timeline)
    drain(stage, broker, history.groups[0])
    stage.judge(history)
    broker.kill()
