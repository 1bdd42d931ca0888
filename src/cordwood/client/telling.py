"""What is said to the broker about leased messages: ack, nack, extend; each about ranges of one partition."""

import logging
from typing import Any

import msgspec

from cordwood.client.connection import Connection
from cordwood.client.endpoint import Endpoint
from cordwood.client.narrowing import narrow
from cordwood.client.ranges import Range
from cordwood.client.reply import Reply, error_of
from cordwood.client.retry import LATER, STORED, meaning
from cordwood.errors import Conflict

log = logging.getLogger("cordwood.client")

_encode = msgspec.json.Encoder().encode


class Telling:
    """One connection to the broker, made anew when it broke. `whose` names topic, group and owner.

    `lost` counts messages whose ack or nack was refused; `refusals` has the last hundred reasons.
    """

    def __init__(self, endpoint: Endpoint, whose: dict[str, str], timeout_s: float):
        self._endpoint, self._whose = endpoint, whose
        self.timeout_s = timeout_s
        self.lost = 0
        self.refusals: list[Conflict] = []
        self._connection: Connection | None = None

    def tell(self, what: str, partition: int, ranges: list[Range], **said: Any) -> tuple[list[Range], list[Range]]:
        """Return what of the ranges was accepted and what was not. Raises OSError or Unavailable: try again."""
        reply = self._ask(what, partition, ranges, said)
        if meaning(reply.status) == STORED:
            return ranges, []
        error = error_of(reply)
        if meaning(reply.status) == LATER:
            raise error
        done: list[Range] = []
        refused = ranges
        if reply.status == 409:
            done, refused = narrow(ranges, lambda some: self._ask(what, partition, some, said).ok)
        if what != "extend":
            count = sum(end - first for first, end in refused)
            self.lost += count
            log.warning("%s of %d message(s) of partition %d was refused: %s", what, count, partition, error)
            found = error if isinstance(error, Conflict) else Conflict(str(error))
            found.facts.update(partition=partition, ranges=str(refused))
            self.refusals = [*self.refusals[-99:], found]
        return done, refused

    def close(self) -> None:
        """Close the connection; the next word makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, what: str, partition: int, ranges: list[Range], said: dict[str, Any]) -> Reply:
        if self._connection is not None and self._connection.stale:
            self.close()
        if self._connection is None:
            self._connection = Connection(self._endpoint, self.timeout_s)
        body = _encode({**self._whose, "partition": partition, "ranges": ranges, **said})
        return self._connection.request("POST", f"/v1/{what}", body, "application/json")
