"""The lock of a store that is a directory: it goes with its process, so nobody waits for one that died.

It holds between computers only where the filesystem's locks do: not on NFS that is mounted with `nolock`.
"""

import contextlib
from collections.abc import Callable, Iterator

from cordwood.errors import Locked
from cordwood.machine.objects.directory import DirectoryObjects
from cordwood.machine.objects.store import Objects
from cordwood.tier.claim import Owned, SteadyClock, Wait

LOOK_MS = 100  # a look at a lock costs next to nothing


@contextlib.contextmanager
def locking(
    objects: Objects, clock: SteadyClock, until_ms: int, wait: Wait, owner: Callable[[], str]
) -> Iterator[bool]:
    """Take a directory's lock, or raise `Owned`; it stays unless the body raises. Says whether the store has one."""
    if not isinstance(objects, DirectoryObjects):
        yield False
        return
    while True:
        try:
            objects.lock()
            break
        except Locked:
            if clock.monotonic_ms() >= until_ms:
                raise Owned(objects.url, owner()) from None
        wait(LOOK_MS)
    try:
        yield True
    except BaseException:
        objects.unlock()
        raise


def unlock(objects: Objects) -> None:
    """Give the lock back, if the store has one."""
    if isinstance(objects, DirectoryObjects):
        objects.unlock()
