"""The outbox's way out, over a pretended connection: nothing is waited for; what came is there to be taken."""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from cordwood.client.reply import Reply, error_of
from cordwood.drills.whole.talk import ARROW, Talk
from cordwood.edge.answer import Answer, Means
from cordwood.edge.batch import Batch
from cordwood.edge.delivery import Delivery
from cordwood.edge.post import FAR, NDJSON, answer_of, target
from cordwood.edge.sender import Sender
from cordwood.errors import Conflict
from cordwood.sim.loop import SimLoop
from cordwood.sim.network import Network


class Numbers(NamedTuple):
    """What the broker says comes next; None where it does not say."""

    following: dict[int, int] | None


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
        self._sent: deque[Batch] = deque()  # whose answers are awaited
        self._replies: deque[Reply | None] = deque()
        self._partitions: int | OSError | None = None
        self._numbers: Numbers | OSError | None = None
        self._asking_numbers = False
        self.asking = False

    @property
    def came(self) -> bool:
        """Whether the oldest answer is here, or will never come; with a bad one, what the sender asks about it."""
        if not self._replies:
            return False
        reply = self._replies[0]
        if reply is None or answer_of(reply, self._sent[0].count).means is not Means.BAD:
            return True
        if self._partitions is None:
            self.ask()
        if self._numbers is None:
            self._ask_numbers(self._sent[0])
        return self._partitions is not None and self._numbers is not None

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

    def _ask_numbers(self, batch: Batch) -> None:
        """Have the broker asked what comes next in each partition of a batch, as `edge.post.HttpPost` does."""
        if self._asking_numbers:
            return
        self._asking_numbers = True
        talk = Talk(self._network, self._name, self._loop)
        found: dict[int, int] = {}
        places = iter(list(batch.counts))

        def end(numbers: "Numbers | OSError") -> None:
            self._asking_numbers = False
            self._numbers = numbers
            talk.close()
            self._ring()

        def ask(place: int) -> None:
            def got(reply: Reply | None) -> None:
                error = None if reply is None else error_of(reply)
                following = error.facts.get("expected_sequence") if isinstance(error, Conflict) else None
                if reply is None:
                    end(ConnectionError("nobody says what comes next"))
                elif not isinstance(following, int):
                    end(Numbers(None))
                else:
                    found[place] = following
                    another = next(places, None)
                    end(Numbers(found)) if another is None else ask(another)

            query = f"&partition={place}&epoch={batch.epoch}&sequence={FAR}"
            talk.request("POST", target(batch, query), got, body=b'{"value":null}\n', kind=NDJSON)

        ask(next(places))

    # What the sender asks for

    def partitions(self, topic: str) -> int:
        found, self._partitions = self._partitions, None
        if isinstance(found, int):
            return found
        raise found or ConnectionError("it was not asked")

    def numbers(self, batch: Batch) -> dict[int, int] | None:
        assert self._numbers is not None, "they are here before the answer is taken"
        if isinstance(self._numbers, OSError):
            raise self._numbers
        return self._numbers.following

    def forget_numbers(self) -> None:
        """Forget what comes next: it is asked for each bad answer."""
        self._numbers = None

    def connect(self) -> None:
        if self._talk is None or not self._talk.open:
            if self._sent:
                raise ConnectionError("the connection broke")
            self._talk = Talk(self._network, self._name, self._loop)

    def send(self, batch: Batch) -> None:
        self.connect()
        assert self._talk is not None, "it is made by now"
        talk = self._talk
        self._sent.append(batch)

        def got(reply: Reply | None) -> None:
            if talk is self._talk:
                self._replies.append(reply)
                self._ring()

        talk.request("POST", target(batch, batch.query), got, body=b"".join(batch.body), kind=ARROW)
        batch.body = []

    def receive(self) -> Answer:
        reply = self._replies.popleft()
        if reply is None:
            raise ConnectionError("the connection broke")
        return answer_of(reply, self._sent.popleft().count)

    def close(self) -> None:
        talk, self._talk = self._talk, None
        if talk is not None:
            talk.close()
        self._sent.clear()
        self._replies.clear()


class SteppedSender(Sender):
    """Takes an answer when there is one, and never waits for it."""

    def _land(self) -> None:
        assert isinstance(self._post, WirePost)
        if self._post.came:
            super()._land()
            self._post.forget_numbers()

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
