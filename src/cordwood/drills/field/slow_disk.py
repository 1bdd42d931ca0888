"""slow-disk: every sync takes 50 ms longer, as on a disk that is busy or dying.

Expected: no acknowledgement comes before the sync it waits for, so none within 50 ms; messages that arrive meanwhile
share one commit; throughput falls; nothing else changes. Needs strace.
"""

from statistics import median

from cordwood.drills.field.actor import finish
from cordwood.drills.field.process import BrokerProcess
from cordwood.drills.field.reader import look
from cordwood.drills.field.stage import Stage, until
from cordwood.drills.field.strace import injecting
from cordwood.drills.field.witness import History
from cordwood.drills.field.writer import PARTITIONS, TOPIC, writers

DELAY_S = 0.05
WRITERS = 16


def run(stage: Stage) -> None:
    """Publish with a healthy disk and with a slow one; each acknowledgement must have waited for its sync."""
    slow = injecting("fdatasync", f"delay_enter={int(DELAY_S * 1e6)}")
    count = stage.times(200, 3_000)
    broker = BrokerProcess(stage, stage.directory("data")).start()
    broker.create(TOPIC, PARTITIONS)
    history = History()
    stage.step(f"{WRITERS} writers publish {count} messages as always, then with syncs {DELAY_S * 1000:.0f} ms late")
    fast = _publish(stage, broker, history, count, "-fast")
    broker.kill()
    broker.start(slow)
    stage.mark("slow")
    before = broker.metrics()
    late = _publish(stage, broker, history, count, "-slow")
    after = broker.metrics()
    quickest, usual = min(late), median(late)
    stage.expect(
        f"no acknowledgement within {DELAY_S * 1000:.0f} ms",
        quickest >= DELAY_S,
        f"quickest {quickest * 1000:.1f} ms, median {usual * 1000:.1f} ms (before: {median(fast) * 1000:.1f} ms)",
    )
    commits = after["cordwood_sync_seconds_count"] - before["cordwood_sync_seconds_count"]
    name = f'cordwood_messages_produced_total{{topic="{TOPIC}"}}'
    together = (after[name] - before.get(name, 0)) / max(1, commits)
    stage.expect(
        "a commit takes what waits",
        together >= WRITERS / 4,
        f"{together:.1f} messages in a commit, {WRITERS} writers",
    )
    stage.expect("nothing is refused", not history.refused, f"{len(history.refused)} refused")
    look(broker, history, "a reader of the slow disk", stage.timeline)
    broker.kill()
    stage.mark("healthy")
    broker.start()
    look(broker, history, "a reader after the restart", stage.timeline)
    stage.judge(history)


def _publish(stage: Stage, broker: BrokerProcess, history: History, count: int, shift: str) -> list[float]:
    """Publish so many messages, and return how long each took."""
    before = len(history.acknowledged)
    sending = writers(stage, broker, history, numbered=0, single=WRITERS, shift=shift)
    until(lambda: len(history.acknowledged) >= before + count, f"{count} acknowledgements")
    finish(sending)
    return [seconds for one in sending for seconds in one.latencies_s]
