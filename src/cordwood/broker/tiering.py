"""The tier at work beside a running broker: rounds of shipping, fetching for readers, the claim and its end.

    round     delete what is over ─▶ a snapshot, if it names a new topic ─▶ ship all that is due ─▶ a snapshot
    fetch     what a reader wants ─▶ a thread ─▶ history
    claim     renewed by a thread of its own; while it does not hold, nothing is acknowledged

A store that is down costs nothing but room: the journal grows, `trouble` says why, and the next round goes on.
Everything that takes long happens in threads; everything that changes the state happens on the event loop.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from typing import Any, TypeVar

from cordwood.broker.history import Group, Since, Wanted
from cordwood.broker.ledger import Ledger
from cordwood.broker.shipping import Load, Shipping, stored
from cordwood.errors import Conflict, CordwoodError, Refused, Unavailable
from cordwood.machine.clock import Clock
from cordwood.machine.objects.directory import DirectoryObjects
from cordwood.machine.objects.store import Objects, StoreUnavailable
from cordwood.record import concat, decode_parts
from cordwood.settings import Settings
from cordwood.tier import contents, leftovers, reading
from cordwood.tier import state as states
from cordwood.tier.catalogue import ListedCatalogue
from cordwood.tier.claim import Claim, ClaimLost
from cordwood.tier.contents import Contents
from cordwood.tier.descriptor import Descriptor, parse, replaces
from cordwood.tier.rows import Rows
from cordwood.tier.ship import accept, adopt, ship

log = logging.getLogger("cordwood.tier")

LOOK_S = 0.5  # how often it is looked whether something is due
LONGEST_WAIT_S = 30.0  # between two tries while the store is down
COLLECT_S = 3600.0  # how often leftovers are looked for
FETCHERS = 2
MOST_CONTENTS = 1_000  # footers that are kept
REPLACED_KEPT_MS = 3_600_000  # objects that were replaced stay for those who are reading them
CLOSE_S = 5.0  # for the last snapshot
T = TypeVar("T")


class Tiering:
    """One broker's tier. `touch` has what was written committed; `read` reads the journal, from any thread.

    `collects` is false when the journal may have forgotten objects that hold messages: then none is a leftover.
    """

    def __init__(
        self,
        ledger: Ledger,
        shipping: Shipping,
        settings: Settings,
        clock: Clock,
        objects: Objects,
        claim: Claim,
        touch: Callable[[], None],
        read: Callable[[int, int], Iterator[tuple[int, list[memoryview]]]],
        lost: Callable[[Unavailable], None],
        *,
        collects: bool = True,
    ):
        self.objects = objects
        self.claim = claim
        self.trouble: str | None = None  # why the store cannot be used, while it cannot
        self.trouble_since_ms = 0
        self.failures = 0
        self._ledger = ledger
        self._shipping = shipping
        self._settings = settings
        self._clock = clock
        self._touch = touch
        self._read = read
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._shipper = ThreadPoolExecutor(1, "cordwood-ship")
        self._fetchers = ThreadPoolExecutor(FETCHERS, "cordwood-fetch")
        self._contents: dict[Descriptor, Contents] = {}
        self._uncertain: set[tuple[str, int]] = set()  # partitions of which a put may or may not have succeeded
        self._marked = -1  # the LSN of the last snapshot in the store
        self._marked_at_ms = clock.monotonic_ms()
        self._collect_at = self._loop.time() if collects else inf
        self._over = threading.Event()
        self._closing = asyncio.Event()
        self._renewer: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        ledger.history.ask = self._ask
        shipping.epoch = claim.epoch

    # Claim

    @property
    def holds(self) -> bool:
        """Whether this broker may acknowledge now."""
        return self._renewer is None or self.claim.holds()

    def start(self) -> None:
        """Begin. A directory needs no renewals: its lock ends with the process. A lease in etcd does, wherever."""
        locked = isinstance(self.objects, DirectoryObjects) and isinstance(self.claim.catalogue, ListedCatalogue)
        if not locked:
            self._renewer = threading.Thread(target=self._renew_for_ever, name="cordwood-claim", daemon=True)
            self._renewer.start()
        self._task = asyncio.ensure_future(self._run())

    def _renew_for_ever(self) -> None:
        while not self._over.wait(self.claim.terms.renew_ms / 1000):
            try:
                self.claim.renew()
            except StoreUnavailable as error:
                log.warning("the claim was not renewed: %s", error)
            except ClaimLost as error:
                self._loop.call_soon_threadsafe(self._lost, Unavailable(f"{error}; start this broker again"))
                return

    # Rounds

    async def _run(self) -> None:
        wait_s = LOOK_S
        while not self._closing.is_set():
            try:
                await asyncio.wait_for(self._closing.wait(), wait_s)
                return
            except TimeoutError:
                pass
            if self._ledger.failure is not None:
                continue
            try:
                await self.round()
                self.trouble, wait_s = None, LOOK_S
            except ClaimLost as error:
                self._lost(Unavailable(f"{error}; start this broker again"))
                return
            except (StoreUnavailable, OSError) as error:
                if self.trouble is None:
                    self.trouble_since_ms = self._clock.now_ms()
                    log.warning("history waits in the journal: %s", error)
                self.trouble = str(error)
                self.failures += 1
                wait_s = min(LONGEST_WAIT_S, max(1.0, 2 * wait_s))
            except CordwoodError as error:  # the journal only reads, or has no room
                log.warning("history waits in the journal: %s", error)
                wait_s = min(LONGEST_WAIT_S, max(1.0, 2 * wait_s))
            except Exception:
                log.exception("shipping failed; it is tried again")
                self.failures += 1
                wait_s = LONGEST_WAIT_S

    async def round(self, *, everything: bool = False) -> None:
        """Do all that is due now; with `everything`, without waiting for enough messages."""
        await self._clear()
        if self._shipping.unnamed:
            await self.put_snapshot()
        shipped = False
        while not self._closing.is_set() and (load := self._shipping.next(everything=everything)) is not None:
            await self._ship(load)
            shipped = True
        interval_ms = self._settings.tier_interval_s * 1000
        old = self._clock.monotonic_ms() - self._marked_at_ms >= interval_ms and self._ledger.end > self._marked + 1
        if shipped or old:
            await self.put_snapshot()
        if self._loop.time() >= self._collect_at:
            self._collect_at = self._loop.time() + COLLECT_S
            await self._collect()

    async def _ship(self, load: Load) -> None:
        freight = load.freight
        place = (freight.topic_id, freight.partition)
        found = None
        if place in self._uncertain:
            found = await self._in_thread(adopt, self.objects, self.claim.catalogue, freight)
            self._uncertain.discard(place)
        if found is None:
            self._uncertain.add(place)
            found = await self._in_thread(lambda: ship(self.objects, self.claim.catalogue, freight, self._rows(load)))
            self._uncertain.discard(place)
        if not self._shipping.stored(found):
            names = [found.descriptor.name]
            await self._in_thread(leftovers.delete, self.objects, self.claim.catalogue, names)
        self._touch()

    def _rows(self, load: Load) -> Iterator[Rows]:
        """Yield the messages of a load: what is not in memory is read from the journal, in this thread."""
        read: dict[tuple[int, int], Any] = {}
        for place, batch in load.places:
            if batch is None:
                if (place.lsn, place.payload) not in read:
                    read = {}  # a payload is wanted by neighbours only
                    for _, entries in self._read(place.lsn, 1):
                        for number in range((len(entries) - 1) // 2):
                            found = decode_parts(entries[1 + 2 * number], bytes(entries[2 + 2 * number]))
                            read[(place.lsn, number)] = found
                        break
                batch = read[(place.lsn, place.payload)].slice(place.row, place.length)
            yield Rows.dense(place.first, batch)

    async def put_snapshot(self, *, clean: bool = False) -> None:
        """Put what is true now into the store, once it is durable."""
        end = self._ledger.end
        captured = self._ledger.snapshot()
        named = {topic.id for topic in self._ledger.state.topics.values()}
        await self._synced()
        mark = states.Mark(self.claim.epoch, end, clean)
        await self._in_thread(lambda: states.put(self.objects, mark, states.encode(captured.parts)))
        self._shipping.named = named
        self._marked, self._marked_at_ms = end, self._clock.monotonic_ms()

    async def _clear(self) -> None:
        """Delete what nothing is read from; the facts that say so are durable before."""
        names, graves = self._shipping.doomed(), list(self._ledger.state.graves)
        if not names and not graves:
            return
        await self._synced()
        if names:
            await self._in_thread(leftovers.delete, self.objects, self.claim.catalogue, names)
            self._shipping.deleted(names)
        for topic, topic_id in graves:
            await self._in_thread(leftovers.bury, self.objects, self.claim.catalogue, topic, topic_id)
            self._shipping.buried(topic, topic_id)
        self._touch()

    async def _collect(self) -> None:
        known = self._shipping.known()
        gone = await self._in_thread(leftovers.collect, self.objects, self.claim.catalogue, known, self.claim.epoch)
        if gone:
            log.info("%d objects that nothing is read from were deleted", len(gone))

    async def _synced(self) -> None:
        """Return when all that was written so far is durable."""
        came = self._loop.create_future()
        self._ledger.when_synced(lambda _: None if came.done() else came.set_result(None), None)
        self._touch()
        while not came.done():
            if self._ledger.failure is not None:
                raise self._ledger.failure
            await asyncio.wait([came], timeout=LOOK_S)

    def _in_thread(self, call: Callable[..., T], *arguments: Any) -> "asyncio.Future[T]":
        return self._loop.run_in_executor(self._shipper, partial(call, *arguments))

    # Replacing

    async def replace(self, topic_name: str, number: int, names: list[str], name: str) -> None:
        """Have a run of objects be replaced by one that is in the store; returns when that is durable.

        Raises Refused for names that are none, Conflict when these are not the objects that are there.
        """
        new = parse(name)
        if new is None or any(parse(old) is None for old in names):
            raise Refused("an object is named as the store names it: topics/…/<first>-<end>-….parquet")
        if self._replaced(topic_name, number, names, new):
            return
        shipped = await self._loop.run_in_executor(self._fetchers, accept, self.objects, self.claim.catalogue, new)
        if not self._replaced(topic_name, number, names, new):  # meanwhile retention may have come
            keep_until_ms = self._clock.now_ms() + REPLACED_KEPT_MS
            self._ledger.write([stored(shipped, keep_until_ms)], reserve=True)
        await self._synced()

    def _replaced(self, topic_name: str, number: int, names: list[str], new: Descriptor) -> bool:
        """Say whether that was done already; raise Conflict if it cannot be."""
        topic = self._ledger.state.topics.get(topic_name)
        if topic is None or (topic.id, number) != (new.topic_id, new.partition):
            raise Conflict(f"{new.name} is of another topic or partition")
        there = [one.descriptor for one in topic.partitions[number].index.tiered]
        if new in there:
            return True
        run = [one for one in there if new.first <= one.first < new.end]
        if [one.name for one in run] != names:
            raise Conflict("these are not the objects that hold those messages now; ask GET /v1/spans again")
        if new.epoch > self.claim.epoch or new.count != new.end - new.first or not replaces(run, new):
            raise Conflict("it must hold exactly the messages of the objects it replaces, one generation above them")
        return False

    # Fetching

    def _ask(self, wanted: Wanted) -> None:
        future = self._loop.run_in_executor(self._fetchers, self._fetch, wanted)
        future.add_done_callback(partial(self._fetched, wanted))

    def _fetch(self, wanted: Wanted) -> Any:
        found = wanted.tiered.descriptor
        inside = self._contents.get(found)
        if inside is None:
            inside = contents.fetch(self.objects, found, wanted.tiered.bytes)
            while len(self._contents) >= MOST_CONTENTS:
                self._contents.pop(next(iter(self._contents)), None)
            self._contents[found] = inside
        if isinstance(wanted, Since):
            return reading.since(self.objects, found, inside, wanted.time_us, wanted.first, found.end)
        assert isinstance(wanted, Group)
        return concat([rows.batch for rows in reading.read(self.objects, found, inside, wanted.first, wanted.end)])

    def _fetched(self, wanted: Wanted, future: "asyncio.Future[Any]") -> None:
        error = future.exception()
        history = self._ledger.history
        if error is None:
            history.arrived(wanted, future.result())
        else:
            known = error if isinstance(error, CordwoodError) else Unavailable(f"history cannot be read: {error}")
            if not isinstance(error, CordwoodError):
                log.error("history cannot be read", exc_info=error)
            history.failed(wanted, known)
        self._touch()

    # Closing

    async def close(self) -> None:
        """End the rounds, put a last snapshot if the store is there, and let the next broker take it at once."""
        self._closing.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=CLOSE_S)
        if self._ledger.failure is None and self.holds and self.trouble is None:
            try:
                await asyncio.wait_for(self.put_snapshot(clean=True), CLOSE_S)
            except (CordwoodError, TimeoutError, OSError) as error:
                log.warning("no last snapshot was put: %s", error or "it took too long")

    def release(self) -> None:
        """Give the claim back, and end the threads; nothing is acknowledged any more. Takes a moment."""
        self._over.set()
        if self._renewer is not None:
            self._renewer.join(CLOSE_S)
        try:
            self.claim.release()
        except CordwoodError as error:
            log.warning("the claim could not be given back; the next broker waits for its end: %s", error)
        self._shipper.shutdown(wait=False, cancel_futures=True)
        self._fetchers.shutdown(wait=False, cancel_futures=True)
