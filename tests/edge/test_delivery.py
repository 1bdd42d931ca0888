"""What goes next and what an answer changes, in a pretended world: no network, no thread, no waiting."""

from collections import Counter
from itertools import pairwise

import pytest

from cordwood.edge.answer import Answer, Means
from cordwood.edge.delivery import Terms
from tests.edge.world import World

HOUR_MS = 3_600_000


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_everything_is_sent_once_and_in_order() -> None:
    world = World(1)
    for value in numbered(100):
        world.append(value)
    world.run()
    assert world.values() == numbered(100)
    assert (world.delivery.pending, world.delivery.sent, world.delivery.failed) == (0, 100, 0)
    assert world.broker.requests < 30, "events travel together"


@pytest.mark.parametrize("seed", range(40))
def test_a_wire_that_breaks_anywhere_loses_and_doubles_nothing(seed: int) -> None:
    world = World(seed)
    world.broker.trouble = 0.3
    for number in range(60):
        world.append(b"%d" % number)
        if world.random.random() < 0.5:
            world.sender.turn()
            world.clock.pass_ms(world.random.randrange(100))
    world.run()
    assert world.values() == numbered(60)


@pytest.mark.parametrize("seed", range(40))
def test_a_wire_that_breaks_keeps_every_keys_order_in_many_partitions(seed: int) -> None:
    world = World(seed, partitions=4)
    world.broker.trouble = 0.3
    for number in range(80):
        world.append(b"%d" % number, key=b"key-%d" % (number % 9) if number % 3 else None)
        if world.random.random() < 0.3:
            world.sender.turn()
    world.run()
    stored = [event for events in world.broker.stored.values() for event in events]
    assert sorted(event.number for event in stored) == list(range(80))
    for events in world.broker.stored.values():
        by_key: dict[bytes, list[int]] = {}
        for event in events:
            by_key.setdefault(event.key, []).append(event.number)
        assert all(numbers == sorted(numbers) for numbers in by_key.values())


def test_a_day_without_a_broker_is_survived_with_few_tries() -> None:
    world = World(3)
    world.broker.down_until_ms = 24 * HOUR_MS
    for number in range(24 * 60):
        world.append(b"%d" % number)
        world.run(until_ms=(number + 1) * 60_000)
        world.clock.jump_ms(-HOUR_MS if number % 100 == 0 else 1_000)  # the wall clock is set back now and then
    assert world.delivery.pending == 24 * 60
    world.run()
    assert world.values() == numbered(24 * 60)
    tries = world.broker.tries_at_ms
    gaps = [later - earlier for earlier, later in pairwise(tries)]
    assert gaps[0] <= 1_500
    assert max(gaps) <= 90_000, "60 s, and half as much more"
    assert sorted(gaps)[len(gaps) // 2] >= 30_000, "most waits are the longest"
    assert world.clock.monotonic_ms() < 24 * HOUR_MS + 180_000, "it noticed soon that the broker was back"


def test_one_bad_event_among_many_is_parked_and_the_others_go_on() -> None:
    world = World(4, terms=Terms(batch_events=1000, window=4))
    world.broker.bad = {b"577"}
    world.append(*numbered(1000))
    world.append(*numbered(10, first=1000))
    world.run()
    assert world.values() == [value for value in numbered(1010) if value != b"577"]
    assert (world.delivery.failed, world.delivery.sent) == (1, 1009)
    assert [parked.number for parked in world.log.state.parked] == [577]
    assert "not this one" in world.log.state.parked[0].reason
    assert world.log.state.epoch == 1, "the next epoch, recorded"
    assert world.broker.requests < 40, "halves, not one by one"


@pytest.mark.parametrize("seed", range(20))
def test_bad_events_and_a_breaking_wire_together(seed: int) -> None:
    world = World(seed, partitions=3)
    world.broker.trouble = 0.2
    world.broker.bad = {b"0", b"13", b"14", b"59"}
    for number in range(60):
        world.append(b"%d" % number, key=b"k%d" % (number % 5))
    world.run()
    stored = Counter(event.value for events in world.broker.stored.values() for event in events)
    assert stored == Counter(value for value in numbered(60) if value not in world.broker.bad)
    assert world.delivery.failed == 4


def test_what_goes_to_another_partition_does_not_overtake_a_bad_event() -> None:
    world = World(4, partitions=4, terms=Terms(batch_events=1, window=4, linger_ms=0))
    world.broker.bad = {b"0", b"3"}
    for number in range(12):
        world.append(b"%d" % number, key=b"key-%d" % number)
    world.run()
    stored = Counter(event.value for events in world.broker.stored.values() for event in events)
    assert stored == Counter(value for value in numbered(12) if value not in world.broker.bad)
    assert world.delivery.failed == 2


@pytest.mark.parametrize("means", [Means.LATER, Means.GONE])
def test_every_other_refusal_is_retried_and_shown(means: Means) -> None:
    world = World(5)
    world.broker.refuse.extend([Answer(means, "507: no room")] * 5)
    world.append(b"0")
    world.run(most_turns=3, until_ms=0)
    world.clock.pass_ms(50)
    world.sender.turn()
    assert world.delivery.error == "507: no room"
    world.run()
    assert world.values() == [b"0"]
    assert (world.delivery.failed, world.delivery.error) == (0, None)


def test_what_the_broker_asks_to_wait_is_waited() -> None:
    world = World(6)
    world.broker.refuse.append(Answer(Means.LATER, "429: full", 45_000))
    world.append(b"0")
    world.run()
    assert world.clock.monotonic_ms() >= 45_000


def test_a_producer_that_the_broker_forgot_goes_on_in_a_new_epoch() -> None:
    world = World(7)
    world.append(*numbered(10))
    world.run()
    world.broker.forget_producers()
    world.append(*numbered(10, first=10))
    world.run()
    assert world.values() == numbered(20)
    assert world.log.state.epoch == 1


def test_a_batch_that_may_be_stored_is_not_numbered_anew() -> None:
    world = World(8)
    world.append(*numbered(7))
    world.run()
    world.append(*numbered(7, first=7))
    world.clock.pass_ms(50)
    send = world.broker.send

    def stored_and_not_answered(batch: object) -> None:
        send(batch)  # type: ignore[arg-type]
        raise ConnectionResetError("the answer got lost")

    world.broker.send = stored_and_not_answered  # type: ignore[method-assign]
    world.sender.turn()
    world.broker.send = send  # type: ignore[method-assign]
    world.broker.forget_producers()
    for _ in range(100):
        world.clock.pass_ms(world.sender.turn())
    assert world.values() == numbered(14), "nothing twice"
    assert world.delivery.pending == 7, "a person must look"
    assert "409" in (world.delivery.error or "")


def test_a_topic_made_anew_with_other_partitions_is_not_taken_for_bad_events() -> None:
    world = World(9, partitions=8)
    world.append(*numbered(7))
    world.run()
    world.broker._partitions = 1
    world.broker.forget_producers()
    world.broker.refuse.append(Answer(Means.BAD, "400: the topic has 0 to 0"))
    world.append(*numbered(7, first=7))
    world.run()
    assert world.delivery.failed == 0
    assert world.values(0)[-7:] == numbered(7, first=7)


def test_outboxes_take_turns() -> None:
    one = World(10)
    others = []
    for number in range(9):
        other = World(10, producer=f"other-{number}")
        one.sender.add(other.delivery)
        others.append(other)
    one.append(*numbered(500))
    for other in others:
        other.append(b"small")
    for _ in range(20):
        one.sender.turn()
        one.clock.pass_ms(10)
    assert all(not other.delivery.pending for other in others), "nobody waits for a large one"
    assert one.delivery.pending


def test_nothing_is_sent_behind_a_question_that_broke_the_wire() -> None:
    world = World(5)
    world.append(b"first")
    world.run()
    other = World(6, producer="producer-2")  # nobody has asked for it yet how many partitions there are
    world.sender.add(other.delivery)
    world.append(b"more")
    other.append(b"new")
    asked = 0

    def broken(topic: str) -> int:
        nonlocal asked
        asked += 1
        assert asked < 10, "what was under way is given up and sent again for ever"
        raise ConnectionResetError("the wire broke")

    world.broker.partitions = broken  # type: ignore[method-assign]
    for delivery in (world.delivery, other.delivery):
        delivery.hasten(1)
    before = world.broker.requests
    world.sender.turn()
    assert asked == 1
    assert world.broker.requests <= before + 1
    assert world.sender.failing


def test_a_broker_that_is_back_is_tried_at_once_when_somebody_asks_for_it() -> None:
    world = World(7)
    world.broker.down_until_ms = 60_000
    world.append(b"waits")
    world.run(until_ms=20_000)
    tries = len(world.broker.tries_at_ms)
    wait = world.sender.turn()
    assert (len(world.broker.tries_at_ms), wait > 0) == (tries, True), "a pause is kept while nobody asks"
    breaks = world.sender.try_now()
    world.sender.turn()
    assert (len(world.broker.tries_at_ms), world.sender.breaks) == (tries + 1, breaks + 1), "tried, and once"
    assert world.sender.turn() > 0
    assert len(world.broker.tries_at_ms) == tries + 1
    world.broker.down_until_ms = 0
    world.sender.try_now()
    world.run(most_turns=3)
    assert world.values() == [b"waits"]
