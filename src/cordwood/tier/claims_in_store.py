"""Claims as objects of the store itself, with nothing but put-if-absent.

    state/claim/<epoch, 20 digits>.<renewal, 10 digits>     the owner of this epoch is alive
    state/claim/<epoch, 20 digits>.released                 and this one has gone

    take       puts (e+1).0 when e.n has not changed for 30 s, or is released; then looks
               e.n is still the newest of epoch e        the claim is ours
               the owner renewed at that very moment     it is ours when that renewal cannot count any more
    renew      puts e.(n+1), then looks
               nobody has a later epoch                  the claim is ours for longer
               somebody has                              it is lost

Owner and newcomer each put first and look then, so at least one of them sees the other: an owner that does not see
the newcomer has put its renewal before the newcomer looked. An epoch has one owner, because e.0 can be put once and
stays until a later epoch is there. The bytes name the owner, and have a secret that tells a put of our own, whose
answer was lost, from another's.
"""

import contextlib
import json
import secrets
from typing import NamedTuple

from cordwood.errors import Refused
from cordwood.machine.objects.store import ObjectMissing, Objects, StoreUnavailable
from cordwood.tier.catalogue import ListedCatalogue
from cordwood.tier.claim import Claim, ClaimLost, Owned, SteadyClock, Terms, Wait, Watch, sleep, waited_for
from cordwood.tier.lock import locking, unlock

FOLDER = "state/claim/"
RELEASED = "released"
# A renewal's name is taken only by an earlier try of ours, and there are few of those between two looks.
TRIES = 16


class Sign(NamedTuple):
    """What a name in the folder says; the greatest is the newest."""

    epoch: int
    released: bool
    renewal: int

    @property
    def name(self) -> str:
        return f"{FOLDER}{self.epoch:020}.{RELEASED if self.released else f'{self.renewal:010}'}"


def parse_sign(name: str) -> Sign | None:
    """Return what a name says, or None if it is no sign of a claim."""
    epoch, dot, rest = name.removeprefix(FOLDER).partition(".")
    if not name.startswith(FOLDER) or not dot or not _digits(epoch) or not (rest == RELEASED or _digits(rest)):
        return None
    return Sign(int(epoch), True, 0) if rest == RELEASED else Sign(int(epoch), False, int(rest))


NOBODY = Sign(0, True, 0)


def _newest(found: list[Sign]) -> Sign:
    return max(found, default=NOBODY)


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def signs(objects: Objects) -> list[Sign]:
    """Return all signs in a store, the newest last."""
    found = (parse_sign(entry.name) for entry in objects.list(FOLDER))
    return sorted(sign for sign in found if sign is not None)


class StoreTenure:
    """A claim that is written in the store."""

    def __init__(self, objects: Objects, epoch: int, card: bytes, old: list[Sign]):
        self.epoch = epoch
        self._objects = objects
        self._card = card
        self._sign = Sign(epoch, False, 0)
        self._old = old

    def renew(self) -> None:
        for _ in range(TRIES):
            before = self._sign
            self._sign = before._replace(renewal=before.renewal + 1)
            if before.renewal > 0:
                self._old.append(before)
            if self._objects.put(self._sign.name, self._card):
                break
            # An earlier try was done although it failed. It may be older than we may count from.
        else:
            raise StoreUnavailable(self._objects.url, f"{self._sign.name} and those before it are taken")
        self._look()

    def tidy(self) -> None:
        """Delete old signs, but not the last: a listing that is under way may have gone past where the new one is.

        What stays is tried again the next time.
        """
        with contextlib.suppress(StoreUnavailable):
            self._objects.delete([sign.name for sign in self._old[:-1]])
            del self._old[:-1]

    def release(self) -> None:
        try:
            self._objects.put(Sign(self.epoch, True, 0).name, self._card)
        finally:
            unlock(self._objects)

    def _look(self) -> None:
        found = signs(self._objects)
        if found and found[-1].epoch > self.epoch:
            raise ClaimLost(
                f"{self._objects.url} was taken over while this broker did not renew its claim (epoch {self.epoch},"
                f" now {found[-1].epoch})",
                epoch=found[-1].epoch,
            )
        if self._sign not in found:
            raise StoreUnavailable(self._objects.url, f"it does not list {self._sign.name}, which was just put")


class StoreClaims:
    """The claims that are written in a store, for a catalogue that is the store itself.

    With a directory there is a lock as well, and who has it takes over at once.
    """

    def __init__(self, objects: Objects, clock: SteadyClock, terms: Terms | None = None, wait: Wait = sleep):
        self._objects = objects
        self._clock = clock
        self._terms = terms or Terms()
        self._wait = wait

    def take(self, owner: str, patience_ms: int | None = None) -> Claim:
        until_ms = self._clock.monotonic_ms() + (self._terms.patience_ms if patience_ms is None else patience_ms)
        with locking(self._objects, self._clock, until_ms, self._wait, self._owner) as locked:
            newcomer = _Newcomer(self._objects, self._clock, self._terms, self._wait, owner)
            return waited_for(
                lambda: newcomer.try_once(locked),
                until_ms,
                self._clock,
                self._terms.look_ms,
                self._wait,
                lambda: Owned(self._objects.url, self._owner()),
            )

    def _owner(self) -> str:
        """Return how the owner calls itself."""
        with contextlib.suppress(StoreUnavailable, ObjectMissing, ValueError, KeyError, IndexError, TypeError):
            return str(json.loads(bytes(self._objects.get(signs(self._objects)[-1].name)))["owner"])
        return "another broker"


class _Newcomer:
    """Somebody who wants the claim, and what it has seen so far."""

    def __init__(self, objects: Objects, clock: SteadyClock, terms: Terms, wait: Wait, owner: str):
        self._objects = objects
        self._clock = clock
        self._terms = terms
        self._wait = wait
        self._card = json.dumps({"owner": owner, "secret": secrets.token_hex(16)}).encode()
        self._watch = Watch(terms)
        self._judged = NOBODY  # the sign of the owner that we took for gone when we last put ours
        self._tenure: StoreTenure | None = None

    def try_once(self, locked: bool) -> Claim | None:
        """Look, and return a claim if nobody has one."""
        began_ms = self._clock.monotonic_ms()
        newest = _newest(signs(self._objects))
        lapsed = self._watch.lapsed(newest, began_ms, self._clock.monotonic_ms())
        if newest.epoch == self._judged.epoch + 1 and self._is_ours(newest):
            return self._confirm(newest.epoch)  # an earlier try put it, although it failed
        if not (newest.released or lapsed or locked):
            return None
        self._judged = newest
        ours = Sign(newest.epoch + 1, False, 0)
        if self._objects.put(ours.name, self._card) or self._is_ours(ours):
            return self._confirm(ours.epoch)
        return None

    def _confirm(self, epoch: int) -> Claim | None:
        """Return the claim to an epoch that we have put, once nobody before us can hold and nobody is past us."""
        overwritten = self._objects.put(Sign(epoch, False, 0).name, self._card)
        found = signs(self._objects)
        if _newest(found).epoch > epoch:
            return None
        if overwritten:
            raise Refused(
                f"{self._objects.url} overwrites what is there, although asked not to (If-None-Match), so two brokers"
                " could own it; use a store with conditional puts"
            )
        old = [sign for sign in found if sign.epoch < epoch]
        if self._tenure is None or self._tenure.epoch != epoch:
            self._tenure = StoreTenure(self._objects, epoch, self._card, old)
        tenure = self._tenure  # of an earlier try, it knows which renewals it has put
        try:
            if _newest(old) != self._judged:
                self._outlast(tenure)
            began_ms = self._clock.monotonic_ms()
            tenure.renew()
        except ClaimLost:
            return None
        return Claim(tenure, ListedCatalogue(self._objects), self._clock, self._terms, began_ms)

    def _outlast(self, tenure: StoreTenure) -> None:
        """Let the time pass for which the owner before us may hold: it renewed just before it could see us."""
        until_ms = self._clock.monotonic_ms() + self._terms.lapse_ms
        while self._clock.monotonic_ms() < until_ms:
            self._wait(self._terms.renew_ms)
            with contextlib.suppress(StoreUnavailable):
                tenure.renew()

    def _is_ours(self, sign: Sign) -> bool:
        with contextlib.suppress(ObjectMissing):
            return bytes(self._objects.get(sign.name)) == self._card
        return False
