"""The tier at work beside a running broker: rounds of shipping, fetching for readers, the claim and its end.

    round     one step after the other (`rounds`), those that take long in a thread
    fetch     what a reader wants ─▶ a thread ─▶ history
    claim     renewed by a thread of its own; while it does not hold, nothing is acknowledged

A store that is down costs nothing but room: the journal grows, `trouble` says why, and the next round goes on.
Everything that takes long happens in threads; everything that changes the state happens on the event loop.
"""

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from cordwood.broker.fetching import Fetching, told
from cordwood.broker.history import Wanted
from cordwood.broker.ledger import Ledger
from cordwood.broker.rounds import Durable, Rounds, Steps
from cordwood.broker.shipping import Shipping, stored
from cordwood.errors import Conflict, CordwoodError, Refused, Unavailable
from cordwood.machine.clock import Clock
from cordwood.machine.objects.directory import DirectoryObjects
from cordwood.machine.objects.store import Objects, StoreUnavailable
from cordwood.settings import Settings
from cordwood.tier.catalogue import ListedCatalogue
from cordwood.tier.claim import Claim, ClaimLost
from cordwood.tier.descriptor import Descriptor, parse, replaces
from cordwood.tier.ship import NotAsPut, accept

log = logging.getLogger("cordwood.tier")

LOOK_S = 0.5  # how often it is looked whether something is due
LONGEST_WAIT_S = 30.0  # between two tries while the store is down
FETCHERS = 2
REPLACED_KEPT_MS = 3_600_000  # objects that were replaced stay for those who are reading them
CLOSE_S = 5.0  # for the last snapshot
T = TypeVar("T")


class Trouble(NamedTuple):
    """Why the store cannot be used, and since when."""

    error: str
    since_ms: int


class Owner(Protocol):
    """What the tier asks of the broker that it works for."""

    settings: Settings

    def touch(self) -> None:
        """Have what was written committed at the end of this turn of the loop."""

    def sync(self) -> None:
        """Make all that was written so far survive a power cut. Called in a thread."""

    def lose_claim(self, error: Unavailable) -> None:
        """Acknowledge nothing more: another broker has the store."""


class Tiering:
    """One broker's tier, under one claim."""

    look_s = LOOK_S

    def __init__(
        self,
        ledger: Ledger,
        shipping: Shipping,
        clock: Clock,
        objects: Objects,
        claim: Claim,
        rounds: Rounds,
        owner: Owner,
    ):
        self.objects = objects
        self.claim = claim
        self.trouble: Trouble | None = None
        self.failures = 0
        self._ledger = ledger
        self._shipping = shipping
        self._clock = clock
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._shipper = ThreadPoolExecutor(1, "cordwood-ship")
        self._fetchers = ThreadPoolExecutor(FETCHERS, "cordwood-fetch")
        self._fetching = Fetching(objects)
        self._rounds = rounds
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
                self._loop.call_soon_threadsafe(
                    self._owner.lose_claim, Unavailable(f"{error}; start this broker again")
                )
                return

    # Rounds

    async def _run(self) -> None:
        wait_s = self.look_s
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
                self.trouble, wait_s = None, self.look_s
            except ClaimLost as error:
                self._owner.lose_claim(Unavailable(f"{error}; start this broker again"))
                return
            except (StoreUnavailable, OSError) as error:
                if self.trouble is None:
                    self.trouble = Trouble("", self._clock.now_ms())
                    log.warning("history waits in the journal: %s", error)
                self.trouble = self.trouble._replace(error=str(error))
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
        await self.go_through(self._rounds.round(everything=everything))

    async def put_snapshot(self, *, clean: bool = False) -> None:
        """Put what is true now into the store, once it is durable."""
        await self.go_through(self._rounds.put_snapshot(clean=clean))

    async def go_through(self, steps: Steps[T]) -> T:
        """Do one step after the other: what takes long in a thread, what changes the state here."""
        result, failure = None, None
        while True:
            try:
                step = steps.send(result) if failure is None else steps.throw(failure)
            except StopIteration as end:
                found: T = end.value
                return found
            finally:
                self._owner.touch()
            result, failure = None, None
            try:
                if isinstance(step, Durable):
                    await self._synced()
                else:
                    result = await self._loop.run_in_executor(self._shipper, step)
            except BaseException as error:
                failure = error

    async def _synced(self) -> None:
        """Return when all that was written so far is durable."""
        if self._owner.settings.sync == "never":  # nothing else would ever make it so
            await self._loop.run_in_executor(self._fetchers, self._owner.sync)
            return
        came = self._loop.create_future()
        self._ledger.when_synced(lambda _: None if came.done() else came.set_result(None), None)
        self._owner.touch()
        while not came.done():
            if self._ledger.failure is not None:
                raise self._ledger.failure
            await asyncio.wait([came], timeout=LOOK_S)

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
        if name in self._rounds.condemned:
            raise Conflict(f"{name} lay there for so long that it is being deleted; put it again")
        self._rounds.spared.add(name)
        try:
            try:
                shipped = await self._loop.run_in_executor(
                    self._fetchers, accept, self.objects, self.claim.catalogue, new
                )
            except NotAsPut:
                raise Conflict(
                    f"{name} is not in the store, or not as its name says; put it, and then replace"
                ) from None
            if not self._replaced(topic_name, number, names, new):  # meanwhile retention may have come
                keep_until_ms = self._clock.now_ms() + REPLACED_KEPT_MS
                self._ledger.write([stored(shipped, keep_until_ms)], reserve=True)
        finally:
            self._rounds.spared.discard(name)
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
        future = self._loop.run_in_executor(self._fetchers, self._fetching.fetch, wanted)
        future.add_done_callback(partial(self._fetched, wanted))

    def _fetched(self, wanted: Wanted, future: "asyncio.Future[Any]") -> None:
        error = Unavailable("the broker is stopping") if future.cancelled() else future.exception()
        history = self._ledger.history
        if error is None:
            history.arrived(wanted, future.result())
        else:
            if not isinstance(error, CordwoodError):
                log.error("history cannot be read", exc_info=error)
            history.failed(wanted, told(wanted, error, read=self._shipping.reads(wanted.tiered)))
        self._owner.touch()

    # Closing

    async def close(self) -> None:
        """End the rounds, put a last snapshot if the store is there, and let the next broker take it at once."""
        self._closing.set()
        self._rounds.closing = True
        if self._task is not None:
            await asyncio.wait([self._task], timeout=CLOSE_S)
        if self._ledger.failure is None and self.holds and self.trouble is None:
            try:
                await asyncio.wait_for(self.put_snapshot(clean=True), CLOSE_S)
            except (CordwoodError, TimeoutError, OSError) as error:
                log.warning("no last snapshot was put: %s", error or "it took too long")

    def release(self) -> None:
        """Give the claim back, and end the threads; nothing is acknowledged any more. Takes a moment."""
        self._ledger.history.ask = None
        self._over.set()
        if self._renewer is not None:
            self._renewer.join(CLOSE_S)
        try:
            self.claim.release()
        except CordwoodError as error:
            log.warning("the claim could not be given back; the next broker waits for its end: %s", error)
        self._shipper.shutdown(wait=False, cancel_futures=True)
        self._fetchers.shutdown(wait=False, cancel_futures=True)
