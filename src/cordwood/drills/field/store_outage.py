"""store-outage: the directory that history goes to takes nothing for a while.

Expected: producers and readers do not notice; health says why, the journal grows and keeps everything; a kill -9 in
the middle loses nothing; when the store is back all of it is shipped, and the objects alone hold every message.
"""

from pathlib import Path

from cordwood.drills.field.actor import finish
from cordwood.drills.field.objects import look_at_objects
from cordwood.drills.field.process import BrokerProcess
from cordwood.drills.field.reader import look
from cordwood.drills.field.stage import Stage, until
from cordwood.drills.field.witness import History
from cordwood.drills.field.writer import PARTITIONS, TOPIC, writers

TEMPORARY = ".tmp"  # where a directory store writes first


def run(stage: Stage) -> None:
    """Let the store fail under load, kill the broker meanwhile, let the store come back."""
    tier = stage.directory("tier")
    broker = BrokerProcess(
        stage, stage.directory("data"), tier=str(tier), tier_interval_s=1, tier_object_bytes=1 << 20, cache_bytes=0
    ).start()
    broker.create(TOPIC, PARTITIONS)
    history = History()
    stage.step("publish until objects are shipped")
    sending = writers(stage, broker, history, size=1_000, pause_s=0.01)
    until(lambda: any(one["tiered_offset"] for one in _partitions(broker)), "an object")
    for outage in range(stage.times(1, 4)):
        _take_away(tier)
        stage.mark("store fails")
        before = len(history.acknowledged)
        until(lambda: "tier" in broker.must("GET", "/v1/healthz"), "health to say that the store fails")
        health = broker.must("GET", "/v1/healthz")
        stage.expect("health is ok and says why", health["status"] == "ok", str(health)[:300])
        backlog = broker.metrics()["cordwood_tier_backlog_bytes"]
        until(
            lambda backlog=backlog, before=before: (  # type: ignore[misc]
                broker.metrics()["cordwood_tier_backlog_bytes"] > backlog + 100_000
                and len(history.acknowledged) > before + 200
            ),
            "the journal to grow while messages are taken",
        )
        look(broker, history, f"a reader during outage {outage}", stage.timeline)
        if not stage.quick:
            stage.mark("SIGKILL")
            broker.kill()
            broker.start()
            stage.step(f"killed and started without its store, {len(history.acknowledged)} acknowledged")
            again = len(history.acknowledged)
            until(lambda again=again: len(history.acknowledged) > again + 20, "messages without the store")  # type: ignore[misc]
        _give_back(tier)
        stage.mark("store is back")
        until(lambda: "tier" not in broker.must("GET", "/v1/healthz"), "the store to be used again")
    finish(sending)
    until(lambda: all(one["tiered_offset"] == one["end_offset"] for one in _partitions(broker)), "all to be shipped")
    look(broker, history, "a reader through the broker", stage.timeline)
    told = len(history.acknowledged)
    stage.expect("the broker stops cleanly", (code := broker.stop()) == 0, f"exit code {code}")
    history.readings.append(look_at_objects(tier, told, "a reader of the objects alone"))
    stage.judge(history)


def _partitions(broker: BrokerProcess) -> list[dict[str, int]]:
    return list(broker.must("GET", f"/v1/topics/{TOPIC}")["partitions"])


def _take_away(tier: Path) -> None:
    """Make every put fail: a file stands where the store writes first."""
    (tier / TEMPORARY).rename(tier / "away")
    (tier / TEMPORARY).write_bytes(b"")


def _give_back(tier: Path) -> None:
    (tier / TEMPORARY).unlink()
    (tier / "away").rename(tier / TEMPORARY)
