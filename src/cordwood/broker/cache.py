"""The newest messages in memory, and those older ones that somebody is just reading."""

from collections import OrderedDict, deque

from cordwood.record import Batch, Resting

# A quarter of the room is for what was read from the disk: a reader of old messages must not push out the new ones.
COLD_SHARE = 4
LEAST_COLD_BYTES = 4 << 20  # what is read ahead must stay until it is used


class Cache:
    """Payloads by their place, bounded in bytes. What is not yet durable stays, whatever the bound."""

    def __init__(self, most_bytes: int):
        self._most_bytes = most_bytes
        self._new: dict[tuple[int, int], Batch | Resting] = {}
        self._order: deque[tuple[int, int, int]] = deque()  # (LSN, payload, bytes), oldest first
        self._cold: OrderedDict[tuple[int, int], tuple[Batch, int]] = OrderedDict()
        self._cold_bytes = 0
        self.bytes = 0

    def keep(self, lsn: int, payload: int, batch: Batch | Resting, size: int) -> None:
        """Keep a payload, of so many bytes, that was appended just now."""
        self._new[(lsn, payload)] = batch
        self._order.append((lsn, payload, size))
        self.bytes += size

    def keep_cold(self, lsn: int, payload: int, batch: Batch) -> None:
        """Keep a payload that was read from the disk, for whoever wants the rest of it next."""
        size = batch.nbytes
        before = self._cold.pop((lsn, payload), None)
        self._cold[(lsn, payload)] = batch, size
        self._cold_bytes += size - (before[1] if before is not None else 0)
        room = max(self._most_bytes // COLD_SHARE, LEAST_COLD_BYTES)
        while self._cold_bytes > room and len(self._cold) > 1:
            _, (_, gone) = self._cold.popitem(last=False)
            self._cold_bytes -= gone

    @property
    def first_lsn(self) -> int:
        """The oldest frame of those that were appended and are still here; one that will never be, if none is."""
        return self._order[0][0] if self._order else 1 << 62

    def get(self, lsn: int, payload: int) -> Batch | None:
        """Return a payload that is in memory."""
        found = self._new.get((lsn, payload))
        if found is not None:
            return found.batch if isinstance(found, Resting) else found
        cold = self._cold.get((lsn, payload))
        if cold is None:
            return None
        self._cold.move_to_end((lsn, payload))
        return cold[0]

    def peek(self, lsn: int, payload: int) -> Batch | Resting | None:
        """Return a payload that was appended and is still here, as it is kept; from any thread."""
        return self._new.get((lsn, payload))

    def evict(self, durable: int) -> None:
        """Let the oldest go while there is too much; only frames below `durable` can be read again."""
        while self.bytes > self._most_bytes and self._order and self._order[0][0] < durable:
            lsn, payload, size = self._order.popleft()
            del self._new[(lsn, payload)]
            self.bytes -= size

    def __contains__(self, place: tuple[int, int]) -> bool:
        return place in self._new or place in self._cold
