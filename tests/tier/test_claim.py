"""How long a claim may be relied upon, by clocks that a test holds."""

import threading

import pytest

from cordwood.machine.boot_clock import BootClock
from cordwood.machine.objects import StoreUnavailable
from cordwood.machine.objects.memory import MemoryObjects
from cordwood.sim.clock import SimClock
from cordwood.tier.catalogue import ListedCatalogue
from cordwood.tier.claim import Claim, ClaimLost, Holding, Terms, Watch

TERMS = Terms()


class Played:
    """A tenure whose renewals do as they are told."""

    epoch = 7

    def __init__(self, clock: SimClock) -> None:
        self.clock = clock
        self.takes_ms = 0
        self.error: Exception | None = None
        self.released = 0
        self.claim: Claim | None = None
        self.tidied_with_ms = 0

    def renew(self) -> None:
        self.clock.pass_ms(self.takes_ms)
        if self.error is not None:
            raise self.error

    def tidy(self) -> None:
        self.tidied_with_ms = self.claim.valid_until_ms if self.claim else -1

    def release(self) -> None:
        self.released += 1


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def played(clock: SimClock) -> Played:
    return Played(clock)


@pytest.fixture
def claim(clock: SimClock, played: Played) -> Claim:
    return Claim(played, ListedCatalogue(MemoryObjects(clock)), clock, TERMS, clock.monotonic_ms())


def test_a_claim_holds_for_twenty_seconds_and_no_longer(claim: Claim, clock: SimClock) -> None:
    assert (claim.epoch, claim.valid_until_ms) == (7, 20_000)
    clock.pass_ms(19_999)
    assert claim.holds()
    clock.pass_ms(1)
    assert not claim.holds()


def test_the_wall_clock_means_nothing_to_a_claim(claim: Claim, clock: SimClock) -> None:
    clock.jump_ms(1_000_000)
    assert claim.holds()
    clock.jump_ms(-2_000_000)
    clock.pass_ms(20_000)
    assert not claim.holds()


def test_a_renewal_counts_from_when_it_began(claim: Claim, clock: SimClock, played: Played) -> None:
    clock.pass_ms(5_000)
    played.takes_ms = 4_000
    claim.renew()
    assert claim.valid_until_ms == 25_000


def test_a_renewal_counts_before_anything_is_tidied(claim: Claim, clock: SimClock, played: Played) -> None:
    played.claim = claim
    clock.pass_ms(5_000)
    claim.renew()
    assert played.tidied_with_ms == 25_000


def test_a_renewal_that_failed_leaves_the_claim_as_it_was(claim: Claim, clock: SimClock, played: Played) -> None:
    played.error = StoreUnavailable("store", "it is down")
    for _ in range(3):
        clock.pass_ms(5_000)
        with pytest.raises(StoreUnavailable):
            claim.renew()
    assert claim.holds()
    clock.pass_ms(5_000)
    assert not claim.holds()
    played.error = None
    claim.renew()
    assert claim.holds(), "nobody took it meanwhile"


def test_a_lost_claim_never_holds_again_whatever_the_clock_says(
    claim: Claim, clock: SimClock, played: Played
) -> None:
    played.error = ClaimLost("it was taken over")
    with pytest.raises(ClaimLost):
        claim.renew()
    assert not claim.holds()
    played.error = None
    with pytest.raises(ClaimLost, match="it was taken over"):
        claim.renew()
    assert not claim.holds()
    assert claim.valid_until_ms == -1


def test_a_released_claim_holds_no_more_and_is_released_once(claim: Claim, played: Played) -> None:
    claim.release()
    claim.release()
    assert not claim.holds()
    assert played.released == 1
    with pytest.raises(ClaimLost, match="released"):
        claim.renew()


def test_what_is_lost_is_not_released(claim: Claim, played: Played) -> None:
    played.error = ClaimLost("it was taken over")
    with pytest.raises(ClaimLost):
        claim.renew()
    claim.release()
    assert played.released == 0


def test_a_release_waits_for_the_renewal_that_is_under_way(claim: Claim, played: Played) -> None:
    renewing, go_on = threading.Event(), threading.Event()
    order = []

    def slow() -> None:
        renewing.set()
        go_on.wait(10)
        order.append("renewed")

    played.renew = slow  # type: ignore[method-assign]
    played.release = lambda: order.append("released")  # type: ignore[method-assign]
    threads = [threading.Thread(target=claim.renew)]
    threads[0].start()
    renewing.wait(10)
    threads.append(threading.Thread(target=claim.release))
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join()
    assert order == ["renewed", "released"]
    assert not claim.holds()


def test_a_late_answer_does_not_shorten_a_claim() -> None:
    holding = Holding(TERMS, 10_000)
    holding.renewed(5_000)
    assert holding.until_ms == 30_000


def test_a_claim_lapses_when_no_sign_has_changed_for_thirty_seconds() -> None:
    watch = Watch(TERMS)
    assert not watch.lapsed("e.1", 0, 500)
    for began_ms in range(1_000, 30_001, 1_000):
        assert not watch.lapsed("e.1", began_ms, began_ms + 100), began_ms
    assert not watch.lapsed("e.1", 30_499, 30_499)
    assert watch.lapsed("e.1", 30_500, 31_000)


def test_a_new_sign_begins_the_count_again() -> None:
    watch = Watch(TERMS)
    for number in range(20):
        at_ms = number * 5_000
        assert not watch.lapsed(f"e.{number}", at_ms, at_ms)


def test_who_could_not_look_for_long_counts_from_the_beginning() -> None:
    watch = Watch(TERMS)
    assert not watch.lapsed("e.1", 0, 0)
    assert not watch.lapsed("e.1", 60_000, 60_000), "the owner could not renew either"
    for at_ms in range(65_000, 90_000, 5_000):
        assert not watch.lapsed("e.1", at_ms, at_ms)
    assert watch.lapsed("e.1", 90_000, 90_000)


def test_terms_that_let_two_hold_at_once_are_impossible() -> None:
    with pytest.raises(AssertionError):
        Terms(hold_ms=30_000, lapse_ms=30_000)


def test_the_clock_of_a_claim_goes_forward() -> None:
    clock = BootClock()
    assert 0 < clock.monotonic_ms() <= clock.monotonic_ms()
