"""An event loop for those who measure."""

import asyncio
import contextlib
from collections.abc import Iterator

import uvloop


@contextlib.contextmanager
def event_loop() -> Iterator[asyncio.Runner]:
    """Give a loop as a broker would run it."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner
