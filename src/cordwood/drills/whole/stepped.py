"""The running broker without threads: what its threads do is done on pretended time, one step after the other.

    the thread that commits      a commit, a drawn while after it was asked for; the proof once all is quiet
    the thread that prepares     a segment at a time
    the thread that renews       the claim, at its intervals
    all others                   `run_in_executor` of the pretended loop

Everything else is the broker's own code: what is committed, told, failed and renewed, and in which order.
"""

import asyncio
from typing import cast

from cordwood.broker.running import Running
from cordwood.broker.tiering import Tiering, log
from cordwood.errors import Unavailable
from cordwood.journal.committer import IDLE_MS, Committer
from cordwood.journal.room import RETRY_MS
from cordwood.machine.objects.store import StoreUnavailable
from cordwood.sim.loop import SimLoop
from cordwood.tier.claim import ClaimLost


class _Bell:
    """An event that a thread would wait for: the step it asks for comes a drawn while later, once."""

    def __init__(self, committer: "SteppedCommitter", step: str):
        self._committer = committer
        self._step = step
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        if not self._set:
            self._set = True
            self._committer.later(self._step)

    def clear(self) -> None:
        self._set = False


class SteppedCommitter(Committer):
    """Commits and prepares in steps of the loop it was made on."""

    def start(self) -> "SteppedCommitter":
        self._loop = cast(SimLoop, asyncio.get_running_loop())
        self._work = _Bell(self, "_commit_step")  # type: ignore[assignment]
        self._prepare = _Bell(self, "_prepare_step")  # type: ignore[assignment]
        self._freed = _Bell(self, "_prepare_step")  # type: ignore[assignment]
        self._idle_at = 0
        self._dozing = True
        self._prepare.set()
        return self

    def later(self, step: str) -> None:
        """Have a step taken in a while."""
        self._loop.after_us(self._loop.thread_us(), getattr(self, step))

    def commit_pushed(self, first: int, end: int, *, here: bool) -> bool:
        self._quick = self._loop.chance() < 0.3
        return super().commit_pushed(first, end, here=here)

    def _commit_step(self) -> None:
        journal = self.journal
        try:
            self._work.clear()
            if journal.failure is None and journal.queued:
                self._commit(None)
            if journal.failure is not None:
                self._tell_failure()
                return
            self._tell()
            if journal.queued:
                self._work.set()
            else:
                self._idle_at += 1
                self._loop.after_us(IDLE_MS * 1000, self._idle, self._idle_at)
        except Exception as error:
            self._fail(error)

    def _idle(self, number: int) -> None:
        """Bring the proof of the last group, unless there was work meanwhile."""
        journal = self.journal
        if number != self._idle_at or self._work.is_set() or journal.failure is not None:
            return
        try:
            if journal.synced == journal.written and journal.mark() is not None:
                journal.commit()
                self._tell()
        except Exception as error:
            self._fail(error)

    def _prepare_step(self) -> None:
        journal = self.journal
        try:
            if self._stopping:
                return
            if journal.failure is not None:
                self._tell_failure()
                return
            self._prepare.clear()
            self._freed.clear()
            made = journal.maintain()
            self._room()
            if not made:
                self._loop.after_us(RETRY_MS * 1000, self._prepare.set)
        except Exception as error:
            self._fail(error)

    def stop(self) -> None:
        self._stopping = True
        while self.journal.queued and self.journal.failure is None:
            self._commit(None)


class SteppedTiering(Tiering):
    """Renews its claim in steps of the loop; looks often, for its life is short."""

    look_s = 0.08

    @property
    def holds(self) -> bool:
        return self.claim.holds()

    def start(self) -> None:
        self._again()
        self._task = asyncio.ensure_future(self._run())

    def _again(self) -> None:
        self._loop.call_later(self.claim.terms.renew_ms / 1000, self._renew_soon)

    def _renew_soon(self) -> None:
        if not self._over.is_set():
            self._loop.run_in_executor(None, self._renew)

    def _renew(self) -> None:
        try:
            self.claim.renew()
        except StoreUnavailable as error:
            log.warning("the claim was not renewed: %s", error)
        except ClaimLost as error:
            self._owner.lose_claim(Unavailable(f"{error}; start this broker again"))
            return
        self._again()


class SteppedRunning(Running):
    """A running broker whose threads are steps."""

    committing = SteppedCommitter
    tiering_by = SteppedTiering
