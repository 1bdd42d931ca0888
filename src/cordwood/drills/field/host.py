"""A broker run with what no user can set: a clock that a drill moves, and claims that lapse soon.

python -m cordwood.drills.field.host --clock FILE --soon --data DIR --port N --set NAME=VALUE …

FILE has eight bytes: how many milliseconds the time of day is off. The clock that never goes back stays as it is.
All else is `cordwood serve`. Who has claims that lapse soon must meet only others that are run like this.
"""

import argparse
import asyncio
import mmap
import signal
import struct
import sys
from pathlib import Path

from cordwood.errors import CordwoodError
from cordwood.machine.clock import SystemClock
from cordwood.server.app import start_app
from cordwood.server.logs import log_to_stderr
from cordwood.settings import Settings, load
from cordwood.tier.claim import Terms

OFF = struct.Struct("<q")
SOON = Terms(renew_ms=300, hold_ms=2_000, lapse_ms=3_000, patience_ms=30_000, look_ms=100)


class MovedClock(SystemClock):
    """The computer's clock, with a time of day that is off by what a file says."""

    def __init__(self, path: Path):
        with path.open("rb") as file:
            self._off = mmap.mmap(file.fileno(), OFF.size, access=mmap.ACCESS_READ)

    def now_ms(self) -> int:
        return super().now_ms() + int(OFF.unpack(self._off[:])[0])


def set_clock(path: Path, off_ms: int) -> None:
    """Set the time of day of whoever runs with this file."""
    if not path.exists():
        path.write_bytes(bytes(OFF.size))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), OFF.size) as off:
        off[:] = OFF.pack(off_ms)


async def _serve(settings: Settings, clock: MovedClock | None, terms: Terms | None) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    app = await start_app(settings, clock=clock, terms=terms)
    print(f"cordwood: listening on {app.endpoint}", file=sys.stderr, flush=True)
    await stop.wait()
    await app.stop()


def main() -> int:
    """Run it until SIGTERM; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m cordwood.drills.field.host")
    parser.add_argument("--clock", type=Path)
    parser.add_argument("--soon", action="store_true")
    parser.add_argument("--data", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log-level", default="warning")
    parser.add_argument("--set", action="append", default=[], dest="others")
    asked = parser.parse_args()
    flags: dict[str, object | None] = {"data": asked.data, "port": asked.port, "log_level": asked.log_level}
    for other in asked.others:
        name, _, value = other.partition("=")
        flags[name] = int(value) if value.isdigit() else value
    try:
        settings = load(flags, environment={})
        log_to_stderr(settings.log_level, settings.log_format)
        clock = MovedClock(asked.clock) if asked.clock else None
        asyncio.run(_serve(settings, clock, SOON if asked.soon else None))
    except CordwoodError as error:
        print(f"cordwood: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
