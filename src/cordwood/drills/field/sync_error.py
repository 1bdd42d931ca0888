"""sync-error: from some moment on every fdatasync fails, as on a disk that dies.

Expected: no commit without a sync; 503 to whoever waits and to all who come later, health 503; reads go on and show
what was acknowledged, and nothing more; after a start on a healthy disk no message that was refused is there. Needs
strace.
"""

from cordwood.drills.field.actor import finish
from cordwood.drills.field.process import BrokerProcess
from cordwood.drills.field.reader import look
from cordwood.drills.field.stage import Stage, until
from cordwood.drills.field.strace import calls_in, injecting
from cordwood.drills.field.witness import History, Write
from cordwood.drills.field.writer import PARTITIONS, TOPIC, value_of, writers

READ_ONLY = 503
FIRST = 40  # the first sync that fails; a start takes some


def run(stage: Stage) -> None:
    """Let syncs fail under load; whoever is refused is refused for good, and nobody sees a ghost."""
    broker = BrokerProcess(stage, stage.directory("data"))
    broker.start().create(TOPIC, PARTITIONS)
    broker.stop()
    history = History()
    log = stage.directory("trace") / "syncs"
    for number in range(stage.times(1, 10)):
        when = stage.draw.randrange(FIRST, FIRST + 60)
        code = stage.draw.choice(("EIO", "ENOSPC", "EDQUOT"))
        stage.step(f"publish; from sync {when} on every sync fails with {code}")
        broker.start(injecting("fdatasync", f"error={code}:when={when}+", log))
        sending = writers(stage, broker, history, shift=f"-{number}")
        until(lambda: any(READ_ONLY in one.statuses for one in sending), "a refusal")  # noqa: B023
        stage.mark(code)
        until(lambda: all(READ_ONLY in one.statuses for one in sending), "503 for everybody")  # noqa: B023
        told = len(history.acknowledged)
        until(lambda: sum(one.statuses[READ_ONLY] for one in sending) > 40, "503 for all who come later")  # noqa: B023
        finish(sending)
        late = len(history.acknowledged) - told
        stage.expect("nothing is acknowledged after that", late == 0, f"{late} acknowledgements")
        commits, syncs = int(broker.metrics()["cordwood_sync_seconds_count"]), calls_in(log, "fdatasync")
        stage.expect("no commit without a sync", 0 < commits <= syncs, f"{commits} commits, {syncs} syncs")
        health = broker.ask("GET", "/v1/healthz").status
        stage.expect("health is 503", health == READ_ONLY, str(health))
        ghost = Write(f"ghost-{number}", 0)
        history.sent.add(ghost)
        answer = broker.ask("POST", "/v1/produce", {"value": value_of(ghost)}, topic=TOPIC)
        history.refused.add(ghost)
        stage.expect("a message is refused with 503", answer.status == READ_ONLY, f"{answer.status} {answer.body!r}")
        reading = look(broker, history, f"a reader of the failed broker {number}", stage.timeline)
        shown = {seen.write for seen in reading.seen}
        extra = shown - {write for write, _ in history.acknowledged}
        stage.expect(
            "reads go on, and show what was acknowledged", not extra, f"{len(shown)} read, {len(extra)} more"
        )
        broker.kill()
        stage.mark("healthy")
        broker.start()
        look(broker, history, f"a reader after the restart {number}", stage.timeline)
        broker.stop()
    stage.judge(history)
