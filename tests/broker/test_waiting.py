"""Who waits, for what, and what happens to them when it does not come."""

from typing import Any

import pyarrow as pa
import pytest

from cordwood.broker.timers import Timers
from cordwood.errors import Conflict, Full, Limited, NotFound, Preparing
from cordwood.wire import json as one
from cordwood.wire.intake import Limits
from tests.broker.harness import Harness, records, rows, times


def message(text: bytes) -> Any:
    return one.decode(text, Limits())


def test_nothing_is_answered_shown_or_delivered_before_it_is_synced() -> None:
    harness = Harness()
    harness.do("create_topic", "t", 1, {})
    asked = harness.produce("t", b"a")
    leased = harness.ask("lease", "t", "g", owner="me")
    harness.broker.flush()
    info = harness.ask("topic", "t")
    assert (asked, leased, info) == ([], [], [])
    assert harness.broker.page("t", harness.broker.state.topics["t"].id, 0, 0).runs == []
    harness.sync()
    assert asked[0].results == [(0, 0, 1)]
    assert len(leased[0]) == 1
    assert info[0].partitions[0].end_offset == 1


def test_an_error_that_rests_on_what_is_not_synced_waits_for_it() -> None:
    harness = Harness()
    harness.do("create_topic", "t", 1, {})
    from cordwood.broker.ops import Numbered

    harness.ask("produce", "t", records(b"a", b"b"), number=Numbered("p", 0, 0))
    gap = harness.ask("produce", "t", records(b"x"), number=Numbered("p", 0, 7))
    harness.ask("delete_topic", "t")
    gone = harness.ask("topic", "t")
    assert (gap, gone) == ([], [])
    harness.sync()
    assert isinstance(gap[0], Conflict)
    assert gap[0].facts["expected_sequence"] == 2
    assert isinstance(gone[0], NotFound)


def test_requests_that_wait_for_room_keep_their_order_and_acks_pass_them() -> None:
    harness = Harness()
    harness.do("create_topic", "t", 1, {})
    harness.produce("t", b"first")
    assert harness.lease("t", "g") == [(0, 0, 1)]
    harness.refuse = lambda entries: Preparing("not yet") if entries > 1 else None
    second, third = harness.produce("t", b"second"), harness.produce("t", b"third")
    assert harness.do("ack", "t", "g", 0, [(0, 1)]) is None
    assert (second, third) == ([], [])
    harness.refuse = None
    harness.broker.room()
    harness.sync()
    assert second[0].results == [(0, 1, 1)]
    assert third[0].results == [(0, 2, 1)]


def test_requests_that_wait_for_room_are_told_when_there_will_be_none() -> None:
    harness = Harness()
    harness.do("create_topic", "t", 1, {})
    harness.refuse = lambda entries: Preparing("not yet")
    waiting = [harness.produce("t", b"x") for _ in range(3)]
    harness.refuse = lambda entries: Full("no room")
    harness.broker.room()
    assert all(isinstance(answers[0], Full) for answers in waiting)
    harness.refuse = None
    assert harness.do("produce", "t", records(b"later")).results == [(0, 0, 1)]


def test_what_waits_for_room_counts_as_pending() -> None:
    harness = Harness(max_pending_bytes=1 << 20)
    harness.do("create_topic", "t", 1, {})
    harness.refuse = lambda entries: Preparing("not yet")
    answers = [harness.produce("t", bytes(300_000)) for _ in range(6)]
    assert [bool(found) for found in answers] == [False, False, False, True, True, True]
    assert isinstance(answers[-1][0], Limited)


def test_what_is_only_accepted_counts_as_pending_too() -> None:
    harness = Harness(max_pending_bytes=1 << 20)
    harness.do("create_topic", "t", 1, {})
    answers = []
    for _ in range(6):
        answers.append(harness.ask("produce", "t", records(bytes(300_000)), qos=0))
    assert isinstance(answers[-1][0], Limited)


def test_a_single_message_is_not_overtaken_by_a_batch_that_came_later() -> None:
    harness = Harness()
    harness.do("create_topic", "t", 1, {})
    harness.produce("t", b"under way")  # a commit runs, so what comes now is gathered
    harness.ask("produce_one", "t", message(b'{"value": "first"}'), size=10)
    harness.produce("t", b"second")
    harness.sync()
    found = harness.broker.page("t", harness.broker.state.topics["t"].id, 0, 0).runs
    assert [v for run in found for v in run.batch.column("value").to_pylist()] == [b"under way", b"first", b"second"]


def test_segments_go_only_when_the_trimming_itself_is_synced() -> None:
    harness = Harness(sync="never")
    harness.do("create_topic", "t", 1, {"retention_ms": 1})
    harness.produce("t", b"old")
    harness.sync()
    harness.clock.pass_ms(20_000)
    harness.broker.flush()
    harness.journal.commit(sync=False)
    harness.broker.told(harness.journal.written, harness.journal.synced)
    assert harness.released == []
    harness.journal.commit()
    harness.broker.told(harness.journal.written, harness.journal.synced)
    assert harness.released


def test_a_timer_that_fails_does_not_keep_others_from_ringing() -> None:
    timers, rung = Timers(), []

    def fail(now: int) -> None:
        raise ValueError("on purpose")

    timers.at(1, fail)
    timers.at(2, rung.append)
    timers.run(5)
    assert rung == [5]


def test_what_could_not_be_read_in_one_turn_is_delivered_in_another(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness()
    harness.do("create_topic", "t", 1, {})
    harness.produce("t", b"a", b"b")
    harness.sync()
    fetch = harness.ledger.fetch

    def broken(place: Any) -> Any:
        raise OSError("the disk does not answer")

    monkeypatch.setattr(harness.ledger, "fetch", broken)
    answers = harness.ask("lease", "t", "g", owner="me", wait_ms=60_000)
    harness.sync()
    assert answers == []
    monkeypatch.setattr(harness.ledger, "fetch", fetch)
    harness.pass_ms(1_000)
    assert answers[0][0].batch.num_rows == 2


def test_messages_that_wait_for_their_time_hide_nobody_and_come_when_they_are_due() -> None:
    harness = Harness()
    harness.do("create_topic", "t", 1, {})
    now = harness.clock.now_ms()
    waiting = 30_000
    harness.ask(
        "produce",
        "t",
        records(*[b"later"] * waiting, b"now", deliver_at=times(*[now + 1_000 + n for n in range(waiting)], None)),
    )
    harness.sync()
    assert harness.lease("t", "g", max_messages=1, wait_ms=5) == [(0, waiting, 1)]
    assert harness.lease("t", "g", max_messages=10) == []
    harness.clock.pass_ms(1_000 + 9)
    assert [offset for _, offset, _ in harness.lease("t", "g", max_messages=100)] == list(range(10))


def test_a_stream_that_closes_before_anything_left_uses_up_no_attempt() -> None:
    harness = Harness()
    harness.do("create_topic", "t", 1, {})
    harness.do("set_group", "t", "g", {"max_attempts": 2})
    harness.produce("t", b"a")
    harness.sync()
    got: list[Any] = []
    for _ in range(4):
        _, close = harness.broker.consume("t", "g", got.append, owner="s")
        harness.broker.flush()
        close()
        harness.sync()
    assert got == []
    assert harness.lease("t", "g") == [(0, 0, 1)]


def test_in_ordered_mode_what_is_given_back_is_followed_by_what_came_behind_it() -> None:
    harness = Harness()
    harness.do("create_topic", "t", 1, {})
    harness.do("set_group", "t", "g", {"mode": "ordered"})
    harness.produce("t", *[b"x"] * 5)
    assert len(harness.lease("t", "g", "A")) == 5
    harness.do("extend", "t", "g", 0, [(1, 2)], owner="A", lease_ms=0)
    harness.do("ack", "t", "g", 0, [(0, 1)], owner="A")
    assert harness.lease("t", "g", "B") == [(0, offset, 1) for offset in (1, 2, 3, 4)]


def test_dead_letters_go_in_frames_of_bounded_size() -> None:
    harness = Harness()
    harness.do("create_topic", "t", 1, {})
    harness.do("set_group", "t", "g", {"max_attempts": 1, "lease_ms": 1_000})
    for _ in range(6):
        harness.produce("t", *[bytes(500_000)] * 8)
        harness.sync()
    assert len(harness.lease("t", "g", max_bytes=1 << 30)) == 48
    largest = []
    append = harness.journal.append
    harness.journal.append = lambda entries, **how: largest.append(sum(map(len, entries))) or append(entries, **how)
    for _ in range(20):  # a frame may have to wait for room
        harness.pass_ms(1_000)
    assert harness.broker.state.topics["dlq.t"].partitions[0].end == 48
    assert max(largest) < 9 << 20


def test_a_publish_of_what_was_never_staged_is_refused_and_an_empty_one_is_said_to_be_empty() -> None:
    harness = Harness()
    with pytest.raises(Conflict, match="nothing is staged"):
        harness.do("publish", "w", 0, None)
    assert harness.do("publish", "w", 0, []).results == []


def test_messages_of_a_deleted_topic_wake_nobody_at_its_namesake() -> None:
    harness = Harness()
    harness.do("create_topic", "t", 3, {})
    sent = harness.produce("t", b"old", partition=pa.array([2], pa.int32()))
    gone = harness.ask("delete_topic", "t")
    made = harness.ask("create_topic", "t", 1, {})
    waiting = harness.ask("lease", "t", "g", owner="me", wait_ms=1_000)
    harness.sync()
    assert all((sent, gone, made))
    assert not waiting, "there is nothing yet, least of all in a partition that is not there"
    harness.produce("t", b"new")
    harness.sync()
    assert [row for run in waiting[0] for row in rows(run)] == [(0, 0, 1)]
