"""A real S3 (SeaweedFS) and a real etcd: the same promises, with servers and owners that are killed or stopped."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cordwood.machine.boot_clock import BootClock
from cordwood.machine.objects import Objects, StoreUnavailable, open_objects
from cordwood.tier.claim import Claim, ClaimLost, Claims, Owned, Terms
from cordwood.tier.claiming import open_claims
from cordwood.tier.etcd import Etcd
from tests.machine.object_promises import PROMISES, Promise
from tests.real.claimant import TERMS
from tests.real.stores import S3, etcd, etcd_store, s3_store, seaweed

# Who is alive renews often; who is dead is soon taken for it. Etcd has no lease under a second.
SHORT = Terms(renew_ms=100, hold_ms=600, lapse_ms=1_000, patience_ms=10_000, look_ms=50)


@pytest.fixture
def s3() -> S3:
    return s3_store()


@pytest.fixture
def objects(s3: S3) -> Objects:
    return s3.open()


@pytest.mark.parametrize("promise", PROMISES, ids=[promise.__name__ for promise in PROMISES])
def test_s3_keeps_the_promise(promise: Promise, objects: Objects) -> None:
    promise(objects)


def test_a_listing_longer_than_a_page_is_whole(objects: Objects) -> None:
    names = [f"many/{number:05}" for number in range(1_010)]
    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(lambda name: objects.put(name, b"x"), names))
    assert [entry.name for entry in objects.list("many/")] == names
    objects.delete(names)
    assert list(objects.list("many/")) == []


def test_an_object_larger_than_a_part_comes_back_whole(objects: Objects) -> None:
    data = os.urandom(1 << 20) * 12
    assert objects.put("large", data) is True
    assert objects.put("large", data) is False
    assert bytes(objects.get("large")) == data
    assert bytes(objects.get("large", 6_000_000, 6_000_010)) == data[6_000_000:6_000_010]


def test_what_s3_confirmed_outlives_its_kill(objects: Objects) -> None:
    server, _ = seaweed()
    stop = threading.Event()
    outcomes: dict[str, bool | None] = {}

    def put() -> None:
        number = 0
        while not stop.is_set():
            name = f"a/{number:06}"
            try:
                outcomes[name] = objects.put(name, name.encode())
            except StoreUnavailable:
                outcomes[name] = None
                time.sleep(0.02)
            number += 1

    thread = threading.Thread(target=put)
    thread.start()
    time.sleep(0.4)
    server.kill()
    with pytest.raises(StoreUnavailable):
        objects.size("a/000000")
    server.start()
    time.sleep(0.2)
    stop.set()
    thread.join()
    found = {entry.name for entry in objects.list("a/")}
    assert None in outcomes.values()
    confirmed = [name for name, outcome in outcomes.items() if outcome]
    assert confirmed
    assert set(confirmed) <= found
    for name in (*confirmed[:20], *confirmed[-20:]):
        assert bytes(objects.get(name)) == name.encode()


# Claims


@pytest.fixture(params=["s3", "etcd"])
def where(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A store's URL and what `--metadata` says; the keys are in the environment."""
    if request.param == "etcd":
        return "memory:", etcd_store()
    store = s3_store()
    for name, value in store.env.items():
        monkeypatch.setenv(name, value)
    return store.url, "store"


def claims_of(where: tuple[str, str], terms: Terms = SHORT) -> Claims:
    return open_claims(where[1], open_objects(where[0]), BootClock(), terms)


class Renewing:
    """An owner that renews, for the length of a `with`."""

    def __init__(self, claim: Claim):
        self._claim = claim
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew)

    def _renew(self) -> None:
        while not self._stop.wait(self._claim.terms.renew_ms / 1000):
            self._claim.renew()

    def __enter__(self) -> Claim:
        self._thread.start()
        return self._claim

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def test_a_second_waits_and_is_refused_while_the_first_renews(where: tuple[str, str]) -> None:
    with Renewing(claims_of(where, TERMS).take("the first")) as claim:
        begun = time.monotonic()
        with pytest.raises(Owned, match="owned by the first"):
            claims_of(where, TERMS).take("the second", patience_ms=800)
        assert time.monotonic() - begun >= 0.8
    claim.renew()
    assert claim.holds()
    claim.release()
    assert claims_of(where).take("the second", patience_ms=0).epoch == 2


def test_of_many_who_want_it_one_gets_it(where: tuple[str, str]) -> None:
    def take(who: int) -> int | None:
        try:
            return claims_of(where, TERMS).take(f"number {who}", patience_ms=0).epoch
        except Owned:
            return None

    with ThreadPoolExecutor(6) as pool:
        epochs = list(pool.map(take, range(6)))
    assert [epoch for epoch in epochs if epoch is not None] == [1]


def test_a_dead_owner_is_followed_by_the_next_epoch(where: tuple[str, str]) -> None:
    dead = claims_of(where).take("dead")
    claim = claims_of(where).take("next")
    assert claim.epoch == 2
    assert not dead.holds()
    with pytest.raises(ClaimLost):
        dead.renew()


@pytest.fixture
def claimant(where: tuple[str, str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.real.claimant", *where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_an_owner_that_was_stopped_for_too_long_acknowledges_nothing_more(
    where: tuple[str, str], claimant: subprocess.Popen[str]
) -> None:
    assert claimant.stdout is not None
    assert claimant.stdout.readline() == "took 1\n"
    assert claimant.stdout.readline().startswith("acknowledged")
    claimant.send_signal(signal.SIGSTOP)
    claim = claims_of(where, TERMS).take("the next")
    taken_ms = BootClock().monotonic_ms()
    with Renewing(claim):
        claimant.send_signal(signal.SIGCONT)
        lines = claimant.stdout.read().splitlines()
        assert lines[-1] == "lost"
        assert claimant.wait(20) == 0
    last_ms = max((int(line.split()[1]) for line in lines[:-1]), default=0)
    assert last_ms < taken_ms
    assert claim.epoch == 2


# The catalogue in etcd


@pytest.fixture
def owner() -> Claim:
    return claims_of(("memory:", etcd_store()), Terms()).take("owner")  # a busy machine takes seconds for all of it


def test_etcd_keeps_what_was_recorded_in_order_and_by_pages(owner: Claim) -> None:
    names = [f"topics/a%2Fb/{number:05}" for number in range(1_050)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(owner.catalogue.record, reversed(names)))
        owner.renew()
    owner.catalogue.record("topics/z")
    assert list(owner.catalogue.names("topics/a%2Fb/")) == names
    owner.renew()
    owner.catalogue.forget([*names[:1_000], "never/was"])
    assert list(owner.catalogue.names("")) == [*names[1_000:], "topics/z"]


def test_who_has_lost_the_claim_changes_nothing() -> None:
    claims = claims_of(("memory:", etcd_store()))
    old = claims.take("old")
    old.catalogue.record("a")
    new = claims.take("new")
    changes: list[Callable[[], None]] = [lambda: old.catalogue.record("b"), lambda: old.catalogue.forget(["a"])]
    for change in changes:
        with pytest.raises(ClaimLost):
            change()
    assert list(new.catalogue.names("")) == ["a"]


def test_a_key_that_somebody_deleted_is_a_lost_claim() -> None:
    url = etcd_store()
    claim = claims_of(("memory:", url), TERMS).take("owner")
    keys = Etcd(url, {})
    assert keys.transact([], [keys.delete("owner")])
    with pytest.raises(ClaimLost):
        claim.renew()
    assert not claim.holds()


def test_a_claim_and_its_catalogue_outlive_etcds_kill(owner: Claim) -> None:
    server, _ = etcd()
    owner.catalogue.record("a")
    server.kill()
    with pytest.raises(StoreUnavailable):
        owner.renew()
    with pytest.raises(StoreUnavailable):
        owner.catalogue.record("b")
    server.start()
    owner.renew()
    assert owner.holds()
    assert list(owner.catalogue.names("")) == ["a"]


def test_of_several_hosts_one_is_enough() -> None:
    host = etcd_store().removeprefix("etcd://")
    claim = claims_of(("memory:", f"etcd://127.0.0.1:1,{host}"), TERMS).take("owner")
    assert claim.epoch == 1
