"""power-loss: a real ext4 on a loop device loses its power under a broker that is published to.

FS_IOC_SHUTDOWN drops at once what was not synced. Expected: after the next mount the broker starts, and every message
that was acknowledged is there, what a group acked stays done. This is the drill that notices a sync left out: a
SIGKILL cannot, because the kernel still has the bytes. Root only.
"""

import time

from cordwood.drills.field.actor import finish
from cordwood.drills.field.mounts import cut_power, image, mounted
from cordwood.drills.field.process import BrokerProcess
from cordwood.drills.field.reader import look, restarted
from cordwood.drills.field.stage import Stage, until
from cordwood.drills.field.taker import Taker, drain
from cordwood.drills.field.witness import Group, History
from cordwood.drills.field.writer import PARTITIONS, TOPIC, writers

IMAGE_BYTES = 128 << 20
LIFE_S = 0.5


def run(stage: Stage) -> None:
    """Cut the power under load, mount, start, again and again over one filesystem."""
    disk = image(stage.scratch, IMAGE_BYTES)
    place = stage.directory("mounted")
    cuts = stage.times(2, 15)
    history = History(groups=[Group("workers")])
    broker = BrokerProcess(stage, place / "data")
    sending = []
    for cut in range(cuts):
        with mounted(disk, place), broker:
            if cut == 0:
                broker.create(TOPIC, PARTITIONS)
                stage.step(f"publish, with {cuts} power cuts at random moments")
            else:
                look(broker, history, f"a reader after power cut {cut}", stage.timeline)
            # New writers each time: what an old one's request was answered is not known to the next life.
            sending = writers(stage, broker, history, shift=f"-{cut}")
            takers = [Taker(broker.port, history.groups[0], stage.timeline, f"{stage.seed} {cut}", dying=True)]
            takers[0].start()
            before = len(history.acknowledged)
            until(lambda before=before: len(history.acknowledged) > before + 50, "50 acknowledgements")  # type: ignore[misc]
            time.sleep(stage.draw.random() * LIFE_S)
            stage.mark("power cut")
            cut_power(place)
            broker.kill()
            finish(takers)
            finish(sending)
            restarted(history)
    # What was refused in the very moment of a cut may be there, whole: the contract says so.
    history.refused.clear()
    with mounted(disk, place), broker:
        look(broker, history, "a reader after the last power cut", stage.timeline)
        drain(stage, broker, history.groups[0])
    stage.judge(history)
