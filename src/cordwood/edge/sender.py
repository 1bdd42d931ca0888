"""The thread that takes turns between outboxes, and the way to one broker that they share.

    turn:  look for left-overs ─▶ fill the window, one batch of each outbox in turn ─▶ wait for one answer ─▶ …
           nothing to send: write down progress, make room, archive, sleep until an append rings

A broker that cannot be reached is waited for here, for all outboxes at once; what the broker refuses, each outbox
waits for by itself. Time is the monotonic clock's: setting the wall clock changes nothing.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from cordwood.edge.answer import Means
from cordwood.edge.batch import Batch
from cordwood.edge.delivery import Delivery
from cordwood.edge.patience import wait_ms
from cordwood.edge.post import Post
from cordwood.errors import CordwoodError
from cordwood.machine.clock import Clock

log = logging.getLogger("cordwood.edge")

WINDOW = 8  # requests under way, of all outboxes together, as many as a producer's
WINDOW_BYTES = 16 << 20
SCAN_MS = 300_000  # how often left-overs are looked for
BLOCKED_MS = 1_000  # how often an outbox looks whether an earlier run of it has been sent
FOR_EVER_MS = 3_600_000
REOPEN_MS = 60_000  # when a left-over whose disk failed is opened again


class Finder(Protocol):
    """Finds left-overs and finishes them; see `leftovers`."""

    def take(self) -> Delivery | None:
        """Return the delivery of a left-over that nobody else has; None when there is none, or enough are taken."""

    def blocked(self, delivery: Delivery) -> bool:
        """Say whether an earlier run of this execution has still to be sent, by us or by another process."""

    def finish(self, delivery: Delivery) -> None:
        """Archive and remove a left-over of which everything is settled, and let it go."""

    def release(self, delivery: Delivery) -> None:
        """Let go of a left-over that is not finished."""

    @property
    def crowded(self) -> bool:
        """Whether the last `take` left some alone that were not tried yet, because enough are taken."""


class Sender:
    """Sends for many outboxes. `turn` is for one thread; `add`, `remove` and `ring` for any."""

    def __init__(self, post: Post, clock: Clock, random: Callable[[], float], finder: Finder | None = None):
        self.lock = threading.RLock()  # held while a delivery is worked on, never while the network is waited for
        self.bell = threading.Event()
        self.dozing = False  # nothing is to be done before an append rings
        self.error: str | None = None
        self._post = post
        self._clock = clock
        self._random = random
        self._finder = finder
        self._deliveries: deque[Delivery] = deque()  # whose turn it is, is first
        self._left: set[Delivery] = set()  # left-overs among these
        self._look_at_ms: dict[Delivery, int] = {}  # these may have an earlier run before them
        self._scan_at_ms = 0
        self._under_way: deque[tuple[Delivery, Batch]] = deque()
        self._bytes = 0
        self.breaks = 0  # how often the broker could not be reached, ever
        self._failures = 0
        self._not_before_ms = 0
        self._ending = False
        self._thread: threading.Thread | None = None

    # For other threads

    def start(self, name: str) -> None:
        """Begin to take turns, in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name=f"cordwood-outbox-{name}", daemon=True)
        self._thread.start()

    def add(self, delivery: Delivery) -> None:
        """Send for this outbox, too."""
        with self.lock:
            self._deliveries.append(delivery)
            self._look_at_ms[delivery] = 0
            self._scan_at_ms = 0
        self.ring()

    def remove(self, delivery: Delivery) -> int:
        """Send no more for this outbox; once this returns it is not touched. Return how many outboxes are left."""
        with self.lock:
            delivery.over = True
            if delivery in self._deliveries:
                self._deliveries.remove(delivery)
            self._look_at_ms.pop(delivery, None)
            return len(self._deliveries) - len(self._left)

    def ring(self) -> None:
        """Wake the thread: there is something to send."""
        self.dozing = False
        self.bell.set()

    def try_now(self) -> int:
        """Wait no longer for a broker that could not be reached: try it now, once. Return `breaks` before that."""
        with self.lock:
            self._not_before_ms = 0
            breaks = self.breaks
        self.ring()
        return breaks

    @property
    def failing(self) -> bool:
        """Whether the broker could not be reached the last time."""
        return self._failures > 0

    @property
    def left_overs(self) -> list[Delivery]:
        """The left-overs that are being sent."""
        with self.lock:
            return list(self._left)

    def end(self) -> None:
        """Let the thread end, soon, and go of the left-overs that are not finished."""
        self._ending = True
        self.ring()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread's end, at most so long: it may be waiting for the network."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._ending:
            try:
                wait = self.turn()
            except Exception:  # a fault of ours must not end the sending of all others for good
                log.exception("a turn of the outbox's sender failed; it goes on")
                self._broke("a turn of the sender failed", everybody=True)
                wait = 1_000
            self._doze(wait)
        self.let_go()

    def _doze(self, wait: int) -> None:
        self.bell.clear()
        self.dozing = wait >= BLOCKED_MS
        if wait > 0 and not self._ending and (not self.dozing or self._next_ms() > 0):
            self.bell.wait(wait / 1000)
        self.dozing = False

    def let_go(self) -> None:
        """Close the connection, and let go of the left-overs."""
        with self.lock:
            self._post.close()
            for delivery in list(self._left):
                self._drop_left(delivery)

    # A turn

    def turn(self) -> int:
        """Send what may go, wait for one answer at most, and return how many milliseconds nothing is to be done."""
        now = self._clock.monotonic_ms()
        if self._finder is not None and now >= self._scan_at_ms:
            self._scan(now)
        if now >= self._not_before_ms:
            self._fill(now)
        if self._under_way:
            self._land()
            return 0
        self._chores(now)
        return self._next_ms()

    def _next_ms(self) -> int:
        """Return how long nothing is to be done."""
        now = self._clock.monotonic_ms()
        until = now + FOR_EVER_MS
        with self.lock:
            if self._finder is not None:
                until = min(until, self._scan_at_ms)
            for delivery in self._deliveries:
                until = min(until, delivery.tidy_at_ms)
                wants = delivery.wants(now)
                if wants is not None:
                    until = min(until, max(wants, self._not_before_ms, self._blocked_until(delivery)))
        return max(0, until - now)

    def _fill(self, now: int) -> None:
        skipped = 0
        while len(self._under_way) < WINDOW and self._bytes < WINDOW_BYTES and skipped < len(self._deliveries):
            with self.lock:
                if not self._deliveries:
                    return
                delivery = self._deliveries[0]
                self._deliveries.rotate(-1)
                wants = delivery.wants(now)
                if wants is None or wants > now or self._is_blocked(delivery, now):
                    skipped += 1
                    continue
            if delivery.partitions is None and not self._ask(delivery, now):
                if self._not_before_ms > now:
                    return  # the wire broke, and with it all that was under way: nobody sends before the wait is over
                skipped += 1
                continue
            try:
                self._post.connect()  # before the batch is made: its end on disk says that it may have gone out
            except OSError as error:
                self._broke(f"the broker cannot be reached: {error}")
                return
            with self.lock:
                batch = self._next(delivery, now)
                if batch is None:
                    skipped += 1
                    continue
                self._under_way.append((delivery, batch))
                self._bytes += batch.size
            skipped = 0
            try:
                self._post.send(batch)
            except OSError as error:
                self._broke(f"the broker cannot be reached: {error}")
                return

    def _next(self, delivery: Delivery, now: int) -> Batch | None:
        if delivery.over:
            return None
        try:
            return delivery.next()
        except (CordwoodError, OSError) as error:  # its own disk
            self._stuck(delivery, error)
            return None

    def _stuck(self, delivery: Delivery, error: Exception) -> None:
        """Wait with an outbox whose own disk fails. A left-over is let go: opened anew, it may go on."""
        now = self._clock.monotonic_ms()
        log.warning("an outbox cannot go on for now: %s", error)
        delivery.later(str(error), now)
        if delivery in self._left and delivery.log.journal.failure is not None:
            self._drop_left(delivery)
            self._scan_at_ms = now + REOPEN_MS

    def _ask(self, delivery: Delivery, now: int) -> bool:
        """Learn how many partitions there are; say whether that is known now."""
        topic = delivery.log.begun.topic
        try:
            count = self._post.partitions(topic or "")
        except OSError as error:
            self._broke(f"the broker cannot be reached: {error}")
            return False
        except CordwoodError as error:
            with self.lock:
                delivery.later(str(error), now)
                self._give_place(delivery, now)
            return False
        delivery.partitions = count
        return True

    def _land(self) -> None:
        try:
            answer = self._post.receive()
        except OSError as error:
            self._broke(f"the broker cannot be reached: {error}")
            return
        self._failures = 0
        self.error = None
        delivery, batch = self._under_way[0]
        numbers = None
        if answer.means is Means.BAD:
            if not self._ask_again(delivery):
                return
            try:
                numbers = self._post.numbers(batch) if delivery.doubts(batch) else None
            except OSError as error:
                self._broke(f"the broker cannot be reached: {error}")
                return
        self._under_way.popleft()
        self._bytes -= batch.size
        with self.lock:
            if delivery.over:
                return
            try:
                now = self._clock.monotonic_ms()
                delivery.answered(batch, answer, now, numbers)
                if delivery.done:
                    delivery.settle()
                delivery.make_room(busy=True)
                self._give_place(delivery, now)
            except (CordwoodError, OSError) as error:
                self._stuck(delivery, error)

    def _ask_again(self, delivery: Delivery) -> bool:
        """Look whether the topic has other partitions now: that makes batches bad, too. False: the wire broke."""
        try:
            delivery.partitions = self._post.partitions(delivery.log.begun.topic or "")
        except OSError as error:
            self._broke(f"the broker cannot be reached: {error}")
            return False
        except CordwoodError as error:
            log.info("the broker does not say how many partitions there are: %s", error)
        return True

    def _broke(self, reason: str, *, everybody: bool = False) -> None:
        """Give the connection up and wait; what was under way may or may not have arrived."""
        with self.lock:
            self._post.close()
            self.breaks += 1
            self._failures += 1
            self._not_before_ms = self._clock.monotonic_ms() + wait_ms(self._failures, self._random)
            self.error = reason
            out = {delivery for delivery, _ in self._under_way}
            self._under_way.clear()
            self._bytes = 0
            for delivery in self._deliveries:
                if everybody or delivery in out:
                    delivery.lost(reason)
                else:
                    delivery.error = reason
        log.info("%s; the next try is in %d ms", reason, self._not_before_ms - self._clock.monotonic_ms())

    # Earlier runs and left-overs

    def _is_blocked(self, delivery: Delivery, now: int) -> bool:
        if self._finder is None or delivery not in self._look_at_ms:
            return False
        if now < self._look_at_ms[delivery]:
            return True
        if self._finder.blocked(delivery):
            self._look_at_ms[delivery] = now + BLOCKED_MS
            return True
        del self._look_at_ms[delivery]  # none can come before it any more
        return False

    def _blocked_until(self, delivery: Delivery) -> int:
        return self._look_at_ms.get(delivery, 0) if self._finder is not None else 0

    def _scan(self, now: int) -> None:
        assert self._finder is not None, "asked before"
        self._scan_at_ms = now + SCAN_MS
        delivery = self._finder.take()  # without the lock: a large one takes a while to be read
        with self.lock:
            if delivery is not None:
                self._scan_at_ms = 0  # the next one in the next turn: others have something to send, too
                self._deliveries.append(delivery)
                self._look_at_ms[delivery] = 0
                self._left.add(delivery)
                return
            for other in list(self._deliveries):  # some may have been refused before it was known that others wait
                self._give_place(other, now)

    def _chores(self, now: int) -> None:
        """Do what can wait: progress, proof, room, archives."""
        finished = []
        with self.lock:
            for delivery in list(self._deliveries):
                try:
                    delivery.settle()
                    if delivery in self._left and delivery.pending == 0 and delivery.idle:
                        self._deliveries.remove(delivery)
                        self._left.discard(delivery)
                        delivery.over = True
                        finished.append(delivery)
                    else:
                        delivery.tidy(now)
                except (CordwoodError, OSError) as error:
                    self._stuck(delivery, error)
        for delivery in finished:
            self._finish(delivery)

    def _finish(self, delivery: Delivery) -> None:
        assert self._finder is not None, "who took it finishes it"
        self._finder.finish(delivery)
        with self.lock:
            self._look_at_ms = dict.fromkeys(self._look_at_ms, 0)
            self._scan_at_ms = 0  # there may be more than were taken at once

    def _give_place(self, delivery: Delivery, now: int) -> None:
        """Let go of a left-over that is refused for now, where others wait for its place: they may not be refused."""
        if delivery not in self._left or self._finder is None or not self._finder.crowded:
            return
        if delivery.not_before_ms <= now or not delivery.awaits_nothing:
            return
        try:
            delivery.set_aside()
        except (CordwoodError, OSError) as error:
            self._stuck(delivery, error)
            return
        self._drop_left(delivery)
        self._scan_at_ms = 0

    def _drop_left(self, delivery: Delivery) -> None:
        assert self._finder is not None, "who took it lets it go"
        self._deliveries.remove(delivery)
        self._left.discard(delivery)
        delivery.over = True
        try:
            self._finder.release(delivery)
        except (CordwoodError, OSError) as error:  # the others are let go, too
            log.warning("a left-over was not closed cleanly, and nothing is lost: %s", error)
