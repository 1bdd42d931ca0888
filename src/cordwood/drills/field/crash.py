"""crash: publish, ack half out of order, SIGKILL at a random moment, start again; many times over one directory.

Expected: every acknowledged message is there once, at its offset; what a group acked never comes again, and all else
does, with its attempts counted on.
"""

import time

from cordwood.drills.field.actor import finish
from cordwood.drills.field.process import BrokerProcess
from cordwood.drills.field.reader import look, restarted
from cordwood.drills.field.stage import Stage, until
from cordwood.drills.field.taker import Taker, drain
from cordwood.drills.field.witness import Group, History
from cordwood.drills.field.writer import PARTITIONS, TOPIC, writers

LIFE_S = 0.6  # the longest between two kills, from the first acknowledgement on
TAKERS = 2


def run(stage: Stage) -> None:
    """Kill a broker under load again and again; whatever was acknowledged must be there."""
    kills = stage.times(3, 25)
    broker = BrokerProcess(stage, stage.directory("data")).start()
    broker.create(TOPIC, PARTITIONS)
    history = History(groups=[Group("workers")])
    group = history.groups[0]
    stage.step(f"publish and ack half out of order, with {kills} kills -9 at random moments")
    sending = writers(stage, broker, history)
    for kill in range(kills):
        takers = [Taker(broker.port, group, stage.timeline, f"{stage.seed} {kill} {n}") for n in range(TAKERS)]
        for taker in takers:
            taker.start()
        before = len(history.acknowledged)
        until(lambda before=before: len(history.acknowledged) > before, "an acknowledgement")  # type: ignore[misc]
        time.sleep(stage.draw.random() * LIFE_S)
        stage.mark("SIGKILL")
        broker.kill()
        finish(takers)
        restarted(history)
        broker.start()
    finish(sending)
    acked = stage.timeline.total("acked")
    stage.step(
        f"after {kills} kills: {len(history.acknowledged)} acknowledged, {acked} acked; all is read and drained"
    )
    look(broker, history, "a reader of the log", stage.timeline)
    drain(stage, broker, group)
    stage.expect("the broker stops cleanly", (code := broker.stop()) == 0, f"exit code {code}")
    broker.start()
    look(broker, history, "a reader after a clean stop", stage.timeline)
    stage.judge(history)
