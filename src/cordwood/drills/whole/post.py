"""The outbox's way out, over a pretended connection: nothing is waited for; what came is there to be taken."""

from collections import deque
from collections.abc import Callable

from cordwood.client.reply import Reply
from cordwood.drills.whole.talk import ARROW, Talk
from cordwood.edge.answer import Answer, Means
from cordwood.edge.batch import Batch
from cordwood.edge.delivery import Delivery
from cordwood.edge.post import answer_of
from cordwood.edge.sender import Sender
from cordwood.sim.loop import SimLoop
from cordwood.sim.network import Network


class WirePost:
    """Carries batches as `edge.post.HttpPost` does. `ring` is called when there is something new."""

    numbered = True

    def __init__(self, network: Network, name: str, loop: SimLoop, topic: str, ring: Callable[[], None]):
        self._network = network
        self._name = name
        self._loop = loop
        self._topic = topic
        self._ring = ring
        self._talk: Talk | None = None
        self._counts: deque[int] = deque()
        self._replies: deque[Reply | None] = deque()
        self._partitions: int | OSError | None = None
        self.asking = False

    @property
    def came(self) -> bool:
        """Whether the oldest answer is here, or will never come; with a bad one, how many partitions there are."""
        if not self._replies:
            return False
        reply = self._replies[0]
        if reply is not None and answer_of(reply, self._counts[0]).means is Means.BAD and self._partitions is None:
            self.ask()
            return False
        return True

    @property
    def known(self) -> bool:
        """Whether it is here how many partitions there are, or that nobody can say."""
        return self._partitions is not None

    def ask(self) -> None:
        """Have the broker asked how many partitions there are."""
        if not self.asking:
            self.asking = True
            talk = Talk(self._network, self._name, self._loop)

            def got(reply: Reply | None) -> None:
                self.asking = False
                if reply is not None and reply.status == 200:
                    self._partitions = len(reply.json()["partitions"])
                else:
                    self._partitions = ConnectionError("nobody says how many partitions there are")
                talk.close()
                self._ring()

            talk.request("GET", f"/v1/topics/{self._topic}", got)

    # What the sender asks for

    def partitions(self, topic: str) -> int:
        found, self._partitions = self._partitions, None
        if isinstance(found, int):
            return found
        raise found or ConnectionError("it was not asked")

    def send(self, batch: Batch) -> None:
        if self._talk is None or not self._talk.open:
            if self._counts:
                raise ConnectionError("the connection broke")
            self._talk = Talk(self._network, self._name, self._loop)
        talk = self._talk
        target = f"/v1/produce?topic={batch.topic}&producer_id={batch.producer}{batch.query}"
        self._counts.append(batch.count)

        def got(reply: Reply | None) -> None:
            if talk is self._talk:
                self._replies.append(reply)
                self._ring()

        talk.request("POST", target, got, body=b"".join(batch.body), kind=ARROW)
        batch.body = []

    def receive(self) -> Answer:
        reply = self._replies.popleft()
        if reply is None:
            raise ConnectionError("the connection broke")
        return answer_of(reply, self._counts.popleft())

    def close(self) -> None:
        talk, self._talk = self._talk, None
        if talk is not None:
            talk.close()
        self._counts.clear()
        self._replies.clear()


class SteppedSender(Sender):
    """Takes an answer when there is one, and never waits for it."""

    def _land(self) -> None:
        assert isinstance(self._post, WirePost)
        if self._post.came:
            super()._land()

    def _ask(self, delivery: Delivery, now: int) -> bool:
        assert isinstance(self._post, WirePost)
        if not self._post.known:
            self._post.ask()
            return False
        return super()._ask(delivery, now)

    @property
    def waits(self) -> bool:
        """Whether the next thing is an answer."""
        return bool(self._under_way)
