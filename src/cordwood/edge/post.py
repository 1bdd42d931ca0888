"""The way out: a broker's connection, or a function that the application gave.

HTTP       numbered requests, one connection, answers in the order of the requests
function   called with a list of events; what it raises as `Refused` parks an event, anything else is tried again
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from cordwood.client.endpoint import Endpoint
from cordwood.client.reply import Reply, error_of, retry_after_ms
from cordwood.edge.answer import STORED, Answer, Means, meaning
from cordwood.edge.batch import Batch
from cordwood.edge.event import Event
from cordwood.errors import Conflict, NotFound, Refused, Unavailable

if TYPE_CHECKING:
    from cordwood.client.connection import Connection

TIMEOUT_S = 30.0
NDJSON = "application/x-ndjson"
STRANGER = "the answer is not a Cordwood broker's; is the endpoint right?"
ARROW = "application/vnd.apache.arrow.stream"
MOST_WAIT_MS = 600_000  # what a broker may ask to wait: a wrong number must not end the sending for years
MOST_EPOCH = 1 << 31  # a higher one is no broker's: it would leave no next one
FAR = 1 << 62  # a number that never comes next


class Post(Protocol):
    """Carries batches. What goes wrong on the way is an OSError; then nobody knows what has arrived."""

    numbered: bool

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has; 1 where there is none, since the broker may make it."""

    def connect(self) -> None:
        """Return when the way is open. What fails here has sent nothing."""

    def numbers(self, batch: Batch) -> dict[int, int] | None:
        """Return the number that comes next in each partition of a batch, for its producer in its epoch.

        None where the broker does not say.
        """

    def send(self, batch: Batch) -> None:
        """Hand a batch over; several may be under way."""

    def receive(self) -> Answer:
        """Return the answer to the oldest that is under way."""

    def close(self) -> None:
        """Give up what is under way; the next `send` begins anew."""


class HttpPost:
    """The connection to one broker, made when it is needed."""

    numbered = True

    def __init__(self, endpoint: Endpoint, timeout_s: float = TIMEOUT_S):
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._connection: Connection | None = None
        self._under_way: deque[int] = deque()  # how many events each has

    def partitions(self, topic: str) -> int:
        from cordwood.client.connection import Connection

        connection = Connection(self._endpoint, self._timeout_s)
        try:
            found = connection.request("GET", f"/v1/topics/{quote(topic, safe='')}").checked().json()
            return max(1, len(found["partitions"]))
        except NotFound:
            return 1
        except (KeyError, TypeError):
            raise Unavailable(STRANGER) from None
        finally:
            connection.close()

    def connect(self) -> None:
        from cordwood.client.connection import Connection

        if self._connection is not None and not self._under_way and self._connection.stale:
            self.close()
        if self._connection is None:
            self._connection = Connection(self._endpoint, self._timeout_s)

    def numbers(self, batch: Batch) -> dict[int, int] | None:
        from cordwood.client.connection import Connection

        found = {}
        connection = Connection(self._endpoint, self._timeout_s)
        try:
            for place in batch.counts:
                # What comes much too early is refused, and the refusal says what comes next. Nothing is stored.
                query = f"&partition={place}&epoch={batch.epoch}&sequence={FAR}"
                error = error_of(connection.request("POST", target(batch, query), b'{"value":null}\n', NDJSON))
                following = error.facts.get("expected_sequence") if isinstance(error, Conflict) else None
                if not isinstance(following, int):
                    return None
                found[place] = following
        finally:
            connection.close()
        return found

    def send(self, batch: Batch) -> None:
        self.connect()
        assert self._connection is not None, "it is made by now"
        size = sum(memoryview(piece).nbytes for piece in batch.body)
        self._under_way.append(batch.count)
        self._connection.send([self._connection.head("POST", target(batch, batch.query), size, ARROW), *batch.body])
        batch.body = []  # if it must go again, it is made again: a day without a broker must not hold memory

    def receive(self) -> Answer:
        assert self._connection is not None, "something is under way"
        reply = self._connection.receive()
        count = self._under_way.popleft()
        if self._connection.closing:
            if self._under_way:
                raise ConnectionError("the broker closes the connection")
            self.close()
        return answer_of(reply, count)

    def close(self) -> None:
        self._under_way.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def target(batch: Batch, query: str) -> str:
    """Return where a batch is posted to."""
    assert batch.topic is not None, "what goes to a broker has a topic"
    return f"/v1/produce?topic={quote(batch.topic, safe='')}&producer_id={batch.producer}{query}"


def answer_of(reply: Reply, count: int) -> Answer:
    """Return what a reply to a batch of so many events means.

    A status alone proves nothing: the login page of a hotel has a 200, and a proxy that expects TLS a 400. Only 413
    is taken from anybody: a proxy's limit is one, too, and what is above it never arrives.
    """
    means = meaning(reply.status)
    if means is Means.STORED:
        try:
            found = reply.json()
        except Unavailable:
            found = None
        if isinstance(found, dict) and found.get("count") == count and "durability" in found:
            return STORED
        return Answer(Means.UNSURE, f"{reply.status}: {STRANGER}")
    error = error_of(reply)
    reason = f"{reply.status}: {error}"
    wait_ms = min(retry_after_ms(reply) or 0, MOST_WAIT_MS)
    if means in (Means.BAD, Means.GONE, Means.CONFLICT) and reply.status != 413 and not _ours(reply):
        return Answer(Means.UNSURE, f"{reason}; {STRANGER}", wait_ms)
    epoch = error.facts.get("epoch", -1) if isinstance(error, Conflict) else -1
    return Answer(means, reason, wait_ms, epoch if isinstance(epoch, int) and 0 <= epoch < MOST_EPOCH else -1)


def _ours(reply: Reply) -> bool:
    """Say whether an error looks like one of a Cordwood broker's."""
    try:
        found = reply.json()
    except Unavailable:
        return False
    return isinstance(found, dict) and isinstance(found.get("error"), str)


class CallPost:
    """A function that delivers elsewhere: at least once, in order."""

    numbered = False

    def __init__(self, deliver: Callable[[list[Event]], Any]):
        self._deliver = deliver
        self._answers: deque[Answer] = deque()

    def partitions(self, topic: str) -> int:
        return 1

    def connect(self) -> None:
        pass

    def numbers(self, batch: Batch) -> dict[int, int] | None:
        return None

    def send(self, batch: Batch) -> None:
        try:
            self._deliver(batch.events())
        except Refused as error:
            self._answers.append(Answer(Means.BAD, str(error)))
        except BaseException as error:  # sys.exit(), too: whatever a stranger's function raises, the events stay
            self._answers.append(Answer(Means.LATER, f"{type(error).__name__}: {error}"))
        else:
            self._answers.append(STORED)

    def receive(self) -> Answer:
        return self._answers.popleft()

    def close(self) -> None:
        self._answers.clear()
