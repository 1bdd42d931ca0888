"""disconnect: clients whose connections are cut at random bytes, of requests and of answers.

The producers are those of the client library: numbered, so that what was not heard of is sent again. Expected: every
message is stored once and in order, each is acked or comes again, and nothing else happens to the broker.
"""

from cordwood.client.future import Sent
from cordwood.client.producer import Producer
from cordwood.drills.field.actor import Actor, finish
from cordwood.drills.field.cable import Cable
from cordwood.drills.field.process import BrokerProcess
from cordwood.drills.field.reader import look
from cordwood.drills.field.stage import Stage, Timeline, until
from cordwood.drills.field.taker import Taker, drain
from cordwood.drills.field.witness import Group, History, Place, Write
from cordwood.drills.field.writer import PARTITIONS, TOPIC, value_of

LEASE_MS = 1_500  # what was on its way to a client when the cable broke comes again after this time
BURST = 30


class Sender(Actor):
    """Sends with the client library until it is told to stop; notes what its futures say."""

    def __init__(self, endpoint: str, history: History, timeline: Timeline, name: str):
        super().__init__(name)
        self._endpoint, self._history, self._timeline = endpoint, history, timeline

    def act(self) -> None:
        number = 0
        with Producer(self._endpoint, TOPIC, producer_id=self.name) as producer:
            while not self.over.is_set():
                writes = [Write(self.name, number + step) for step in range(BURST)]
                number += BURST
                self._history.sent.update(writes)
                futures = [producer.send(value_of(write), key=self.name) for write in writes]
                self._told(writes, [future.result(120) for future in futures])

    def _told(self, writes: list[Write], sent: list[Sent]) -> None:
        places = [Place(one.partition, -1 if one.offset is None else one.offset) for one in sent]
        self._history.acknowledged.extend(zip(writes, places, strict=True))
        self._timeline.count("acknowledged", len(writes))


def run(stage: Stage) -> None:
    """Cut connections at random bytes under load, then look at everything."""
    broker = BrokerProcess(stage, stage.directory("data"), backoff_ms=10, max_backoff_ms=100).start()
    broker.create(TOPIC, PARTITIONS)
    cable = Cable(broker.port, f"{stage.name} {stage.seed}")
    stage.stack.callback(cable.close)
    history = History(groups=[Group("workers", counted=False)])
    cuts = stage.times(60, 600)
    stage.step(f"publish and consume over a cable that breaks {cuts} times, each time at a random byte")
    cable.breaking = True
    endpoint = f"http://127.0.0.1:{cable.port}"
    senders = [Sender(endpoint, history, stage.timeline, f"producer-{n}") for n in range(3)]
    takers = [
        Taker(cable.port, history.groups[0], stage.timeline, f"{stage.seed} {n}", lasting=True, lease_ms=LEASE_MS)
        for n in range(2)
    ]
    clients: list[Actor] = [*senders, *takers]
    for one in clients:
        stage.stack.callback(one.halt)
        one.start()
    for tenth in range(1, 11):
        until(lambda tenth=tenth: cable.broken >= cuts * tenth / 10 and history.acknowledged, "cuts")  # type: ignore[misc]
        stage.mark("cuts")
        if tenth % 5 == 0:
            cable.cut()  # all of them at once
            cable.mend()
    cable.breaking = False
    finish(takers)
    finish(senders)
    health = broker.ask("GET", "/v1/healthz").status
    stage.expect("the broker is well", health == 200 and broker.alive, f"health {health}, {cable.broken} cuts")
    look(broker, history, "a reader of the log", stage.timeline)
    drain(stage, broker, history.groups[0])
    stored = {write for write in (seen.write for seen in history.readings[-1].seen)}
    stage.expect("all that was sent is stored", stored == history.sent, f"{len(stored)} of {len(history.sent)}")
    stage.judge(history)
