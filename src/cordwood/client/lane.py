"""The parcels of one partition: their order, their numbers, and what an answer means for them.

    STORED     the parcel is durable; with `duplicate` an earlier sending was
    LATER      not now: when nothing is under way any more, all is sent again in order, after a while
    CONFLICT   the numbers do not fit, nothing was stored. Behind a parcel that is still to be stored: wait for it.
               At the head: begin a new epoch
    REFUSED    never as it is: parted in two to find the message that is at fault; when it cannot be parted, it fails

Why a repeat is never a duplicate, and nothing is lost: a parcel is always sent again with the same bytes and the
same numbers until the broker has given an answer that settles it. The numbers change only on a CONFLICT at the
head. Then the broker did not store the head under any number of this epoch: had it done so, it would have answered
"duplicate". And what comes behind the head in the same epoch cannot be stored without it. So nothing that is in the
lane is stored, and all of it may be numbered anew.

When does the head meet a CONFLICT? When a parcel before it was REFUSED, or given up after its time, and left a hole;
when the broker has forgotten the producer (7 days without use) or the topic was made anew. A new epoch, not the old
one renumbered, because a request that was given up may still be on its way: it must find its epoch over. And if a
parcel that was given up turns out to be stored, there is no hole, no CONFLICT, and the numbers go on.

A "duplicate" for numbers that were sent once cannot be ours: another program uses the producer's name. With a name
of our own making that means a new epoch; with a name that was given it is an error that ends the lane.
"""

from collections import deque

from cordwood.client.parcel import Parcel
from cordwood.client.retry import CONFLICT, LATER, STORED
from cordwood.errors import Conflict, CordwoodError

MOST_EPOCHS = 8  # new ones in a row without anything stored; then the fault is not a hole


class Lane:
    """Numbers parcels and gives them out in order; knows no clock and no socket.

    `name_given` says that the producer's name was chosen by the user and others may have it.
    """

    def __init__(self, partition: int, epoch: int, *, name_given: bool = False):
        self.partition = partition
        self.epoch = epoch
        self.queue: deque[Parcel] = deque()  # not settled, in order
        self.in_flight = 0
        self.not_before = 0.0
        self.failures = 0  # in a row
        self.over: CordwoodError | None = None
        self.alone = False  # its parcels do not travel with others, until one is stored
        self._name_given = name_given
        self._next = 0  # the sequence of the next new message
        self._hole = False  # a number below `_next` may never have been stored
        self._rewind = False  # something must be sent again; not before nothing is under way
        self._anew = False  # and with a new epoch
        self._epochs = 0

    def add(self, parcel: Parcel) -> None:
        """Put a new parcel behind all others."""
        parcel.epoch, parcel.sequence = self.epoch, self._next
        self._next += parcel.count
        self.queue.append(parcel)

    def next(self) -> Parcel | None:
        """Return the next parcel to send, None when there is none now."""
        if self._rewind:
            if self.in_flight:
                return None
            self._rewind = False
            if self._anew:
                self._begin_epoch()
        if self.in_flight == len(self.queue):
            return None
        return self.queue[self.in_flight]

    def sent(self, parcel: Parcel) -> None:
        """Take notice that `next` is under way; the caller sends it, or says `lost`."""
        assert not parcel.in_flight, "what is under way is at the front"
        parcel.in_flight = True
        parcel.sendings += 1
        self.in_flight += 1

    def stored(self, parcel: Parcel, first_offset: int | None, *, duplicate: bool) -> list[Parcel]:
        """Take a good answer; return what is settled by it."""
        if not self._landed(parcel):
            return []
        if duplicate and parcel.sendings == 1:
            return self._strange(
                Conflict(f"another producer with this name has sent epoch {parcel.epoch}; use a higher one")
            )
        self.failures = self._epochs = 0
        self.alone = False
        parcel.first_offset = first_offset
        return self._settle(parcel, None)

    def failed(self, parcel: Parcel, meaning: str, error: CordwoodError) -> list[Parcel]:
        """Take a bad answer; return what is settled by it."""
        assert meaning != STORED, "that is for `stored`"
        if not self._landed(parcel):
            return []
        if meaning == LATER:
            self.failures += 1
            self._rewind = True
            return []
        if meaning == CONFLICT:
            self._rewind = True
            if self.queue[0] is not parcel or self._anew:
                return []
            fenced = isinstance(error, Conflict) and error.facts.get("epoch", 0) != parcel.epoch
            if self._name_given and (fenced or not self._hole):
                return self._strange(error)
            return self._strange(None if self._hole else error)
        halves = parcel.halves()
        if halves is not None:
            at = self.queue.index(parcel)
            self.queue.remove(parcel)
            for half in reversed(halves):
                self.queue.insert(at, half)
            self._rewind = True
            return []
        self._hole = self._rewind = True
        return self._settle(parcel, error)

    def lost(self) -> None:
        """Take notice that the connection broke: nobody knows what of it arrived."""
        if self.in_flight:
            self.failures += 1
        for parcel in self.queue:
            parcel.in_flight = False
        self.in_flight = 0

    def expire(self, now: float, error: CordwoodError) -> list[Parcel]:
        """Give up what is not under way and whose time is over; return it."""
        late = []
        while self.queue and not self.in_flight and self.queue[0].deadline <= now:
            self._hole = True
            late += self._settle(self.queue[0], error)
        return late

    def end(self, error: CordwoodError) -> list[Parcel]:
        """Let everything fail, now and from here on; return what did."""
        self.over = error
        self.lost()
        return [parcel for waiting in list(self.queue) for parcel in self._settle(waiting, error)]

    def _landed(self, parcel: Parcel) -> bool:
        """Count an answer; False when nobody waits for it any more, because the lane has ended."""
        if not parcel.in_flight:
            assert parcel.settled, "an answer belongs to a request"
            return False
        parcel.in_flight = False
        self.in_flight -= 1
        return True

    def _settle(self, parcel: Parcel, error: CordwoodError | None) -> list[Parcel]:
        parcel.error = error
        parcel.settled = True
        self.queue.remove(parcel)
        return [parcel]

    def _strange(self, error: CordwoodError | None) -> list[Parcel]:
        """Go on in a new epoch, unless `error` says that the name belongs to somebody else."""
        self._epochs += 1
        if error is not None and (self._name_given or self._epochs > MOST_EPOCHS):
            return self.end(error)
        self._rewind = self._anew = True
        return []

    def _begin_epoch(self) -> None:
        self.epoch += 1
        self._next = 0
        self._hole = self._anew = False
        for parcel in self.queue:
            parcel.epoch, parcel.sequence, parcel.sendings = self.epoch, self._next, 0
            self._next += parcel.count
