"""An answer that comes later, written the moment it is there.

A future of asyncio would do, and is what most handlers return; but its news wait for the next turn of the event loop,
behind all that the one who gives it does in this one.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from cordwood.http.response import Response

Outcome = Response | BaseException


class Later:
    """Given once, to one who waits: by `then`, or by awaiting it."""

    __slots__ = ("_call", "outcome")

    def __init__(self) -> None:
        self.outcome: Outcome | None = None
        self._call: Callable[[Outcome], None] | None = None

    def give(self, outcome: Outcome) -> None:
        """Say what the answer is, or why there is none."""
        self.outcome = outcome
        if self._call is not None:
            self._call(outcome)

    def then(self, call: Callable[[Outcome], None]) -> None:
        """Call this as soon as it is given, from within `give`; it was not given yet."""
        assert self.outcome is None and self._call is None, "one waits for it"
        self._call = call

    def __await__(self) -> Generator[Any, None, Response]:
        if self.outcome is None:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.then(lambda _: None if future.done() else future.set_result(None))
            yield from future
        if isinstance(self.outcome, Response):
            return self.outcome
        assert self.outcome is not None, "it was given"
        raise self.outcome
