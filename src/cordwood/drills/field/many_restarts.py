"""many-restarts: SIGKILL while the broker recovers, again and again, then a start that is left alone.

The kills fall at random moments of a start and, where there is strace, inside the calls with which an opening changes
the disk: the n-th write, sync, rename, removal. It begins after a clean stop in one round, after a kill under load in
the next. Expected: an opening that was cut off can always be run again, and the last start has everything.
"""

import shutil
import time

from cordwood.drills.field.actor import finish
from cordwood.drills.field.process import BrokerProcess
from cordwood.drills.field.reader import look, restarted
from cordwood.drills.field.stage import Stage, until
from cordwood.drills.field.strace import injecting
from cordwood.drills.field.taker import Taker, drain
from cordwood.drills.field.witness import Group, History
from cordwood.drills.field.writer import PARTITIONS, TOPIC, writers

# Where an opening is cut off, behind a call: here its own segment is there, and the clean mark, too.
FIRST = ("fsync", 2)
# And there, with how often the call comes.
POINTS = (
    ("unlink,unlinkat", 1),
    ("rename,renameat,renameat2", 2),
    ("fsync", 3),
    ("fdatasync", 4),
    ("ftruncate", 1),
    ("pwritev,pwritev2", 12),
)
DAMAGED = 65


def run(stage: Stage) -> None:
    """Kill a broker while it starts, over and over, with a little traffic between; then look at everything."""
    broker = BrokerProcess(stage, stage.directory("data"))
    begun = time.monotonic()
    broker.start().create(TOPIC, PARTITIONS)
    start_s = time.monotonic() - begun
    history = History(groups=[Group("workers")])
    rounds, kills = stage.times(2, 8), stage.times(2, 4)
    stage.step(f"{rounds} times: publish, stop or kill, then {kills} starts that are killed themselves")
    for number in range(rounds):
        _traffic(stage, broker, history, number, clean=number % 2 == 0)
        for kill in range(kills):
            where = _cut_off(stage, broker, start_s, first=kill == 0)
            restarted(history)
            stage.mark(where)
            code = broker.wait()
            if code == DAMAGED:
                stage.expect(f"a start that is cut off ({where}) can be run again", False, broker.words)
        broker.start()
        look(broker, history, f"the reader of round {number}", stage.timeline)
    stage.step(f"after {rounds * kills} kills it is left alone")
    drain(stage, broker, history.groups[0])
    code = broker.stop()
    stage.expect("it stops cleanly", code == 0, f"exit code {code}")
    broker.start()
    look(broker, history, "a reader after the clean stop", stage.timeline)
    stage.judge(history)


def _cut_off(stage: Stage, broker: BrokerProcess, start_s: float, *, first: bool) -> str:
    """Start the broker, kill it on the way, and return where."""
    calls, most = stage.draw.choice(POINTS)
    when = stage.draw.randint(1, most)
    if first:
        calls, when = FIRST
    moment_s = stage.draw.random() * start_s
    if shutil.which("strace") and (first or stage.draw.random() < 0.7):
        where = f"{calls.split(',')[0]} {when}"
        broker.begin(injecting(calls, f"signal=SIGKILL:when={when}"))
        until(lambda: broker.up.is_set() or not broker.alive, "a start that ends or listens")
    else:
        where = f"SIGKILL after {moment_s:.2f} s"
        broker.begin()
        time.sleep(moment_s)
    if broker.alive:
        broker.kill()
    return where


def _traffic(stage: Stage, broker: BrokerProcess, history: History, number: int, *, clean: bool) -> None:
    """Publish and ack for a moment, then stop or kill."""
    sending = writers(stage, broker, history, shift=f"-{number}")
    taker = Taker(broker.port, history.groups[0], stage.timeline, f"{stage.seed} {number}")
    taker.start()
    before = len(history.acknowledged)
    until(lambda: len(history.acknowledged) >= before + 100, "100 acknowledgements")
    if clean:
        finish([taker, *sending])
        broker.stop()
    else:
        stage.mark("SIGKILL")
        broker.kill()
        finish([taker, *sending])
    restarted(history)
