"""A batch whose answer was lost may be stored: it is never stored twice, nor taken for refused, nor for sent."""

import logging
from collections.abc import Callable

import pytest

from cordwood.client.client import Client
from cordwood.client.connection import Connection
from cordwood.client.endpoint import endpoint as parse
from cordwood.client.reply import Reply
from cordwood.edge.answer import Answer, Means
from cordwood.edge.batch import Batch
from cordwood.edge.delivery import Delivery
from cordwood.edge.log import Log
from cordwood.edge.post import MOST_WAIT_MS, HttpPost, answer_of
from cordwood.errors import Unavailable
from tests.edge.test_delivery import numbered
from tests.edge.world import World

OTHER_WORDS = [
    (200, b"<html>welcome, please log in</html>"),
    (200, b'{"count":2,"durability":"fsync"}'),
    (400, b"<html>The plain HTTP request was sent to HTTPS port</html>"),
    (404, b"no such page"),
    (409, b"[]"),
    (500, b'{"error":"INTERNAL","message":"?"}'),
    (502, b""),
    (503, b'{"error":"UNAVAILABLE","message":"a write failed"}'),
    (504, b"gateway timeout"),
    (302, b""),
]


def once(world: World, send: Callable[[Batch], None]) -> None:
    """Let the next batch go out this way."""
    before = world.broker.send

    def sent(batch: Batch) -> None:
        world.broker.send = before  # type: ignore[method-assign]
        send(batch)

    world.broker.send = sent  # type: ignore[method-assign]


def restarted(world: World) -> None:
    """Have the process killed, and another one go on."""
    world.disk = world.disk.image().after_kill()
    world.open()


def lose_an_answer(world: World, *, stored: bool) -> None:
    """Send seven events, and let the answer get lost."""
    send = world.broker.send

    def lost(batch: Batch) -> None:
        if stored:
            send(batch)
        raise ConnectionResetError("the answer got lost")

    world.append(*numbered(7))
    world.clock.pass_ms(50)
    once(world, lost)
    world.sender.turn()


@pytest.mark.parametrize("restart", [False, True])
def test_a_stored_event_is_not_parked_because_limits_were_lowered(restart: bool) -> None:
    world = World(1)
    lose_an_answer(world, stored=True)
    world.broker.bad = {b"3"}
    world.append(*numbered(5, first=7))
    if restart:
        restarted(world)
    world.run()
    assert world.values() == numbered(12)
    assert (world.delivery.failed, world.delivery.sent, world.log.state.epoch) == (0, 12, 0)


def test_an_event_in_doubt_that_is_not_stored_is_parked_and_nothing_comes_twice() -> None:
    world = World(2)
    lose_an_answer(world, stored=False)
    world.broker.bad = {b"3"}
    world.append(*numbered(5, first=7))
    world.run()
    assert world.values() == [value for value in numbered(12) if value != b"3"]
    assert world.delivery.failed == 1


def test_a_broker_that_does_not_tell_its_numbers_parks_nothing_in_doubt() -> None:
    world = World(3)
    lose_an_answer(world, stored=True)
    world.broker.bad = {b"3"}
    world.broker.numbers = lambda batch: None  # type: ignore[method-assign]
    for _ in range(50):
        world.clock.pass_ms(world.sender.turn())
    assert (world.delivery.failed, world.delivery.pending) == (0, 7)
    assert "not this one" in (world.delivery.error or "")


def test_an_answer_that_proves_nothing_leaves_a_doubt() -> None:
    world = World(4)
    world.append(b"0")
    world.run()
    world.append(b"1")
    world.clock.pass_ms(world.sender.turn())
    store = world.broker.send

    def misheard(batch: Batch) -> None:
        store(batch)
        world.broker._answers[-1] = Answer(Means.UNSURE, "504: gateway timeout")

    once(world, misheard)
    world.sender.turn()
    world.broker.forget_producers()
    for _ in range(50):
        world.clock.pass_ms(world.sender.turn())
    assert world.values() == [b"0", b"1"], "nothing twice"
    assert (world.delivery.pending, world.log.state.doubtful) == (1, 1), "a person must look"


def test_what_is_stored_behind_an_answer_that_proves_nothing_is_not_stored_again() -> None:
    world = World(5)
    world.append(*numbered(21))
    world.clock.pass_ms(50)
    store = world.broker.send

    def misheard(batch: Batch) -> None:
        store(batch)
        world.broker._answers[-1] = Answer(Means.UNSURE, "200: not a broker's")

    once(world, misheard)
    world.run()
    assert world.values() == numbered(21)
    assert world.log.state.epoch == 0


def test_nothing_is_in_doubt_while_the_broker_is_away() -> None:
    world = World(6)
    world.append(b"0")
    world.run()
    world.broker.down_until_ms = 3_600_000
    world.append(*numbered(20, first=1))
    world.run(until_ms=3_000_000)
    assert world.log.state.doubtful == 0
    restarted(world)
    world.broker.forget_producers()  # a long time passed
    world.clock.pass_ms(1_000_000)
    world.run()
    assert world.values() == numbered(21)


@pytest.mark.parametrize(("status", "body"), OTHER_WORDS)
def test_what_is_not_said_by_a_broker_or_is_no_refusal_means_that_nobody_knows(status: int, body: bytes) -> None:
    assert answer_of(Reply(status, {}, body), 3).means is Means.UNSURE


@pytest.mark.parametrize("status", [401, 403, 429, 507])
def test_what_is_decided_before_anything_is_numbered_leaves_no_doubt(status: int) -> None:
    assert answer_of(Reply(status, {}, b""), 3).means is Means.LATER


def test_a_wait_and_an_epoch_that_make_no_sense_are_not_believed() -> None:
    limited = Reply(429, {b"retry-after": b"99999999999"}, b'{"error":"RESOURCE_EXHAUSTED"}')
    assert answer_of(limited, 1).wait_ms == MOST_WAIT_MS
    for epoch in (b"9223372036854775807", b"-4", b'"x"', b"1e300"):
        conflict = Reply(409, {}, b'{"error":"FAILED_PRECONDITION","epoch":%b}' % epoch)
        assert answer_of(conflict, 1) == Answer(Means.CONFLICT, "409: the broker answered 409", 0, -1)


def test_asking_a_real_broker_for_its_numbers_stores_nothing(client: Client, endpoint: str, topic: str) -> None:
    post = HttpPost(parse(endpoint))
    batch = Batch("job", "producer", topic, 0, 3, [], 1, 2, {0: 3}, {0: 0})
    assert post.numbers(batch) == {0: 0}
    path = f"/v1/produce?topic={topic}&producer_id=producer&epoch=2&partition=0&sequence=0"
    connection = Connection(parse(endpoint))
    connection.request("POST", path, b'{"value":"a"}\n{"value":"b"}\n', "application/x-ndjson").checked()
    connection.close()
    assert post.numbers(batch) == {0: 2}
    assert post.numbers(Batch("job", "producer", topic, 0, 3, [], 1, 1, {0: 3}, {0: 0})) is None, "its epoch is over"
    assert post.numbers(Batch("job", "producer", topic, 0, 3, [], 1, 3, {0: 3}, {0: 0})) == {0: 0}
    assert len(list(client.read(topic, 0))) == 2


def test_an_archive_that_cannot_be_written_does_not_hold_up_what_is_to_be_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(7)

    def keep(log: Log, busy: bool) -> None:
        raise PermissionError("the shelf is not ours")

    world.sender.remove(world.delivery)
    world.delivery = Delivery(world.log, world.terms, world.random.random, keep=keep)
    world.sender.add(world.delivery)
    with caplog.at_level(logging.WARNING, "cordwood.edge"):
        for number in range(60):
            world.append(b"%d" % number)
            world.clock.pass_ms(60)
            for _ in range(4):
                world.sender.turn()
    assert world.values() == numbered(60), "without a wait"
    assert caplog.text.count("cannot be put away") == 1


def test_events_that_the_disk_does_not_give_are_never_taken_for_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(8)
    world.append(*numbered(20))
    world.log._recent.clear()
    world.log._recent_size = 0
    monkeypatch.setattr(world.log.journal, "entries", lambda start: iter(()))
    with pytest.raises(Unavailable, match="does not give event 0"):
        world.log.read(0, 5, 1 << 20)
    world.clock.pass_ms(50)
    for _ in range(10):
        world.clock.pass_ms(world.sender.turn())
    assert (world.delivery.pending, world.broker.requests) == (20, 0)
    assert "does not give event 0" in (world.delivery.error or "")
    monkeypatch.undo()
    world.run()
    assert world.values() == numbered(20)


def test_what_an_operator_gave_up_at_the_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(9)
    world.append(*numbered(20))
    world.log._recent.clear()
    world.log._recent_size = 0
    world.log.state.lost(0, 1)
    monkeypatch.setattr(world.log.journal, "entries", lambda start: iter(()))
    world.run(most_turns=50)
    assert (world.delivery.pending, world.broker.requests) == (0, 0)


@pytest.mark.parametrize(
    ("means", "doubtful"), [(Means.LATER, 0), (Means.GONE, 0), (Means.UNSURE, 3)], ids=lambda one: str(one)
)
def test_what_was_refused_is_in_no_doubt_for_who_opens_it_next(means: Means, doubtful: int) -> None:
    world = World(17)
    world.broker.refuse.append(Answer(means, "refused"))
    world.append(*numbered(3))
    while not world.broker.requests:
        world.clock.pass_ms(world.sender.turn())
    assert world.delivery.error == "refused"
    world.delivery.set_aside()
    assert world.log.state.doubtful == doubtful
    world.run()
    assert world.values() == numbered(3)
