"""many-restarts: SIGKILL while the broker recovers, again and again, then a start that is left alone.

The kills fall at random moments of a start and, where there is strace, inside the calls with which a recovery changes
the disk: the n-th write, sync, rename, removal. Expected: the last start has everything; a recovery that was cut off
can always be run again.
"""

import shutil
import time

from cordwood.drills.field.load import PARTITIONS, TOPIC, Taker, drain, finish, look, restarted, writers
from cordwood.drills.field.process import BrokerProcess
from cordwood.drills.field.stage import Failed, Stage, until
from cordwood.drills.field.strace import injecting
from cordwood.drills.field.witness import Group, History

CHANGES = "pwritev,pwritev2,pwrite64,fdatasync,fsync,ftruncate,rename,renameat,renameat2,unlink,unlinkat"
MOST_CALLS = 24  # of a start that change the disk, and a few of those behind it
DAMAGED = 65


def run(stage: Stage) -> None:
    """Kill a broker while it starts, over and over, with a little traffic between; then look at everything."""
    broker = BrokerProcess(stage, stage.directory("data")).start()
    broker.create(TOPIC, PARTITIONS)
    history = History(groups=[Group("workers")])
    kills = stage.times(5, 60)
    stage.step(f"publish, kill, then {kills} starts that are killed themselves")
    _traffic(stage, broker, history, 0)
    begun = time.monotonic()
    broker.start()
    start_s = time.monotonic() - begun
    broker.kill()
    restarted(history)
    for kill in range(1, kills + 1):
        if kill % 2 and shutil.which("strace"):
            call = stage.draw.randrange(1, MOST_CALLS)
            broker.begin(injecting(CHANGES, f"signal=SIGKILL:when={call}"))
            _ends_or_listens(broker)
            stage.mark(f"SIGKILL in call {call}")
        else:
            broker.begin()
            time.sleep(stage.draw.random() * start_s)
            stage.mark("SIGKILL")
        if broker.alive:
            broker.kill()
        else:
            code = broker.wait()
            if code == DAMAGED:
                raise Failed(f"expected that a start that was cut off can be run again; saw {broker.words}")
        restarted(history)
        if kill % 10 == 0:
            broker.start()
            _traffic(stage, broker, history, kill)
    broker.start()
    stage.step(f"after {kills} kills it starts and is left alone")
    look(broker, history, "a reader of the last start", stage.timeline)
    drain(stage, broker, history.groups[0])
    code = broker.stop()
    stage.expect("it stops cleanly", code == 0, f"exit code {code}")
    broker.start()
    look(broker, history, "a reader after the clean stop", stage.timeline)
    stage.judge(history)


def _traffic(stage: Stage, broker: BrokerProcess, history: History, number: int) -> None:
    """Publish and ack for a moment, then kill."""
    sending = writers(stage, broker, history, shift=f"-{number}")
    taker = Taker(broker.port, history.groups[0], stage.timeline, f"{stage.seed} {number}")
    taker.start()
    before = len(history.acknowledged)
    until(lambda: len(history.acknowledged) >= before + 200, "200 acknowledgements")
    stage.mark("SIGKILL")
    broker.kill()
    finish([taker])
    finish(sending)
    restarted(history)


def _ends_or_listens(broker: BrokerProcess) -> None:
    until(lambda: broker.up.is_set() or not broker.alive, "a start that ends or listens")
