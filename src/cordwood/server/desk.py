"""What every route has at hand: the broker, limits, names for owners, and threads for what would block the loop."""

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any, TypeVar

import msgspec

from cordwood.broker.history import Away
from cordwood.broker.running import Running
from cordwood.errors import CordwoodError, Limited
from cordwood.http.later import Later, Outcome
from cordwood.http.response import Response
from cordwood.machine.clock import Clock
from cordwood.server import limits
from cordwood.server.door import Door
from cordwood.server.refusals import refused

T = TypeVar("T")
Then = Callable[[Any], None]

ASIDE_BYTES = 256 << 10  # a larger text is decoded in a thread: it takes a millisecond or more
THREADS = 2

NO_CONTENT = Response(204)
_encoder = msgspec.json.Encoder()


def as_json(result: Any) -> Response:
    """Return a result as a 200."""
    return Response(200, _encoder.encode(result))


def nothing(_: Any) -> Response:
    """Return that it is done."""
    return NO_CONTENT


class Desk:
    """Where routes ask the broker. `connections` says how many clients there are."""

    def __init__(self, running: Running, clock: Clock, connections: Callable[[], int], door: Door):
        self.running = running
        self.broker = running.broker
        self.settings = running.settings
        self.clock = clock
        self.door = door
        self.connections = connections
        self.limits = limits.intake(running.settings)
        self.loop = asyncio.get_running_loop()
        self.aside_bytes = 0
        self._threads = ThreadPoolExecutor(THREADS, "cordwood-bodies")
        self._prefix = secrets.token_hex(4)  # so that no owner has a name from before a restart
        self._numbers = count(1)

    def new_owner(self) -> str:
        """Return a name that no consumer had before."""
        return f"{self._prefix}-{next(self._numbers)}"

    def ask(self, call: Callable[[Then], object], render: Callable[[Any], Response] = as_json) -> Later:
        """Call the broker, and return what its answer will be."""
        answer = Later()

        def then(result: Any) -> None:
            try:
                found: Outcome = refused(result) if isinstance(result, CordwoodError) else render(result)
            except Exception as error:  # it must not reach the broker, whose other answers wait behind this one
                found = error
            answer.give(found)

        try:
            call(then)
        finally:
            self.running.touch()
        return answer

    async def result(self, call: Callable[[Then], object]) -> Any:
        """Call the broker and return the result; raise the error, if it is one."""
        found: asyncio.Future[Any] = self.loop.create_future()

        def then(result: Any) -> None:
            if not found.done():  # cancelled with the task that waited: the client left
                found.set_result(result)

        try:
            call(then)
        finally:
            self.running.touch()
        result = await found
        if isinstance(result, CordwoodError):
            raise result
        return result

    async def here(self, call: Callable[[], T]) -> T:
        """Return what the broker says, once what it needs from the tier is here."""
        while True:
            try:
                return call()
            except Away as away:
                await self.result(partial(self.broker.bring, away.wanted))

    async def aside(self, size: int, call: Callable[..., T], *arguments: Any) -> T:
        """Return what `call` returns, from a thread. Refused while too much waits for that already."""
        most = self.settings.max_pending_bytes
        if self.aside_bytes and self.aside_bytes + self.broker.pending_bytes + size > most:
            self.broker.counts.rejected("pending_bytes_full")
            raise Limited(f"{self.aside_bytes} bytes wait to be read, at most {most} may", "pending_bytes_full", 100)
        self.aside_bytes += size
        try:
            return await self.loop.run_in_executor(self._threads, call, *arguments)
        finally:
            self.aside_bytes -= size
