"""An object store, pretended: another machine, which loses nothing that it confirmed and fails in every other way.

    what may happen to a call                     how
    it takes time, before and after it is done    `delay_ms`: the clock passes, at most so much each
    it fails and nothing was done                 `fail_before`: how likely
    it fails and all of it was done               `fail_after`: how likely; the caller sees the same error
    it fails, and a put is done a while later     `fail_late`: how likely; within `late_ms`
    a listing breaks off                          `fail_listing`: how likely, behind each entry
    nothing works for a while                     `outage_until_ms`, `down`
    what is stored is not what was put            `corrupt`, and only that

A broker's crash is none of the store's: hand the same one to the next broker.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from cordwood.machine.disk import Buffer
from cordwood.machine.objects.memory import MemoryObjects
from cordwood.machine.objects.store import Entry, ObjectMissing, StoreUnavailable, check_prefix
from cordwood.sim.clock import SimClock

T = TypeVar("T")
# (operation, name), called before each call acts; raises to fail it.
Watch = Callable[[str, str], None]


@dataclass(slots=True)
class Weather:
    """How likely each fault is; change it while the store is used."""

    fail_before: float = 0.0
    fail_after: float = 0.0
    fail_late: float = 0.0
    late_ms: int = 10_000
    fail_listing: float = 0.0
    delay_ms: int = 0


class SimObjects:
    """A pretended store; one seed and one order of calls give one run."""

    url = "sim:"

    def __init__(self, clock: SimClock, random: Random | None = None, weather: Weather | None = None) -> None:
        self.weather = weather or Weather()
        self.watch: Watch | None = None
        self.down = False
        self.outage_until_ms = 0  # by the clock's `monotonic_ms`
        self.calls = 0
        self._clock = clock
        self._random = random or Random(0)
        self._kept = MemoryObjects(clock)
        self._late: Sequence[tuple[int, str, bytes]] = ()  # when, name, bytes

    def put(self, name: str, data: Buffer) -> bool:
        def act() -> bool:
            if self._random.random() < self.weather.fail_late:
                due_ms = self._clock.monotonic_ms() + self._random.randrange(self.weather.late_ms + 1)
                self._late = (*self._late, (due_ms, name, bytes(data)))
                raise StoreUnavailable(self.url, "put failed")
            return self._kept.put(name, data)

        return self._call("put", name, act)

    def get(self, name: str, first: int = 0, end: int | None = None) -> Buffer:
        return self._call("get", name, lambda: self._kept.get(name, first, end))

    def size(self, name: str) -> int:
        return self._call("size", name, lambda: self._kept.size(name))

    def list(self, prefix: str) -> Iterator[Entry]:
        return self._listing(check_prefix(prefix))

    def _listing(self, prefix: str) -> Iterator[Entry]:
        found = self._call("list", prefix, lambda: self._kept.list(prefix))
        for entry in found:
            yield entry
            if self._random.random() < self.weather.fail_listing:
                raise StoreUnavailable(self.url, f"the listing of {prefix} broke off behind {entry.name}")

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._call("delete", name, lambda name=name: self._kept.delete([name]))  # type: ignore[misc]

    # What a test does behind the store's back

    def corrupt(self, name: str, position: int | None = None) -> None:
        """Flip a bit of a stored object: this one, or any."""
        data = bytearray(self.peek(name))
        if position is None:
            position = self._random.randrange(len(data))
        data[position] ^= 1 << self._random.randrange(8)
        self._kept.delete([name])
        self._kept.put(name, data)

    def peek(self, name: str) -> bytes:
        """Return an object as it is stored, whatever the weather."""
        return bytes(self._kept.get(name))

    def names(self) -> tuple[str, ...]:
        """Return every name, whatever the weather."""
        return tuple(entry.name for entry in self._kept.list(""))

    def _call(self, operation: str, name: str, act: Callable[[], T]) -> T:
        self.calls += 1
        if self.watch is not None:
            self.watch(operation, name)
        self._take_time()
        if self.down or self._clock.monotonic_ms() < self.outage_until_ms:
            raise StoreUnavailable(self.url, "it is down")
        if self._random.random() < self.weather.fail_before:
            raise StoreUnavailable(self.url, f"{operation} failed")
        done: T | ObjectMissing
        try:
            done = act()
        except ObjectMissing as missing:
            done = missing
        self._take_time()
        if self._random.random() < self.weather.fail_after:
            raise StoreUnavailable(self.url, f"{operation} failed")
        if isinstance(done, ObjectMissing):
            raise done
        return done

    def _take_time(self) -> None:
        if self.weather.delay_ms:
            self._clock.pass_ms(self._random.randrange(self.weather.delay_ms + 1))
        now_ms = self._clock.monotonic_ms()
        for due_ms, name, data in self._late:
            if due_ms <= now_ms:
                self._kept.put(name, data)
        self._late = tuple(late for late in self._late if late[0] > now_ms)
