"""One broker owns a store: a claim, its epoch, and for how long it may be relied upon.

    owner      renews ──5 s── renews ──5 s── renews ✗          the last renewal that succeeded *began* here
                                             ├───── 20 s ─────┤  it acknowledges
    newcomer                                      ├──────── 30 s ────────┤  sees no sign of life, takes the next epoch

    what the owner knows                    holds
    its last renewal began within 20 s      yes
    longer ago                              no; yes again after a renewal that finds nobody else
    another has the claim, or it is gone    no, and never again

Both count by clocks of their own, which also run while a process is stopped or a computer sleeps; only their speed
has to agree. The time a renewal takes is inside the owner's 20 s; the time a look takes is outside the 30 s.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cordwood.errors import Conflict
from cordwood.machine.objects.store import StoreUnavailable
from cordwood.tier.catalogue import Catalogue


class SteadyClock(Protocol):
    def monotonic_ms(self) -> int:
        """Return milliseconds that never go back, and that pass while the computer sleeps."""


# Called to let so many milliseconds pass. It may raise, to end the wait.
Wait = Callable[[int], None]


def sleep(duration_ms: int) -> None:
    """Wait, as a thread of the real world does."""
    time.sleep(duration_ms / 1000)


@dataclass(frozen=True, slots=True)
class Terms:
    """How long each side waits."""

    renew_ms: int = 5_000  # three failed renewals do no harm
    hold_ms: int = 20_000
    lapse_ms: int = 30_000  # contract 11; 10 s more than `hold_ms`, for clocks of unlike speed
    patience_ms: int = 40_000  # a dead owner's claim lapses within it
    look_ms: int = 1_000

    def __post_init__(self) -> None:
        assert 0 < self.renew_ms < self.hold_ms < self.lapse_ms, (
            "a claim lapses after its owner stopped relying on it"
        )
        assert 0 < self.look_ms <= self.lapse_ms


class ClaimLost(Conflict):
    """Another broker has the store, or had it: this one must not touch it again until it takes a new claim."""


class Owned(Conflict):
    """Another broker has the store."""

    exit_code = 75  # as for a second one on a directory: it may succeed once that one has ended

    def __init__(self, store: str, owner: str):
        super().__init__(f"{store} is owned by {owner}; stop that broker or give this one another store", owner=owner)


def waited_for(
    attempt: Callable[[], "Claim | None"],
    until_ms: int,
    clock: SteadyClock,
    look_ms: int,
    wait: Wait,
    owned: Callable[[], Owned],
) -> "Claim":
    """Return the claim that an attempt gets before `until_ms`; raise why the last one got none."""
    while True:
        try:
            claim = attempt()
            if claim is not None:
                return claim
            if clock.monotonic_ms() >= until_ms:
                raise owned()
        except StoreUnavailable:
            if clock.monotonic_ms() >= until_ms:
                raise
        wait(look_ms)


class Holding:
    """For how long an owner may rely on its claim."""

    def __init__(self, terms: Terms, began_ms: int):
        self._hold_ms = terms.hold_ms
        self.until_ms = began_ms + terms.hold_ms
        self.lost: str | None = None

    def holds(self, now_ms: int) -> bool:
        """Say whether nobody else can have the claim now."""
        return now_ms < self.until_ms

    def renewed(self, began_ms: int) -> None:
        """Count from the moment that a renewal began, once it has succeeded."""
        assert self.lost is None, "a claim that is lost stays lost"
        self.until_ms = max(self.until_ms, began_ms + self._hold_ms)

    def lose(self, why: str) -> None:
        """Hold nothing from now on."""
        self.lost = why
        self.until_ms = -1  # no clock says so


class Watch:
    """Since when a newcomer has seen no sign of life: of anything that an owner changes to show that it lives."""

    def __init__(self, terms: Terms) -> None:
        self._lapse_ms = terms.lapse_ms
        self._blind_ms = 2 * terms.renew_ms
        self._sign: object = None
        self._since_ms = 0
        self._looked_ms: int | None = None

    def lapsed(self, sign: object, began_ms: int, ended_ms: int) -> bool:
        """Say whether the claim has lapsed, after a look that took from `began_ms` to `ended_ms` and saw `sign`.

        A sign that is new may have come at the end of the look; one that has not changed is as old as its beginning
        says, for a sign that comes later would not be in it. Where nobody could look for a while, the owner could not
        renew either: the count begins again, so that an outage takes the store from nobody who is alive.
        """
        blind = self._looked_ms is None or began_ms - self._looked_ms > self._blind_ms
        if sign != self._sign or blind:
            self._sign = sign
            self._since_ms = ended_ms
        self._looked_ms = ended_ms
        return began_ms - self._since_ms >= self._lapse_ms


class Tenure(Protocol):
    """A claim as its keeper sees it: where it is written, and how."""

    @property
    def epoch(self) -> int:
        """The number of this claim; each has a higher one than those before."""

    def renew(self) -> None:
        """Show that the owner lives, or raise `ClaimLost` if another has the claim."""

    def tidy(self) -> None:
        """Remove what renewals have left behind. It is in no hurry, and fails in silence."""

    def release(self) -> None:
        """Let the next one take it at once."""


class Claim:
    """The right to a store, for as long as `holds`. Renewing and releasing may come from any thread."""

    def __init__(self, tenure: Tenure, catalogue: Catalogue, clock: SteadyClock, terms: Terms, began_ms: int):
        self.epoch = tenure.epoch
        self.catalogue = catalogue
        self.terms = terms
        self._tenure = tenure
        self._clock = clock
        self._holding = Holding(terms, began_ms)
        self._renewing = threading.Lock()

    @property
    def valid_until_ms(self) -> int:
        """When it ends unless it is renewed, by the clock it was taken with; -1 when it is lost."""
        return self._holding.until_ms

    def holds(self) -> bool:
        """Say whether this broker may acknowledge now: one look at the clock. Ask before each acknowledgement."""
        return self._holding.holds(self._clock.monotonic_ms())

    def renew(self) -> None:
        """Hold for longer; call it every `terms.renew_ms`.

        `StoreUnavailable` leaves the claim as it was, so that it may end. Raises `ClaimLost` once another has the
        store, and from then on.
        """
        with self._renewing:
            if self._holding.lost is not None:
                raise ClaimLost(self._holding.lost, epoch=self.epoch)
            began_ms = self._clock.monotonic_ms()
            try:
                self._tenure.renew()
            except ClaimLost as lost:
                self._holding.lose(str(lost))
                raise
            self._holding.renewed(began_ms)
            self._tenure.tidy()

    def release(self) -> None:
        """Hold nothing more, and let the next one take it at once, or after a wait if the store is unavailable."""
        with self._renewing:
            if self._holding.lost is None:
                self._holding.lose("this broker has released the store")
                self._tenure.release()


class Claims(Protocol):
    """Where claims to a store are written."""

    def take(self, owner: str, patience_ms: int | None = None) -> Claim:
        """Take the store, waiting for a dead owner's claim to lapse.

        Raises `Owned` when after `patience_ms` somebody else is alive, and `StoreUnavailable` when the store never
        answered. `owner` is how a person finds this broker.
        """
