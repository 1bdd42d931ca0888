"""Room for the next frames: spares to go on in, and released segments to make them of.

    data may be numbered      if a spare stands behind the segment it goes into: that one is the reserve
    what frees space          may use the reserve
    a full disk               is noticed here, before anything is numbered

Asking is quick and comes from whoever appends; making is slow disk work and comes from one thread at a time.
"""

import contextlib
import logging
import threading
from collections.abc import Callable

from cordwood.errors import Full, Preparing, Unavailable
from cordwood.journal.limits import Limits
from cordwood.journal.segment import HEADER_BYTES, Segment
from cordwood.journal.segments import Segments
from cordwood.journal.spares import Spare, Spares
from cordwood.machine.clock import Clock
from cordwood.machine.disk import Directory

log = logging.getLogger("cordwood.journal")

RETRY_MS = 1_000  # how often a full disk is asked again whether it has room


class Room:
    """Knows whether there is room, and makes it. `snapshot_bytes` is how large the last snapshot was."""

    def __init__(
        self,
        directory: Directory,
        segments: Segments,
        spares: Spares,
        limits: Limits,
        clock: Clock,
        snapshot_bytes: int,
    ):
        self.snapshot_bytes = snapshot_bytes
        self._directory = directory
        self._segments = segments
        self._spares = spares
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._making = threading.Lock()
        self._released = 0
        self._keeps_all = False  # a released file did not surely go
        self._leaving: Segment | None = None
        self._wanted_bytes = 0  # a frame waits for a spare as large as this
        # A spare of this size could not be made, why, and until when nobody tries again.
        self._unmakeable: tuple[int, str, int] | None = None
        self._trouble: tuple[type[Unavailable], str] | None = None  # why ordinary spares cannot be made

    # Asking

    def check(self, *, reserve: bool) -> None:
        """Raise unless a frame may go into the segment that is being written."""
        if not reserve and not self._spares.ready:
            raise self.missing()

    def check_rotation(self, *, reserve: bool) -> None:
        """Raise if it is plain, before anybody takes a snapshot, that there is nothing to go on in."""
        if not reserve and len(self._spares.ready) < 2 and self._wanted_bytes == 0:
            raise self.missing()

    def claim(self, planned: int, size: int, *, reserve: bool) -> Spare:
        """Return the spare to go on in with a snapshot of `planned` bytes and a frame of `size`, or raise.

        However large the state is, a segment should have room for more than one frame behind it; but one that
        is there is better than none.
        """
        least = HEADER_BYTES + planned
        roomy = least + max(size, self._limits.segment_bytes // 2)
        with self._lock:
            spare = self._spares.fitting(roomy) or self._spares.fitting(least + size)
            if spare is None:
                self._want(roomy)
                raise self.missing()
            if not reserve and len(self._spares.ready) < 2:
                raise self.missing()
            self._spares.ready.remove(spare)
            return spare

    def missing(self) -> Unavailable:
        """Return why there is no room just now."""
        if self._trouble is not None:
            kind, reason = self._trouble
            return kind(reason)
        return Preparing("the next segment is being prepared; try again in a moment")

    def _want(self, size: int) -> None:
        """Have a spare of this size made, or raise `Full` if that was tried a moment ago."""
        if self._unmakeable is not None:
            too_large, reason, until_ms = self._unmakeable
            if size >= too_large and self._clock.monotonic_ms() < until_ms:
                raise Full(reason)
        self._wanted_bytes = max(self._wanted_bytes, size)

    def release(self, lsn: int) -> None:
        """Say that no frame below `lsn` is needed any more."""
        with self._lock:
            self._released = max(self._released, lsn)
            self._unmakeable = None

    # Making

    @property
    def wants_work(self) -> bool:
        """Whether `make` has something to do."""
        if len(self._spares.ready) < self._limits.spares or self._wanted_bytes:
            return True
        if self._segments.cooling() is not None:
            return True
        return not self._keeps_all and (self._leaving or self._segments.releasable(self._released)) is not None

    def make(self, goes_on: Callable[[], bool]) -> bool:
        """Let released segments go and prepare spares, while `goes_on`; say whether all is there that should be.

        A disk that is full is not an error here: whoever asks is told, and the next call tries again.
        """
        with self._making:
            try:
                while goes_on():
                    if not self._let_one_go() and not self._cool_one() and not self._make_one():
                        self._trouble = None
                        return True
            except Full as error:
                self._trouble = (Full, str(error))
            except OSError as error:
                self._trouble = (Unavailable, f"cannot prepare a segment: {error.strerror or error}")
                log.warning("%s: %s", self._directory.path, self._trouble[1])
            return False

    def at_rest(self) -> threading.Lock:
        """Return the lock that is held while anything is made, for whoever closes the journal."""
        return self._making

    def _make_one(self) -> bool:
        """Make a spare if one is lacking: the ordinary ones first, then one for a frame that needs more."""
        if len(self._spares.ready) < self._limits.spares:
            # A state that fills most of a segment gets larger ones.
            large = HEADER_BYTES + self.snapshot_bytes * 5 // 4 + self._limits.segment_bytes // 2
            self._add(self._spares.make(max(self._limits.segment_bytes, large)))
            return True
        wanted = self._wanted_bytes
        if wanted:
            try:
                self._add(self._spares.make(wanted))
            except Full as error:
                # Only that frame has no room; everybody else goes on.
                self._wanted_bytes = 0
                self._unmakeable = (wanted, str(error), self._clock.monotonic_ms() + RETRY_MS)
            return True
        return False

    def _cool_one(self) -> bool:
        """Have the system forget an old segment, so that the next one takes its memory and not fresh memory.

        Fresh memory can cost ten times as much as the write itself (decision 0012).
        """
        old = self._segments.cooling()
        if old is None:
            return False
        old.cold = True
        with contextlib.suppress(OSError):  # it is only advice
            file = self._directory.open(old.name, write=False)
            try:
                file.cool()
            finally:
                file.close()
        return True

    def _let_one_go(self) -> bool:
        """Use a released file again, or remove it: one at a time, oldest first, each made durable.

        A power cut must not leave a hole between two that are still there. So, when the directory's sync fails, no
        later one goes before the journal is opened again.
        """
        if self._keeps_all:
            return False
        old = self._leaving or self._segments.take(self._released)
        if old is None:
            return False
        self._leaving = old  # if its name cannot be taken away now, it is the next one to try again
        size = self._limits.segment_bytes
        # A short file costs as much to lengthen as a new one; an overlong one wastes room.
        again = len(self._spares.ready) < self._limits.used_again and size // 2 <= old.size <= 2 * size
        if again:
            unfinished = self._spares.retire(old.name)
        else:
            self._directory.remove(old.name)
        self._leaving = None
        self._keeps_all = True
        self._directory.sync()
        self._keeps_all = False
        if again:
            self._add(self._spares.recycle(unfinished, size, cold=old.cold))
        return True

    def _add(self, spare: Spare) -> None:
        with self._lock:
            self._spares.ready.append(spare)
            if spare.size >= self._wanted_bytes:
                self._wanted_bytes = 0
