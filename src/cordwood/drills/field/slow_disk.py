"""slow-disk: every sync takes 50 ms longer, as on a disk that is busy or dying.

Expected: no acknowledgement comes before the sync it waits for, so none within 50 ms; messages that arrive meanwhile
share one commit; throughput falls; nothing else changes. Needs strace.
"""

import time
from statistics import median
from typing import NamedTuple

from cordwood.drills.field.actor import finish
from cordwood.drills.field.process import BrokerProcess
from cordwood.drills.field.reader import look
from cordwood.drills.field.stage import Stage, until
from cordwood.drills.field.strace import injecting
from cordwood.drills.field.witness import History
from cordwood.drills.field.writer import PARTITIONS, TOPIC, writers

DELAY_S = 0.05
WRITERS = 16
PRODUCED = f'cordwood_messages_produced_total{{topic="{TOPIC}"}}'


class Pace(NamedTuple):
    """How long each message took, how many there were in a second, and in a commit."""

    latencies_s: list[float]
    rate: float
    together: float


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
    late = _publish(stage, broker, history, count, "-slow")
    quickest, usual = min(late.latencies_s), median(late.latencies_s)
    stage.expect(
        f"no acknowledgement within {DELAY_S * 1000:.0f} ms",
        quickest >= DELAY_S,
        f"quickest {quickest * 1000:.1f} ms, median {usual * 1000:.1f} ms, {late.rate:.0f} messages/s"
        f" (before: {median(fast.latencies_s) * 1000:.1f} ms, {fast.rate:.0f} messages/s)",
    )
    stage.expect(
        "a commit takes what waits",
        late.together >= WRITERS / 4,
        f"{late.together:.1f} messages in a commit (before: {fast.together:.1f}), {WRITERS} writers",
    )
    stage.expect("nothing is refused", not history.refused, f"{len(history.refused)} refused")
    look(broker, history, "a reader of the slow disk", stage.timeline)
    broker.kill()
    stage.mark("healthy")
    broker.start()
    look(broker, history, "a reader after the restart", stage.timeline)
    stage.judge(history)


def _publish(stage: Stage, broker: BrokerProcess, history: History, count: int, shift: str) -> Pace:
    """Publish so many messages, and return how that went."""
    acknowledged, before, began = len(history.acknowledged), broker.metrics(), time.monotonic()
    sending = writers(stage, broker, history, numbered=0, single=WRITERS, shift=shift)
    until(lambda: len(history.acknowledged) >= acknowledged + count, f"{count} acknowledgements")
    finish(sending)
    took_s, after = time.monotonic() - began, broker.metrics()
    commits = after["cordwood_sync_seconds_count"] - before["cordwood_sync_seconds_count"]
    stored = after[PRODUCED] - before.get(PRODUCED, 0)
    latencies_s = [seconds for one in sending for seconds in one.latencies_s]
    return Pace(latencies_s, stored / took_s, stored / max(1, commits))
