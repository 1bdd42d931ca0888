"""A broker that nobody talks to: its memory, and whether it sleeps."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from cordwood.bench.result import Result, alone, at_most
from cordwood.bench.served import Served

SETTLE_SECONDS = 2.0
MB = 1_000_000


def measure_idle(scratch: Path, seconds: float) -> Iterator[Result]:
    """Yield the memory of a broker that has just started, and the share of a processor it uses."""
    directory = scratch / "idle"
    directory.mkdir()
    with Served(directory) as service:
        time.sleep(SETTLE_SECONDS)
        before = service.cpu_seconds
        time.sleep(seconds)
        share = 100 * (service.cpu_seconds - before) / seconds
        memory = service.memory_bytes / MB
    shutil.rmtree(directory)
    yield alone("idle: memory", "MB", [memory], at_most(150), "VmRSS of a broker on an empty directory")
    yield alone("idle: processor", "%", [share], at_most(2), f"of one core, for {seconds:g} s: no busy loop")
