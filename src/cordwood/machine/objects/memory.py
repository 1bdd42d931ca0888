"""A store in memory: gone with the process."""

import threading
from collections.abc import Iterable, Iterator

from cordwood.machine.clock import Clock
from cordwood.machine.disk import Buffer
from cordwood.machine.objects.store import Entry, ObjectMissing, check_name, check_prefix, check_range


class MemoryObjects:
    """Objects in a dictionary."""

    url = "memory:"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._lock = threading.Lock()

    def put(self, name: str, data: Buffer) -> bool:
        check_name(name)
        kept = (bytes(data), self._clock.now_ms())
        with self._lock:
            return self._objects.setdefault(name, kept) is kept

    def get(self, name: str, first: int = 0, end: int | None = None) -> Buffer:
        check_range(first, end)
        return memoryview(self._found(name))[first:end]

    def size(self, name: str) -> int:
        return len(self._found(name))

    def list(self, prefix: str) -> Iterator[Entry]:
        check_prefix(prefix)
        with self._lock:
            found = [Entry(name, len(data), at) for name, (data, at) in self._objects.items()]
        return iter(sorted(entry for entry in found if entry.name.startswith(prefix)))

    def delete(self, names: Iterable[str]) -> None:
        with self._lock:
            for name in names:
                self._objects.pop(check_name(name), None)

    def _found(self, name: str) -> bytes:
        check_name(name)
        with self._lock:
            if name not in self._objects:
                raise ObjectMissing(name, self.url)
            return self._objects[name][0]
