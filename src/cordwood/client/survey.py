"""How many partitions a topic has: asked once, before the first message goes."""

import random
from urllib.parse import quote

from cordwood.client.connection import Connection
from cordwood.client.endpoint import Endpoint
from cordwood.client.reply import STRANGER
from cordwood.client.retry import Backoff
from cordwood.errors import NotFound, Unavailable

_BACKOFF = Backoff(0.1, 5.0)


class Survey:
    """Asks, and remembers the answer. After a failure it is not worth asking before `again_at`."""

    def __init__(self, endpoint: Endpoint, topic: str, timeout_s: float, patience_s: float):
        self.again_at = 0.0
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._target = f"/v1/topics/{quote(topic, safe='')}"
        self._patience_s = patience_s
        self._count: int | None = None
        self._since = 0.0
        self._failures = 0

    def forget(self) -> None:
        """Ask again the next time."""
        self._count = None

    def partitions(self, now: float) -> int | None:
        """Return how many partitions there are, None when the broker cannot say so now.

        Where there is no such topic, 1: the broker may make it when the first message comes, or refuse that. Raises
        Refused when it will never say, Unavailable when it did not for too long.
        """
        if self._count is not None:
            return self._count
        self._since = self._since or now
        try:
            self._count = self._ask()
        except NotFound:
            return 1
        except (OSError, Unavailable) as error:
            self._failures += 1
            self.again_at = now + _BACKOFF.wait_s(self._failures, random.random)
            if now - self._since < self._patience_s:
                return None
            self._since = 0.0
            raise Unavailable(f"the broker cannot be reached: {error}") from error
        self._since, self._failures = 0.0, 0
        return self._count

    def _ask(self) -> int:
        connection = Connection(self._endpoint, self._timeout_s)
        try:
            found = connection.request("GET", self._target).checked().facts().get("partitions")
            if not isinstance(found, list) or not found:
                raise Unavailable(f"the answer names no partitions; {STRANGER}")
            return len(found)
        finally:
            connection.close()
