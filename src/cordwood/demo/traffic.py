"""Producers and consumers of the demo, each on a thread of its own, that never hear of the kill.

An order is `{"producer": 1, "number": 17, "customer": "c-3", "cents": 1999}`; producer and number make it one of its
kind, wherever it is found again.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable

from cordwood.demo.pulse import Pulse
from cordwood.errors import CordwoodError

TOPIC, GROUP, PARTITIONS = "orders", "billing", 3
SCHEMA = "producer INT NOT NULL, number BIGINT NOT NULL, customer STRING NOT NULL, cents INT NOT NULL"
PRODUCERS, CONSUMERS = 3, 2
BURST = 100  # messages that a producer sends before it waits
PAUSE_S = 0.03  # between two bursts, so that two cores have time for everybody
IDLE_MS = 1_000  # how often a consumer without messages looks whether all is over

Order = tuple[int, int]  # producer, number


class Traffic:
    """What was asked for and what came back; the claims of those who were there, which the proof compares with."""

    def __init__(self, endpoint: str, pulse: Pulse):
        self._endpoint = endpoint
        self._pulse = pulse
        self._enough = threading.Event()
        self._lock = threading.Lock()
        self.sent = [0] * PRODUCERS
        self.acknowledged: list[set[Order]] = [set() for _ in range(PRODUCERS)]
        self.delivered: Counter[Order] = Counter()
        self.failures: list[str] = []
        self._producers = [_thread(self._produce, number) for number in range(PRODUCERS)]
        self._consumers = [_thread(self._consume, number) for number in range(CONSUMERS)]

    def start(self) -> None:
        """Begin to produce and to consume."""
        for thread in (*self._producers, *self._consumers):
            thread.start()

    def finish(self) -> None:
        """Have the producers end, and return when everything that was acknowledged has been delivered."""
        self._enough.set()
        for thread in (*self._producers, *self._consumers):
            thread.join()

    def _produce(self, me: int) -> None:
        from cordwood.client.producer import Producer

        try:
            with Producer(self._endpoint, TOPIC) as producer:
                while not self._enough.wait(PAUSE_S):
                    first = self.sent[me]
                    self.sent[me] += BURST
                    sent = [
                        (number, producer.send(_order(me, number), key=f"c-{number % 1000}"))
                        for number in range(first, first + BURST)
                    ]
                    for number, future in sent:
                        future.result()
                        self.acknowledged[me].add((me, number))
                    self._pulse.beat("acknowledged", BURST)
        except CordwoodError as error:
            self.failures.append(f"producer {me}: {error}")

    def _consume(self, me: int) -> None:
        from cordwood.client.consumer import Consumer

        try:
            with Consumer(self._endpoint, TOPIC, group=GROUP, idle_timeout_ms=IDLE_MS) as consumer:
                while not self._over():
                    for message in consumer:
                        order = json.loads(message.value or b"{}")
                        with self._lock:
                            self.delivered[(order["producer"], order["number"])] += 1
                        message.ack()
                        self._pulse.beat("delivered")
        except (CordwoodError, ValueError, KeyError) as error:
            self.failures.append(f"consumer {me}: {error!r}")

    def _over(self) -> bool:
        """Whether the producers have ended and all that they got acknowledged was delivered, or one of us failed."""
        if self.failures:
            return True
        if any(thread.is_alive() for thread in self._producers):
            return False
        with self._lock:
            return all(order in self.delivered for orders in self.acknowledged for order in orders)


def _thread(run: Callable[[int], None], number: int) -> threading.Thread:
    return threading.Thread(target=run, args=(number,), daemon=True)


def _order(producer: int, number: int) -> dict[str, object]:
    return {
        "producer": producer,
        "number": number,
        "customer": f"c-{number % 1000}",
        "cents": 100 + number * 7919 % 9900,
    }
