"""A whole broker in this process: for notebooks, tests and small jobs.

    with cordwood.embedded("data") as broker:
        Producer(broker.endpoint, "clicks").send(b"...")

It runs on a thread of its own, on a free port of the loopback address, and speaks HTTP like any other.
"""

import asyncio
import threading
from os import PathLike, fspath
from types import TracebackType
from typing import Any

import uvloop

from cordwood.client.producer import settle
from cordwood.errors import Refused
from cordwood.server.app import App, start_app
from cordwood.settings import load

START_S = 60.0
STOP_S = 60.0
SETTLE_S = 5.0  # for producers in this process that nobody closed


class Embedded:
    """A running broker; `endpoint` is where clients reach it.

    Ends with `stop`, or with the `with` block, which first lets producers of this process send what they have.
    """

    def __init__(self, app: App, loop: asyncio.AbstractEventLoop, thread: threading.Thread):
        self.endpoint = app.endpoint
        self._app = app
        self._loop = loop
        self._thread = thread

    def stop(self) -> None:
        """Finish what was accepted, close, and return when that is done. Twice is once."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._app.stop(), self._loop).result(STOP_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_S)

    def __enter__(self) -> "Embedded":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            settle(self.endpoint, SETTLE_S)
        self.stop()

    def __repr__(self) -> str:
        return f"<cordwood.embedded {self.endpoint}>"


def embedded(data: str | PathLike[str] | None = None, *, insecure: bool = False, **settings: Any) -> Embedded:
    """Start a broker on the directory `data`, or in memory only without one, and return when it is ready.

    `insecure` and the settings are those of `cordwood serve`; the environment and a configuration file do not count
    here. Raises what opening raises: `Locked` when another process has the directory, `Damaged` when its data is.
    """
    if data is not None:
        settings["data"] = fspath(data)
    elif "data" in settings:
        raise Refused("data is the first argument")
    settings.setdefault("port", 0)
    wanted = load(settings, environment={})
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=_run, args=(loop,), name="cordwood-broker", daemon=True)
    thread.start()
    try:
        starting = asyncio.run_coroutine_threadsafe(start_app(wanted, memory=data is None, insecure=insecure), loop)
        app = starting.result(START_S)
    except BaseException:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(STOP_S)
        raise
    return Embedded(app, loop, thread)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()
