"""Claims in etcd: a key under a lease, and beside it the names of the objects that count.

    <prefix>/owner              who owns the store; goes with the owner's lease; its create revision is the claim
    <prefix>/epoch              the last epoch, raised in the same transaction that makes the owner
    <prefix>/objects/<name>     this object counts

The owner relies on its claim for 20 s from the beginning of a renewal, and etcd keeps a lease for 30 s from when the
renewal arrived. Every change of the catalogue compares the claim first, in the same transaction, so that a broker
which has lost it changes nothing, whatever it believes.
"""

import contextlib
import json
import secrets
from collections.abc import Iterable, Iterator
from itertools import islice

from cordwood.machine.objects.store import Objects, StoreUnavailable
from cordwood.tier.claim import Claim, ClaimLost, Owned, SteadyClock, Terms, Wait, sleep, waited_for
from cordwood.tier.etcd import Etcd
from cordwood.tier.lock import locking, unlock

OWNER = "owner"
EPOCH = "epoch"
OBJECTS = "objects/"
CHANGES = 100  # of one transaction; etcd takes 128


class EtcdTenure:
    """A claim that is written in etcd."""

    def __init__(self, etcd: Etcd, objects: Objects, epoch: int, lease: int, revision: int):
        self.epoch = epoch
        self.revision = revision
        self._etcd = etcd
        self._objects = objects
        self._lease = lease

    def renew(self) -> None:
        if self._etcd.keep_alive(self._lease) <= 0:
            raise self.lost()
        # The lease may live while somebody has deleted the key by hand.
        owner = self._etcd.range(OWNER)
        if not owner or owner[0].create_revision != self.revision:
            raise self.lost()

    def tidy(self) -> None:
        pass

    def release(self) -> None:
        try:
            self._etcd.revoke(self._lease)
        finally:
            unlock(self._objects)

    def lost(self) -> ClaimLost:
        """Return the error that says so."""
        return ClaimLost(f"the claim of epoch {self.epoch} in {self._etcd.url} has ended", epoch=self.epoch)


class EtcdCatalogue:
    """The objects that count, as keys in etcd, changed only under the claim."""

    def __init__(self, etcd: Etcd, tenure: EtcdTenure):
        self._etcd = etcd
        self._tenure = tenure

    def record(self, name: str) -> None:
        self._change([self._etcd.put(OBJECTS + name, b"")])

    def forget(self, names: Iterable[str]) -> None:
        rest = iter(names)
        while some := [self._etcd.delete(OBJECTS + name) for name in islice(rest, CHANGES)]:
            self._change(some)

    def names(self, prefix: str) -> Iterator[str]:
        return (key.removeprefix(OBJECTS) for key in self._etcd.below(OBJECTS + prefix))

    def _change(self, changes: list[dict[str, object]]) -> None:
        if self._etcd.transact([self._etcd.created(OWNER, self._tenure.revision)], changes) is None:
            raise self._tenure.lost()


class EtcdClaims:
    """The claims that are written in etcd, with etcd as the catalogue.

    With a directory as the store, its lock is taken as well.
    """

    def __init__(
        self, etcd: Etcd, objects: Objects, clock: SteadyClock, terms: Terms | None = None, wait: Wait = sleep
    ):
        self._etcd = etcd
        self._objects = objects
        self._clock = clock
        self._terms = terms or Terms()
        self._wait = wait

    def take(self, owner: str, patience_ms: int | None = None) -> Claim:
        until_ms = self._clock.monotonic_ms() + (self._terms.patience_ms if patience_ms is None else patience_ms)
        card = json.dumps({"owner": owner, "secret": secrets.token_hex(16)}).encode()
        with locking(self._objects, self._clock, until_ms, self._wait, self._owner):
            return waited_for(
                lambda: self._try(card),
                until_ms,
                self._clock,
                self._terms.look_ms,
                self._wait,
                lambda: Owned(self._etcd.url, self._owner()),
            )

    def _try(self, card: bytes) -> Claim | None:
        """Look once, and return a claim if nobody has one."""
        owner = self._etcd.range(OWNER)
        if not owner:
            self._put(card)
            owner = self._etcd.range(OWNER)
        # Also after an earlier try that was done although it failed.
        if not owner or owner[0].value != card:
            return None
        tenure = EtcdTenure(self._etcd, self._objects, self._epoch()[0], owner[0].lease, owner[0].create_revision)
        began_ms = self._clock.monotonic_ms()
        try:
            tenure.renew()
        except ClaimLost:
            return None
        return Claim(tenure, EtcdCatalogue(self._etcd, tenure), self._clock, self._terms, began_ms)

    def _put(self, card: bytes) -> None:
        """Become the owner in the next epoch, unless another does."""
        epoch, revision = self._epoch()
        lease, ttl_s = self._etcd.grant(-(-self._terms.lapse_ms // 1000))
        assert ttl_s * 1000 >= self._terms.lapse_ms, "etcd grants at least what was asked"
        alone = [self._etcd.created(OWNER, 0), self._etcd.changed(EPOCH, revision)]
        become = [self._etcd.put(EPOCH, b"%d" % (epoch + 1)), self._etcd.put(OWNER, card, lease)]
        if self._etcd.transact(alone, become) is None:
            with contextlib.suppress(StoreUnavailable):
                self._etcd.revoke(lease)  # otherwise it ends by itself

    def _epoch(self) -> tuple[int, int]:
        """Return the last epoch, and the revision that made it."""
        found = self._etcd.range(EPOCH)
        return (int(found[0].value), found[0].mod_revision) if found else (0, 0)

    def _owner(self) -> str:
        """Return how the owner calls itself."""
        with contextlib.suppress(StoreUnavailable, ValueError, KeyError, IndexError, TypeError):
            return str(json.loads(self._etcd.range(OWNER)[0].value)["owner"])
        return "another broker"
