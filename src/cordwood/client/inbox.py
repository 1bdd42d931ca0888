"""Deliveries that were fetched ahead, and the application that waits for them."""

import threading
from collections import deque
from collections.abc import Callable, Sequence

from cordwood.client.message import Delivery

FEW = 64
SLOW_S = 5.0  # who needs longer for what was fetched ahead has too much of it; others could do it


class Appetite:
    """How many messages to fetch ahead: twice as many when they are used up before the next come, half when slowly.

    A fast application finds its messages here; a slow one does not keep them from other consumers.
    """

    def __init__(self, most: int):
        self._most = most
        self.wanted = min(FEW, most)

    @property
    def portion(self) -> int:
        """How many to ask for at once: half, so that the next are on their way while the application has these."""
        return -(-self.wanted // 2)

    @property
    def least(self) -> int:
        """How many to ask for at least: fewer are not worth a request and a sync, unless nothing else is here."""
        return max(1, self.wanted // 4)

    def used(self, count: int, took_s: float) -> None:
        """The application has used up `count` messages in so long, and nothing else is here."""
        if took_s > SLOW_S * max(1.0, count / self.wanted):
            self.wanted = max(1, self.wanted // 2)
        elif count >= self.wanted // 2:
            self.wanted = min(self._most, self.wanted * 2)


class Inbox:
    """A queue of deliveries. `count` and `size` are what waits in it, in messages and bytes."""

    def __init__(self) -> None:
        self._deliveries: deque[tuple[Delivery, int]] = deque()  # with its bytes
        self._changed = threading.Condition()
        self._callbacks: list[Callable[[], None]] = []
        self.count = 0
        self.size = 0
        self.over: BaseException | None = None

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Add what came together; who waits is woken once."""
        sized = [(delivery, int(delivery.batch.nbytes)) for delivery in deliveries]
        with self._changed:
            self._deliveries += sized
            self.count += sum(delivery.batch.num_rows for delivery in deliveries)
            self.size += sum(size for _, size in sized)
        self._tell()

    def end(self, error: BaseException) -> None:
        """Let `get` raise this once the queue is empty."""
        with self._changed:
            self.over = self.over or error
        self._tell()

    def get(self, timeout_s: float | None) -> Delivery | None:
        """Return the oldest delivery, None when none came in time. Raises what ended the queue."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._deliveries or self.over is not None, timeout_s):
                return None
            if not self._deliveries:
                assert self.over is not None, "it has ended"
                raise self.over
            delivery, size = self._deliveries.popleft()
            self.count -= delivery.batch.num_rows
            self.size -= size
            self._changed.notify_all()
            return delivery

    def wait_for_room(self, fact: Callable[[], bool], timeout_s: float) -> None:
        """Return when `fact()` is true, looked at whenever something was taken, or when it has ended."""
        with self._changed:
            self._changed.wait_for(lambda: fact() or self.over is not None, timeout_s)

    def when_ready(self, call: Callable[[], None]) -> None:
        """Call once, from some thread, when `get` would not wait; at once if it would not now."""
        with self._changed:
            if not self._deliveries and self.over is None:
                self._callbacks.append(call)
                return
        call()

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()
            callbacks, self._callbacks = self._callbacks, []
        for call in callbacks:
            call()
