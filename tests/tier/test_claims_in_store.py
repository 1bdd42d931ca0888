"""Claims in the store itself: one holds at a time, whatever the store and the owners do."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random, SystemRandom

import pytest

from cordwood.errors import Refused
from cordwood.machine.boot_clock import BootClock
from cordwood.machine.disk import Buffer
from cordwood.machine.objects import StoreUnavailable, open_objects
from cordwood.machine.objects.directory import DirectoryObjects
from cordwood.sim.clock import SimClock
from cordwood.sim.objects import SimObjects, Weather
from cordwood.sim.tree import SimTree
from cordwood.tier.claim import Claim, ClaimLost, Owned, Terms
from cordwood.tier.claiming import open_claims
from cordwood.tier.claims_in_store import FOLDER, Sign, StoreClaims, parse_sign, signs
from tests.tier.actors import Stage

TERMS = Terms()


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def objects(clock: SimClock) -> SimObjects:
    return SimObjects(clock)


@pytest.fixture
def claims(objects: SimObjects, clock: SimClock) -> StoreClaims:
    return StoreClaims(objects, clock, TERMS, clock.pass_ms)


def test_a_sign_is_its_name() -> None:
    assert Sign(3, False, 12).name == "state/claim/00000000000000000003.0000000012"
    assert Sign(3, True, 0).name == "state/claim/00000000000000000003.released"
    for sign in (Sign(3, False, 12), Sign(10**19, True, 0)):
        assert parse_sign(sign.name) == sign
    for name in ("3.0", FOLDER + "x.1", FOLDER + "1", FOLDER + "1.", FOLDER + "1.free", FOLDER + "²." + "1"):
        assert parse_sign(name) is None


def test_the_first_takes_epoch_one_at_once(claims: StoreClaims, clock: SimClock) -> None:
    claim = claims.take("first")
    assert (claim.epoch, claim.holds(), clock.monotonic_ms()) == (1, True, 0)


def test_a_dead_owners_claim_lapses_after_thirty_seconds(claims: StoreClaims, clock: SimClock) -> None:
    dead = claims.take("dead")
    claim = claims.take("next")
    assert claim.epoch == 2
    assert 30_000 <= clock.monotonic_ms() <= 32_000
    assert not dead.holds()
    with pytest.raises(ClaimLost, match=r"was taken over .*epoch 1, now 2"):
        dead.renew()
    assert claim.holds()


def test_while_the_owner_renews_a_second_waits_and_is_refused(objects: SimObjects, clock: SimClock) -> None:
    claim = StoreClaims(objects, clock, TERMS, clock.pass_ms).take("host-1 process 42")

    def wait(duration_ms: int) -> None:
        clock.pass_ms(duration_ms)
        if clock.monotonic_ms() % TERMS.renew_ms == 0:
            claim.renew()

    with pytest.raises(Owned, match="owned by host-1 process 42; stop that broker") as caught:
        StoreClaims(objects, clock, TERMS, wait).take("second")
    assert caught.value.exit_code == 75, "as for a second one on a directory: it may succeed later"
    assert clock.monotonic_ms() == TERMS.patience_ms
    assert claim.holds()


def test_a_released_store_is_taken_at_once(claims: StoreClaims, clock: SimClock) -> None:
    for epoch in range(1, 4):
        claim = claims.take("one after the other")
        assert (claim.epoch, clock.monotonic_ms()) == (epoch, 0)
        claim.release()


def test_an_owner_that_lapsed_goes_on_if_nobody_came(claims: StoreClaims, clock: SimClock) -> None:
    claim = claims.take("owner")
    clock.pass_ms(3_600_000)
    assert not claim.holds()
    claim.renew()
    assert claim.holds()


def test_few_signs_stay_behind(claims: StoreClaims, objects: SimObjects) -> None:
    claims.take("before").release()
    claim = claims.take("owner")
    for _ in range(50):
        claim.renew()
    assert len(objects.names()) <= 3
    assert Sign(2, False, 0).name in objects.names(), "an epoch's first sign says that it is taken"


def test_a_newcomer_that_slept_does_not_take_an_epoch_again(objects: SimObjects, clock: SimClock) -> None:
    """It saw epoch 1 released, slept, and puts 2.0 when 2.0's owner has long gone on to 2.5."""
    claims = StoreClaims(objects, clock, TERMS, clock.pass_ms)
    claims.take("first").release()
    owner: list[Claim] = []

    def interrupt(operation: str, name: str) -> None:
        if operation == "put" and name == Sign(2, False, 0).name and not owner:
            objects.watch = None
            owner.append(claims.take("owner"))
            for _ in range(5):
                owner[0].renew()

    objects.watch = interrupt
    with pytest.raises(Owned):
        claims.take("sleeper", patience_ms=0)
    owner[0].renew()
    assert owner[0].holds()


def test_a_newcomer_outlasts_an_owner_that_renewed_at_the_last_moment(objects: SimObjects, clock: SimClock) -> None:
    claims = StoreClaims(objects, clock, TERMS, clock.pass_ms)
    owner = claims.take("owner")

    def interrupt(operation: str, name: str) -> None:
        if operation == "put" and name == Sign(2, False, 0).name:
            objects.watch = None
            owner.renew()
            assert owner.holds()

    objects.watch = interrupt
    claim = claims.take("newcomer")
    assert claim.epoch == 2
    assert not owner.holds()


def test_a_store_that_overwrites_is_refused(clock: SimClock) -> None:
    class Overwriting(SimObjects):
        def put(self, name: str, data: Buffer) -> bool:
            self.delete([name])
            return super().put(name, data)

    with pytest.raises(Refused, match="conditional puts"):
        StoreClaims(Overwriting(clock), clock, TERMS, clock.pass_ms).take("owner")


def test_a_store_that_hides_what_was_just_put_gives_no_claim(clock: SimClock) -> None:
    class Forgetful(SimObjects):
        def list(self, prefix: str) -> Iterator:
            return iter([entry for entry in super().list(prefix) if entry.name.endswith(".0000000000")])

    with pytest.raises(StoreUnavailable, match="does not list"):
        StoreClaims(Forgetful(clock), clock, TERMS, clock.pass_ms).take("owner")


def test_a_store_that_is_down_is_said_after_the_patience(claims: StoreClaims, objects: SimObjects) -> None:
    objects.down = True
    with pytest.raises(StoreUnavailable):
        claims.take("owner")


def test_an_outage_takes_the_store_from_nobody_who_is_alive(objects: SimObjects, clock: SimClock) -> None:
    claim = StoreClaims(objects, clock, TERMS, clock.pass_ms).take("owner")

    def wait(duration_ms: int) -> None:
        clock.pass_ms(duration_ms)
        objects.down = 2_000 < clock.monotonic_ms() < 38_000
        if clock.monotonic_ms() % TERMS.renew_ms == 0 and not objects.down:
            claim.renew()

    with pytest.raises(Owned):
        StoreClaims(objects, clock, TERMS, wait).take("newcomer", patience_ms=60_000)
    assert claim.holds()


@pytest.mark.parametrize("fault", ["fail_before", "fail_after", "fail_late"])
def test_faults_of_the_store_only_make_it_take_longer(fault: str, clock: SimClock) -> None:
    for seed in range(20):
        objects = SimObjects(clock, Random(seed), Weather(**{fault: 0.5}))
        claim = StoreClaims(objects, clock, TERMS, clock.pass_ms).take("owner", patience_ms=10_000_000)
        assert claim.epoch >= 1
        assert len({sign.epoch for sign in signs_of(objects)}) <= 3


def signs_of(objects: SimObjects) -> list[Sign]:
    objects.weather = Weather()
    return signs(objects)


def play(seed: int) -> list[Claim]:
    """Let three brokers want one store, and stall, die, release and come again; return the claims that were given."""
    clock = SimClock()
    random = Random(seed)
    weather = Weather(*(random.choice((0.0, 0.05, 0.2)) for _ in range(3)), fail_listing=0.02)
    objects = SimObjects(clock, random, weather)
    stage = Stage(seed, objects, clock)
    given: list[Claim] = []

    def broker() -> None:
        while True:
            try:
                claim = StoreClaims(objects, clock, TERMS, stage.wait).take("broker", stage.random.randrange(90_000))
            except (Owned, StoreUnavailable):
                stage.wait(stage.random.randrange(10_000))
                continue
            given.append(claim)
            own(claim)

    def own(claim: Claim) -> None:
        while True:
            try:
                dice = stage.random.random()
                if dice < 0.02:
                    claim.release()
                    return
                if dice < 0.05:
                    return  # it dies, and another starts
                # Usually in time; sometimes it is stopped for about as long as a claim lives.
                stage.wait(TERMS.renew_ms if dice < 0.8 else stage.random.randrange(15_000, 40_000))
                claim.renew()
            except ClaimLost:
                return
            except StoreUnavailable:
                continue

    def always() -> None:
        holding = [claim.epoch for claim in given if claim.holds()]
        # Who died, or released with an error, is not counted on: it acknowledges nothing.
        assert len(holding) <= 1, f"seed {seed}: {holding} hold at once"

    stage.play([broker] * 3, 1500, always)
    return given


def test_never_do_two_hold_at_once() -> None:
    start = SystemRandom().getrandbits(40)
    print(f"seeds from {start}")
    given = 0
    for seed in range(start, start + 8):
        claims = play(seed)
        epochs = [claim.epoch for claim in claims]
        assert len(set(epochs)) == len(epochs), f"seed {seed}: an epoch was given twice: {epochs}"
        given += len(epochs)
    assert given > 8


# A directory has a lock as well.


def test_a_dead_owners_directory_is_taken_at_once(clock: SimClock) -> None:
    tree = SimTree()
    dead = StoreClaims(DirectoryObjects(tree), clock, TERMS, clock.pass_ms).take("dead")
    claim = StoreClaims(DirectoryObjects(tree.after_kill()), clock, TERMS, clock.pass_ms).take("next")
    assert (dead.epoch, claim.epoch, clock.monotonic_ms()) == (1, 2, 0)


def test_a_directory_whose_owner_lives_is_refused_although_it_does_not_renew(clock: SimClock) -> None:
    tree = SimTree()
    claims = StoreClaims(DirectoryObjects(tree), clock, TERMS, clock.pass_ms)
    owner = claims.take("owner")
    with pytest.raises(Owned, match="owned by owner"):
        claims.take("second")
    assert clock.monotonic_ms() == TERMS.patience_ms
    owner.renew()
    assert owner.holds()
    owner.release()
    assert claims.take("second").epoch == 2


def test_who_could_not_take_a_directory_gives_its_lock_back(clock: SimClock) -> None:
    tree = SimTree()
    objects = DirectoryObjects(tree)

    def fail(operation: str, name: str, size: int) -> None:
        raise OSError(5, "Input/output error")

    tree.faults = fail
    with pytest.raises(StoreUnavailable):
        StoreClaims(objects, clock, TERMS, clock.pass_ms).take("owner")
    tree.faults = None
    tree.lock()


OWNER = """
import sys
from cordwood.machine.boot_clock import BootClock
from cordwood.machine.objects import open_objects
from cordwood.tier.claiming import open_claims
claim = open_claims("store", open_objects(sys.argv[1]), BootClock()).take("the child")
print(claim.epoch, flush=True)
sys.stdin.read()
claim.release()
"""


@contextmanager
def owned(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that owns a directory; it releases it when its input ends."""
    command = [sys.executable, "-c", OWNER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"1\n"
        yield child
        child.kill()


def test_a_process_that_was_killed_leaves_its_directory_free(tmp_path: Path) -> None:
    claims = open_claims("store", open_objects(str(tmp_path)), BootClock())
    with owned(tmp_path) as child:
        with pytest.raises(Owned, match="owned by the child"):
            claims.take("parent", patience_ms=200)
        child.kill()
        child.wait()
        begun = time.monotonic()
        assert claims.take("parent").epoch == 2
        assert time.monotonic() - begun < 20, "it did not wait for the claim to lapse"


def test_metadata_that_is_neither_is_refused(clock: SimClock) -> None:
    for metadata in ("", "zookeeper://x", "etcd:", "etcd://", "etcd://a b", "etcd://h:x"):
        with pytest.raises(Refused, match="etcd://host:port"):
            open_claims(metadata, SimObjects(clock), clock)


def test_a_password_in_the_url_of_an_etcd_is_refused_and_not_repeated(clock: SimClock) -> None:
    with pytest.raises(Refused, match="ETCDCTL_CERT") as caught:
        open_claims("etcd://root:sesame@127.0.0.1:2379", SimObjects(clock), clock)
    assert "sesame" not in str(caught.value)
