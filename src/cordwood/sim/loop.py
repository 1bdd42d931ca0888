"""Event loops on pretended time: one for each process of a pretended world, all in one thread.

    Timeline    what happens when, in all processes together; time jumps to the next thing that is due
    SimLoop     one process's event loop, for asyncio; `end` it, and nothing of that process happens any more

What a thread would do (`run_in_executor`) is done in one go a drawn while later, by the same thread. Two things that
are due at one time happen in the order in which they were asked for, so one seed gives one run.
"""

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heappop, heappush
from random import Random
from typing import Any, cast


class _Call:
    """Something that will happen; `cancel` keeps it from happening."""

    __slots__ = ("_at_us", "arguments", "call", "context", "loop")

    def __init__(
        self, loop: "SimLoop", call: Callable[..., Any], arguments: tuple[Any, ...], context: Context | None
    ):
        self.loop = loop
        self.call: Callable[..., Any] | None = call
        self.arguments = arguments
        self.context = context
        self._at_us = 0

    def cancel(self) -> None:
        self.call = None
        self.arguments = ()

    def cancelled(self) -> bool:
        return self.call is None

    def when(self) -> float:
        """When it is due, by `loop.time()`."""
        return self._at_us / 1e6


class Spinning(RuntimeError):
    """More happens than a world has to do: somebody asks again and again, and time stands still."""


class Timeline:
    """The time of a world, and what is to happen in it."""

    def __init__(self, most_calls: int = 1 << 62) -> None:
        self.now_us = 0
        self.calls = 0
        self._most_calls = most_calls
        self._ready: deque[_Call] = deque()
        self._later: list[tuple[int, int, _Call]] = []
        self._numbers = 0

    def soon(self, call: _Call) -> None:
        """Have this happen now, behind what is to happen now already."""
        self._ready.append(call)

    def at(self, time_us: int, call: _Call) -> None:
        """Have this happen at a time; not before now."""
        call._at_us = time_us
        self._numbers += 1
        heappush(self._later, (time_us, self._numbers, call))

    def run(self, until: Callable[[], bool], until_us: int) -> None:
        """Let things happen until `until()`, or until the time has come. Raises `Spinning` when it is too many."""
        ready, later = self._ready, self._later
        outer = events._get_running_loop()
        try:
            while not until():
                if ready:
                    call = ready.popleft()
                elif later and later[0][0] <= until_us:
                    time_us, _, call = heappop(later)
                    self.now_us = max(self.now_us, time_us)
                else:
                    self.now_us = max(self.now_us, until_us)
                    return
                if call.call is not None and call.loop.alive:
                    self.calls += 1
                    if self.calls > self._most_calls:
                        raise Spinning(f"{self.calls} things happened, and it is only {self.now_us} µs")
                    events._set_running_loop(cast(Any, call.loop))
                    call.loop.run(call)
        finally:
            events._set_running_loop(outer)


class SimLoop:
    """The event loop of one pretended process, as far as asyncio needs one: there are no sockets, pipes or signals.

    `complain` is told of errors that nobody took.
    """

    def __init__(self, timeline: Timeline, random: Random, complain: Callable[[BaseException | str], None]):
        self.alive = True
        self.chance = random.random
        self.slow = 1  # how many times as long as usual a thread takes
        self._timeline = timeline
        self._random = random
        self._complain = complain

    def thread_us(self) -> int:
        """Draw how long it takes until a thread has done something."""
        return self._random.choice((20, 100, 100, 500, 3_000)) * self.slow

    def end(self) -> None:
        """Let nothing more happen here."""
        self.alive = False

    def run(self, call: _Call) -> None:
        """Do what is due."""
        act = call.call
        assert act is not None, "it was not cancelled"
        try:
            if call.context is not None:
                call.context.run(act, *call.arguments)
            else:
                act(*call.arguments)
        except BaseException as error:
            if not isinstance(error, Exception) and self.alive:
                raise  # somebody at the real keyboard
            if self.alive:
                self._complain(error)

    # What asyncio asks for

    def time(self) -> float:
        return self._timeline.now_us / 1e6

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        call = _Call(self, callback, args, context)
        self._timeline.soon(call)
        return call

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Any:
        return self.after_us(int(delay * 1e6) + 1, callback, *args, context=context)

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        call = _Call(self, callback, args, context)
        self._timeline.at(int(when * 1e6) + 1, call)
        return call

    def after_us(
        self, delay_us: int, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Any:
        """Call after so many microseconds."""
        call = _Call(self, callback, args, context)
        self._timeline.at(self._timeline.now_us + delay_us, call)
        return call

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=cast(Any, self))

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[Any]":
        found: Coroutine[Any, Any, Any] = coro
        return asyncio.Task(found, loop=cast(Any, self), name=name, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """Have this done in one go, a while later."""
        future = self.create_future()
        self.after_us(self.thread_us(), self._work, future, func, args)
        return future

    def _work(self, future: "asyncio.Future[Any]", func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        try:
            result = func(*args)
        except Exception as error:
            if not future.cancelled():
                future.set_exception(error)
            return
        if not future.cancelled():
            future.set_result(result)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.alive:
            self._complain(context.get("exception") or str(context.get("message")))

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False
