"""What a produce body asks for, the same from every format."""

from dataclasses import dataclass

from cordwood.record import Records


@dataclass(frozen=True, slots=True)
class Produce:
    """Messages to append together, all or none, and what the body itself said about the request.

    What it did not say is None; the query may say it. `sequence` is the number of the first message.
    `idempotency_keys` has one for each message, or is None when no message has one. No messages at all is a valid
    request: there is nothing to append.
    """

    records: Records
    topic: str | None = None
    producer_id: str | None = None
    epoch: int | None = None
    sequence: int | None = None
    idempotency_keys: list[str | None] | None = None
    qos: int | None = None
