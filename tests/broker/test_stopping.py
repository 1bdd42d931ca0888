"""A broker that stops although its disk fails just then."""

import asyncio
import errno

import pytest

from cordwood.broker.running import open_broker
from cordwood.errors import Unavailable
from cordwood.machine.boot_clock import BootClock
from cordwood.machine.clock import SystemClock
from cordwood.machine.objects.memory import MemoryObjects
from cordwood.settings import Settings
from cordwood.sim.disk import SimDirectory
from cordwood.tier.claims_in_store import StoreClaims, signs


def test_a_disk_that_fails_at_the_stop_makes_nobody_wait_for_the_store() -> None:
    directory, objects = SimDirectory(), MemoryObjects(SystemClock())

    def fail(operation: str, name: str, size: int) -> int | None:
        if operation == "write":
            raise OSError(errno.EIO, "the disk failed")
        return None

    async def live() -> None:
        running = open_broker(Settings(data="nowhere", segment_bytes=1 << 20), directory=directory)
        await running.use_tier(objects, StoreClaims(objects, BootClock()), "a broker")
        assert not signs(objects)[-1].released
        directory.faults = fail
        with pytest.raises(Unavailable, match="the disk failed"):
            await running.close()

    asyncio.run(live())
    assert signs(objects)[-1].released
