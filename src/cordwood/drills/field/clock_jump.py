"""clock-jump: the broker's time of day is set back and forth by hours while it works.

    counted by the time of day                                      counted by the clock that never goes back
    deliver_at, delays, expires_at, retention, timestamps           leases, waits, backoff behind an expiry

Expected: leases neither end early nor stay for ever; what is due by the new time is delivered, what is over is not;
offsets, floors and producer numbers do not care, and nothing is lost, also over a kill -9.
"""

import time
from collections.abc import Callable

from cordwood.drills.field.actor import finish
from cordwood.drills.field.host import set_clock
from cordwood.drills.field.process import BrokerProcess
from cordwood.drills.field.reader import look, restarted
from cordwood.drills.field.stage import Stage, until
from cordwood.drills.field.taker import Taker, drain
from cordwood.drills.field.witness import Group, History
from cordwood.drills.field.writer import PARTITIONS, TOPIC, writers

HOUR_MS = 3_600_000
MOST_HOURS = 3  # producers and groups are remembered for seven days
TIMES = "times"


def run(stage: Stage) -> None:
    """Move the clock and look at everything that has a time; then move it under load."""
    clock = stage.scratch / "clock"
    set_clock(clock, 0)
    broker = BrokerProcess(
        stage, stage.directory("data"), host=["--clock", str(clock)], backoff_ms=10, max_backoff_ms=100
    ).start()

    def jump(hours: float) -> None:
        set_clock(clock, int(hours * HOUR_MS))
        stage.mark(f"{hours:+.1f} h")

    _times(stage, broker, jump)
    broker.create(TOPIC, PARTITIONS)
    history = History(groups=[Group("workers")])
    stage.step("publish and consume while the clock jumps")
    sending = writers(stage, broker, history)
    jumps = stage.times(6, 60)
    for number in range(jumps):
        taker = Taker(broker.port, history.groups[0], stage.timeline, f"{stage.seed} {number}")
        taker.start()
        before = len(history.acknowledged)
        jump(stage.draw.uniform(-MOST_HOURS, MOST_HOURS))
        until(lambda before=before: len(history.acknowledged) > before + 20, "acknowledgements after a jump")  # type: ignore[misc]
        if number % 6 == 3:
            stage.mark("SIGKILL")
            broker.kill()
            finish([taker])
            restarted(history)
            broker.start()
        finish([taker])
    finish(sending)
    jump(0)
    look(broker, history, "a reader after all jumps", stage.timeline)
    broker.kill()
    restarted(history)
    broker.start()
    look(broker, history, "a reader after the restart", stage.timeline)
    drain(stage, broker, history.groups[0])
    if not stage.quick:
        _retention(stage, broker, jump)
    stage.judge(history)


def _times(stage: Stage, broker: BrokerProcess, jump: Callable[[float], None]) -> None:
    """Look at leases, delays and expiry over a jump forward and a jump back."""
    broker.create(TIMES, 1)
    now_ms = int(time.time() * 1000)

    def send(value: str, **fields: object) -> None:
        broker.must("POST", "/v1/produce", {"topic": TIMES, "value": value, **fields})

    def take(lease_ms: int = HOUR_MS, wait_ms: int = 1_500, most: int = 10) -> list[tuple[str, int]]:
        asked = {"topic": TIMES, "group": "g", "lease_ms": lease_ms, "wait_ms": wait_ms, "max_messages": most}
        found = broker.must("POST", "/v1/lease", asked)
        return [] if found is None else [(one["value"], one["attempts"]) for one in found["messages"]]

    send("held")
    held = take(wait_ms=10_000)
    send("in an hour", delay_ms=HOUR_MS)
    send("over in an hour", expires_at=now_ms + HOUR_MS)
    stage.expect("a message on a lease of an hour", held == [("held", 1)], f"{held}")
    jump(2)
    found = take(wait_ms=10_000)
    stage.expect("two hours ahead, what is due comes, and no more", found == [("in an hour", 1)], f"{found}")
    found = take()
    stage.expect("the lease goes on, what is over stays away", found == [], f"{found}")
    jump(-2)
    send("two hours back")
    found = take(lease_ms=300, wait_ms=10_000)
    stage.expect("two hours back, a message goes in and out", found == [("two hours back", 1)], f"{found}")
    found = take(wait_ms=20_000)
    stage.expect("a lease ends all the same", found == [("two hours back", 2)], f"{found}")
    send("soon", delay_ms=300)
    found = take(wait_ms=20_000)
    stage.expect("a short delay is over soon", found == [("soon", 1)], f"{found}")
    rows = broker.must("GET", "/v1/read", topic=TIMES, partition=0, limit=1)
    stage.expect("the first message kept its time", abs(rows["timestamp"] - now_ms) < HOUR_MS, f"{rows['timestamp']}")
    jump(0)


def _retention(stage: Stage, broker: BrokerProcess, jump: Callable[[float], None]) -> None:
    """What is older than an hour goes when it is two hours later, and not when it is two hours earlier."""
    broker.create("old", 1, retention_ms=HOUR_MS)
    for number in range(10):
        broker.must("POST", "/v1/produce", {"topic": "old", "value": str(number)})

    def start() -> int:
        return int(broker.must("GET", "/v1/topics/old")["partitions"][0]["start_offset"])

    jump(-2)
    time.sleep(12)  # retention looks every ten seconds
    stage.expect("nothing goes while it is earlier", start() == 0, f"start offset {start()}")
    jump(2)
    until(lambda: start() == 10, "what is over to go, and the start offset to say so")
    jump(0)
