"""How much at once and how long, together in one place, each with its reason."""

from dataclasses import dataclass, fields

from cordwood.errors import Refused


@dataclass(frozen=True, slots=True)
class ProducerTerms:
    """The limits of a producer.

    `batch_messages`, `batch_bytes`: one request; from a thousand messages on the broker's work per request is
    spread thin. `linger_ms`: how long a batch that is not full waits for more when nothing is under way.
    `buffer_bytes`: what may wait here before `send` waits, at most `max_block_ms`. `delivery_timeout_ms`: then a
    message fails. `request_timeout_ms`: then the connection is taken for dead and the request is sent again.
    """

    batch_messages: int = 10_000
    batch_bytes: int = 4 << 20  # 1.3 to 2 times the MB/s of 1 MiB with messages of 1 KiB, on a busy machine
    linger_ms: float = 0
    buffer_bytes: int = 64 << 20
    max_block_ms: int = 60_000
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000

    def __post_init__(self) -> None:
        check(self, zero_allowed=("linger_ms", "max_block_ms"))


@dataclass(frozen=True, slots=True)
class ConsumerTerms:
    """The limits of a consumer.

    `prefetch`: messages that may wait here, so that the application need not; it starts with few and asks for more
    as long as they are used up faster than they come. `prefetch_bytes`: the same in bytes. `lease_ms`: how long the
    broker keeps a message for us if it hears nothing; renewed at a third of it. `wait_ms`: how long one request
    waits for messages. `idle_timeout_ms`: iteration ends when nothing came for so long, and nothing is on its way;
    0: never. `close_ms`: the most that leaving takes to acknowledge and give back. `request_timeout_ms`: then a
    connection is taken for dead.
    """

    prefetch: int = 100_000
    prefetch_bytes: int = 16 << 20
    lease_ms: int = 30_000
    wait_ms: int = 20_000
    idle_timeout_ms: int = 0
    close_ms: int = 5_000
    request_timeout_ms: int = 30_000

    def __post_init__(self) -> None:
        check(self, zero_allowed=("idle_timeout_ms",))


def check(terms: object, zero_allowed: tuple[str, ...] = ()) -> None:
    """Raise Refused, naming the first field that is no possible number."""
    for field in fields(terms):  # type: ignore[arg-type]
        value = getattr(terms, field.name)
        if not isinstance(value, int | float) or value < 0 or (not value and field.name not in zero_allowed):
            raise Refused(f"{field.name} is {value!r}; it must be a number above 0")
