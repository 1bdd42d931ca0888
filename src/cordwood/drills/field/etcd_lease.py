"""etcd-lease: the cable between a broker and etcd is cut; another broker takes its store.

    first    acknowledges … │ cut │ … acknowledges nothing more │ mended: 503, reads go on
    etcd                    │     │        the lease ends       │
    second                  │     │ waits                       │ the next epoch: acknowledges

Expected: the first stops acknowledging before etcd lets its claim go; the second has all that was in the tier, no
offset with other contents, and goes on above everything. Needs etcd, and SeaweedFS, since two brokers cannot share a
directory's lock.
"""

import threading
import time

from cordwood.drills.field.actor import finish
from cordwood.drills.field.cable import Cable
from cordwood.drills.field.process import BrokerProcess
from cordwood.drills.field.reader import look
from cordwood.drills.field.servers import BUCKET, start_etcd, start_s3
from cordwood.drills.field.stage import Stage, until
from cordwood.drills.field.witness import History, Place, Write
from cordwood.drills.field.writer import PARTITIONS, TOPIC, writers
from cordwood.machine.objects import StoreUnavailable
from cordwood.tier.claims_in_etcd import OWNER
from cordwood.tier.etcd import Etcd

ABOVE = 1 << 40  # where a broker on an empty disk goes on
READ_ONLY = 503


class Watch(threading.Thread):
    """Looks at etcd until the owner of the store is gone, or another, and notes when it last saw the first one."""

    def __init__(self, port: int):
        super().__init__(daemon=True)
        self._etcd = Etcd(f"etcd://127.0.0.1:{port}", {})
        self._revision = self._etcd.range(OWNER)[0].create_revision
        self.last_s = time.monotonic()
        self.gone = threading.Event()

    def run(self) -> None:
        while not self.gone.is_set():
            try:
                found = self._etcd.range(OWNER)
            except StoreUnavailable:
                continue
            now_s = time.monotonic()
            if not found or found[0].create_revision != self._revision:
                self.gone.set()
                return
            self.last_s = now_s
            time.sleep(0.01)


def run(stage: Stage) -> None:
    """Cut a broker off from etcd under load; nothing may be acknowledged when its claim may be another's."""
    port = start_etcd(stage, soon=stage.quick)
    env = start_s3(stage)
    cable = Cable(port, f"{stage.name} {stage.seed}")
    stage.stack.callback(cable.close)
    soon = ["--soon"] if stage.quick else []
    settings = {"tier": f"s3://{BUCKET}/store", "tier_interval_s": 1, "cache_bytes": 0}
    first = BrokerProcess(
        stage, stage.directory("first"), host=soon, env=env, metadata=f"etcd://127.0.0.1:{cable.port}", **settings
    )
    first.start().create(TOPIC, PARTITIONS)
    history = History()
    stage.step("publish to the first broker until objects are shipped")
    sending = writers(stage, first, history, pause_s=0.005)
    until(lambda: all(_tiered(first).values()), "objects of every partition")
    watch = Watch(port)
    watch.start()
    tiered = _tiered(first)
    stage.step("cut it off from etcd, and start a second broker on the same store")
    cable.cut()
    stage.mark("cut off")
    second = BrokerProcess(
        stage, stage.directory("second"), host=soon, env=env, metadata=f"etcd://127.0.0.1:{port}", **settings
    )
    second.begin()
    until(watch.gone.is_set, "etcd to let the claim go")
    stage.mark("claim ends")
    until(lambda: second.up.is_set() or not second.alive, "the second broker")
    stage.expect("the second broker takes the store", second.up.is_set(), second.words or "it listens")
    acknowledged = [at for at, series, _ in stage.timeline.counted if series == "acknowledged"]
    last_s = max(acknowledged) + stage.timeline.began
    stage.expect(
        "the last acknowledgement came before the claim could end",
        last_s <= watch.last_s,
        f"{watch.last_s - last_s:+.2f} s before etcd was last seen to keep it",
    )
    cable.mend()
    stage.mark("mended")
    until(lambda: first.ask("GET", "/v1/healthz").status == READ_ONLY, "the first to say that it lost its claim")
    told = len(history.acknowledged)
    finish(sending)
    stage.expect("the first acknowledges nothing more", len(history.acknowledged) == told, f"{told} in all")
    look(first, history, "a reader of the first broker", stage.timeline)
    # What the first one acknowledged and had not shipped is on its disk alone; what it had shipped must be here.
    _compare(stage, second, {place: write for write, place in history.acknowledged}, tiered)
    sent = second.must("POST", "/v1/produce", {"value": "after"}, topic=TOPIC, partition=0)
    stage.expect("the second goes on above everything", sent["offset"] >= ABOVE, f"offset {sent['offset']}")
    history.refused.clear()  # what waited while the claim did not hold was written, and then not acknowledged
    stage.judge(history)


def _compare(stage: Stage, second: BrokerProcess, held: dict[Place, Write], tiered: dict[int, int]) -> None:
    """The second broker has what was shipped, and nothing else at any of these places."""
    seen = {one.place: one.write for one in look(second, History(), "the second").seen}
    shipped = [place for place in held if place.offset < tiered[place.partition]]
    missing = [place for place in shipped if place not in seen]
    stage.expect("the second has all that was shipped", not missing, f"{len(shipped) - len(missing)} messages")
    other = [place for place, write in held.items() if place in seen and seen[place] != write]
    stage.expect("no offset has two contents", not other, f"{len(other)} have")


def _tiered(broker: BrokerProcess) -> dict[int, int]:
    partitions = broker.must("GET", f"/v1/topics/{TOPIC}")["partitions"]
    return {one["partition"]: one["tiered_offset"] for one in partitions}
