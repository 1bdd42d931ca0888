"""The outbox as an application uses it: real threads, real disks, a real broker or one that is told what to say."""

import asyncio
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

import cordwood
from cordwood.client.client import Client
from cordwood.edge import archive, delivery, leftovers, patience, sender
from cordwood.edge.event import Event
from cordwood.edge.facts import Fact
from cordwood.edge.log import Log
from cordwood.edge.look import fold, look, outboxes
from cordwood.edge.outbox import Outbox
from cordwood.edge.running import send_left_overs
from cordwood.edge.state import State
from cordwood.errors import Full, Locked, Refused, Unavailable
from cordwood.machine.disk import Directory
from tests.edge.left import left
from tests.edge.scripted import Scripted

NOBODY = "http://127.0.0.1:9"  # the port where everything is refused


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a hundredth between tries; how long it really is, is proven with a pretended clock."""
    monkeypatch.setattr(patience, "FIRST_MS", 10)
    monkeypatch.setattr(patience, "MOST_MS", 100)


def stored(client: Client, topic: str) -> list[bytes | None]:
    return [message.value for message in client.read(topic, partition=0)]


def test_an_event_arrives_with_all_it_has(client: Client, endpoint: str, topic: str, root: Path) -> None:
    when = datetime(2026, 5, 1, tzinfo=UTC)
    with Outbox(root, execution="job-42/1", topic=topic, endpoint=endpoint) as outbox:
        assert outbox.append({"line": "é"}) == 0
        assert outbox.append("text", key="user:1", headers={"a": b"\xff", "b": "c", "d": None}, timestamp=when) == 1
        assert outbox.append(b"\x00\xff", timestamp=1_700_000_000_123) == 2
        assert outbox.append(None) == 3
        outbox.flush(10)
        assert (outbox.pending, outbox.sent, outbox.failed, outbox.last_error) == (0, 4, 0, None)
    first, second, third, fourth = client.read(topic, partition=0)
    assert (first.value, first.key) == ('{"line":"é"}'.encode(), b"job-42/1")
    assert (second.value, second.key) == (b"text", b"user:1")
    assert dict(second.headers) == {"a": b"\xff", "b": b"c", "d": None}
    assert second.timestamp == int(when.timestamp() * 1000)
    assert (third.value, third.timestamp) == (b"\x00\xff", 1_700_000_000_123)
    assert fourth.value is None


@pytest.mark.parametrize("mask", [0o022, 0, 0o777])
def test_files_are_for_their_owner_alone(root: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        outbox = Outbox(root, execution="a", topic="t", endpoint=NOBODY)
        outbox.append(b"x")
    finally:
        os.umask(before)
    for path in (root, root / "a"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (root / "a").iterdir()} == {0o600}
    outbox.stop(0)


def test_many_threads_append_at_once_and_each_keeps_its_order(
    client: Client, endpoint: str, topic: str, root: Path
) -> None:
    def work(number: int) -> None:
        for step in range(50):
            outbox.append({"thread": number, "step": step})

    with Outbox(root, execution="threads", topic=topic, endpoint=endpoint) as outbox:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        outbox.flush(20)
    found = [json.loads(value or b"") for value in stored(client, topic)]
    assert len(found) == 800
    for number in range(16):
        assert [one["step"] for one in found if one["thread"] == number] == list(range(50))


def test_ten_outboxes_share_one_thread(client: Client, endpoint: str, topic: str, root: Path) -> None:
    boxes = [Outbox(root, execution=f"box-{number}", topic=topic, endpoint=endpoint) for number in range(10)]
    assert sum("cordwood-outbox" in thread.name for thread in threading.enumerate()) == 1
    for step in range(20):
        for box in boxes:
            box.append({"box": box.execution, "step": step})
    for box in boxes:
        box.flush(10)
        assert box.stop() == 0
    found = [json.loads(value or b"") for value in stored(client, topic)]
    assert len(found) == 200
    for box in boxes:
        assert [one["step"] for one in found if one["box"] == box.execution] == list(range(20))


def test_flush_says_how_many_are_pending(root: Path) -> None:
    outbox = Outbox(root, execution="a", topic="t", endpoint=NOBODY)
    outbox.append_many([b"1", b"2", b"3"])
    with pytest.raises(TimeoutError, match="3 events are pending"):
        outbox.flush(0.2)
    assert "cannot be reached" in (outbox.last_error or "")
    assert outbox.stop(0) == 3


def test_stop_under_load_returns_in_time_and_loses_nothing(
    client: Client, endpoint: str, topic: str, root: Path
) -> None:
    outbox = Outbox(root, execution="loaded", topic=topic, endpoint=endpoint)
    done: list[int] = []

    def work() -> None:
        try:
            while True:
                done.append(outbox.append(b"x" * 100))
        except Unavailable:
            return

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    began = time.monotonic()
    outbox.stop(2)
    assert time.monotonic() - began < 4
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    with pytest.raises(Unavailable, match="stopped"):
        outbox.append(b"late")
    with Outbox(root, execution="next", topic=topic, endpoint=endpoint):
        _until(lambda: len(stored(client, topic)) >= len(done))
    assert len(stored(client, topic)) == len(done) == len(set(done))


def test_stop_does_not_wait_for_a_broker_that_does_not_answer(root: Path) -> None:
    with Scripted([]) as server:
        server.gate.clear()
        outbox = Outbox(root, execution="a", topic="t", endpoint=server.endpoint)
        outbox.append(b"x")
        _until(lambda: bool(server.requests))
        began = time.monotonic()
        assert outbox.stop(0.3) == 1
        assert time.monotonic() - began < 2
        assert look(root / "a").pending == 1
        assert not look(root / "a").living


@pytest.mark.parametrize("how", ["stop", "send now"])
def test_who_ends_does_not_wait_out_a_pause_of_a_broker_that_is_back(
    how: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "FIRST_MS", 1_000_000)
    monkeypatch.setattr(patience, "MOST_MS", 1_000_000)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    outbox = Outbox(root, execution="a", topic="t", endpoint=f"http://127.0.0.1:{port}")
    outbox.append(b"x")
    _until(lambda: "cannot be reached" in (outbox.last_error or ""))
    assert outbox.send_now(60) is False, "it is not there: nobody waits for it"
    with Scripted([], port=port) as server:
        if how == "send now":
            assert outbox.send_now(60) is True
        assert outbox.stop(60) == 0
        assert server.requests


def test_a_forked_child_is_refused_and_the_parent_goes_on(
    client: Client, endpoint: str, topic: str, root: Path
) -> None:
    outbox = Outbox(root, execution="parent", topic=topic, endpoint=endpoint)
    outbox.append(b"before")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            outbox.append(b"child")
        except RuntimeError as error:
            os.write(writing, str(error).encode())
        outbox.stop()
        os._exit(0)
    os.waitpid(child, 0)
    assert b"forked" in os.read(reading, 1000)
    os.close(reading)
    os.close(writing)
    outbox.append(b"after")
    outbox.flush(10)
    outbox.stop()
    assert stored(client, topic) == [b"before", b"after"]


def test_a_forked_child_does_not_keep_its_parents_lock(root: Path) -> None:
    outbox = Outbox(root, execution="parent", topic="t", endpoint=NOBODY)
    outbox.append(b"x")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reading, 1)
        os._exit(0)
    try:
        outbox.stop(0)
        _until(lambda: not look(root / "parent").living)  # the child lives, and has no lock
    finally:
        os.write(writing, b"x")
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_an_execution_that_runs_is_refused_and_told_what_to_do(root: Path) -> None:
    outbox = Outbox(root, execution="job/1", topic="t", endpoint=NOBODY)
    with pytest.raises(Locked, match=r"running already.*execution of its own"):
        Outbox(root, execution="job/1", topic="t", endpoint=NOBODY)
    outbox.append(b"still there")
    assert outbox.stop(0) == 1


def test_a_second_run_of_an_execution_has_a_log_of_its_own_and_goes_behind_the_first(
    client: Client, endpoint: str, topic: str, root: Path
) -> None:
    left(root, "job/1", topic, endpoint, b"1", b"2")
    second = Outbox(root, execution="job/1", topic=topic, endpoint=endpoint)
    second.append(b"3")
    second.flush(10)
    assert stored(client, topic) == [b"1", b"2", b"3"]
    assert second.stop() == 0
    assert [path.name for path in root.iterdir()] == ["archive"]
    assert sorted(path.name for path in (root / "archive").iterdir()) == ["job%2F1.2.wal.zst", "job%2F1.wal.zst"]
    assert [event.value for event in archive.read_execution(root, "job/1")] == [b"1", b"2", b"3"]


def test_left_overs_of_dead_executions_are_sent_and_archived(
    client: Client, endpoint: str, topic: str, root: Path
) -> None:
    for number in range(12):
        left(root, f"dead-{number:02}", topic, endpoint, b"%d" % number)
    with Outbox(root, execution="alive", topic=topic, endpoint=endpoint) as outbox:
        outbox.append(b"alive")
        _until(lambda: len(outboxes(root)) == 1)
        outbox.flush(10)
    assert sorted(value or b"" for value in stored(client, topic)) == sorted(
        [b"alive", *(b"%d" % n for n in range(12))]
    )
    names = {path.name for path in (root / "archive").iterdir()}
    assert names == {"alive.wal.zst", *(f"dead-{number:02}.wal.zst" for number in range(12))}


@pytest.mark.parametrize("living", [False, True])
def test_left_overs_that_are_refused_do_not_keep_others_from_being_sent(
    client: Client, endpoint: str, topic: str, root: Path, monkeypatch: pytest.MonkeyPatch, living: bool
) -> None:
    monkeypatch.setattr(leftovers, "MOST_TAKEN", 2)
    monkeypatch.setattr(delivery, "wait_ms", lambda failures, random: 3_600_000)  # none of them is tried again soon
    for number in range(5):
        left(root, f"a-{number}", f"{topic}-is-not-there", endpoint, b"refused")
    for _ in range(3):  # runs of one execution wait for the first of them
        left(root, "a-again", f"{topic}-is-not-there", endpoint, b"refused")
    for number in range(3):
        left(root, f"b-{number}", topic, endpoint, b"%d" % number)
        left(root, f"b-{number}", topic, endpoint, b"%d" % (10 + number))
    if living:
        with Outbox(root, execution="alive", topic=topic, endpoint=endpoint):
            _until(lambda: len(stored(client, topic)) == 6)
    else:
        assert send_left_overs(root, endpoint) == 8
    values = [value or b"" for value in stored(client, topic)]
    assert sorted(values) == [b"0", b"1", b"10", b"11", b"12", b"2"]
    assert all(values.index(b"%d" % number) < values.index(b"1%d" % number) for number in range(3))
    client.create_topic(f"{topic}-is-not-there")
    assert send_left_overs(root, endpoint) == 0
    assert stored(client, f"{topic}-is-not-there") == [b"refused"] * 8


def test_what_is_meant_for_another_broker_is_not_sent_to_this_one(
    client: Client, endpoint: str, topic: str, root: Path
) -> None:
    left(root, "elsewhere", topic, NOBODY, b"not for here")
    left(root, "here", topic, endpoint, b"left")
    with Outbox(root, execution="alive", topic=topic, endpoint=endpoint) as outbox:
        outbox.append(b"new")
        _until(lambda: len(stored(client, topic)) == 2)
    assert sorted(value or b"" for value in stored(client, topic)) == [b"left", b"new"]
    assert [(look(path).execution, look(path).pending) for path in outboxes(root)] == [("elsewhere", 1)]


def test_a_damaged_left_over_is_left_alone_and_others_go_on(
    client: Client, endpoint: str, topic: str, root: Path
) -> None:
    for name in ("good", "bad"):  # nobody comes behind the bad one who could take it
        left(root, name, topic, endpoint, name.encode())
    segment = max((root / "bad").glob("*.wal"))
    data = bytearray(segment.read_bytes())
    data[-20] ^= 1
    segment.write_bytes(data)
    with Outbox(root, execution="alive", topic=topic, endpoint=endpoint):
        _until(lambda: stored(client, topic) == [b"good"])
    assert (root / "bad").exists()
    assert segment.read_bytes() == data, "nothing was changed"


def test_a_record_that_is_too_large_is_parked_and_shown(
    client: Client, endpoint: str, topic: str, root: Path
) -> None:
    outbox = Outbox(root, execution="job", topic=topic, endpoint=endpoint)
    values = [b"%d" % number for number in range(300)]
    values[123] = b"x" * 100_000
    outbox.append_many(values)
    outbox.append_many([b"more", b"and more"])
    outbox.flush(20)
    assert (outbox.pending, outbox.sent, outbox.failed) == (0, 301, 1)
    assert "event 123" in (outbox.last_error or "event 123 is forgotten once others are sent")
    assert outbox.stop() == 0
    assert stored(client, topic) == [*values[:123], *values[124:], b"more", b"and more"]
    kept = look(root / "job")
    assert (kept.failed, kept.parked[0].number) == (1, 123), "it stays, to be looked at"
    with Outbox(root, execution="another", topic=topic, endpoint=endpoint) as another:
        another.append(b"other")
        another.flush(10)
    assert look(root / "job") == kept, "and nobody takes it"


@pytest.mark.parametrize(
    ("status", "headers"),
    [(401, {}), (403, {}), (404, {}), (409, {}), (429, {"Retry-After": "0"}), (500, {}), (503, {}), (507, {})],
)
def test_other_refusals_are_tried_again_until_it_works(status: int, headers: dict[str, str], root: Path) -> None:
    answer = (status, {"error": "CODE", "message": "for a reason"}, headers)
    with Scripted([answer] * 3) as server, Outbox(root, topic="t", endpoint=server.endpoint) as outbox:
        outbox.append(b"x")
        outbox.flush(10)
        assert (outbox.sent, outbox.failed) == (1, 0)
        assert len(server.requests) == 4
        assert {rows for _, rows in server.requests} == {1}


@pytest.mark.parametrize("answer", [{}, {"count": 7, "durability": "fsync"}, {"welcome": "to our hotel"}])
def test_a_200_that_is_no_brokers_proves_nothing(answer: dict[str, object], root: Path) -> None:
    with Scripted([(200, answer, {})] * 2) as server, Outbox(root, topic="t", endpoint=server.endpoint) as outbox:
        outbox.append(b"x")
        outbox.flush(10)
        assert outbox.sent == 1
        assert len(server.requests) == 3


def test_a_refusal_is_shown_while_it_lasts(root: Path) -> None:
    answer = (503, {"error": "UNAVAILABLE", "message": "the disk is away"}, {})
    with Scripted([answer] * 1000) as server:
        outbox = Outbox(root, topic="t", endpoint=server.endpoint)
        outbox.append(b"x")
        with pytest.raises(TimeoutError, match="503: the disk is away"):
            outbox.flush(0.3)
        outbox.stop(0)


def test_a_topic_that_comes_late_is_waited_for(client: Client, endpoint: str, root: Path) -> None:
    with Outbox(root, execution="e", topic="late", endpoint=endpoint) as outbox:
        outbox.append(b"x")
        _until(lambda: "404" in (outbox.last_error or ""))
        client.create_topic("late", 3)
        outbox.flush(10)
    found = [message.value for message in client.read("late")]
    assert found == [b"x"]


def test_the_caller_is_told_when_too_much_waits_and_room_comes_back_by_itself(
    client: Client, endpoint: str, topic: str, root: Path
) -> None:
    with Scripted([]) as server:
        server.gate.clear()
        outbox = Outbox(root, execution="e", topic=topic, endpoint=server.endpoint, max_bytes=10_000)
        accepted = 0
        with pytest.raises(Full, match="wait to be sent"):
            for _ in range(1000):
                outbox.append(b"x" * 100)
                accepted += 1
        assert 50 < accepted < 100
        server.gate.set()
        outbox.flush(10)
        outbox.append(b"again")
        outbox.flush(10)
        assert outbox.sent == accepted + 1
        outbox.stop()


def test_events_are_handed_to_a_function_instead(root: Path) -> None:
    got: list[Event] = []
    fails = 2

    def deliver(events: list[Event]) -> None:
        nonlocal fails
        if fails:
            fails -= 1
            raise ConnectionError("not yet")
        if any(event.value == b"bad" for event in events):
            raise Refused("not this one")
        got.extend(events)

    with Outbox(root, execution="e", send=deliver, batch_events=2) as outbox:
        outbox.append_many([b"1", b"2", b"bad", b"3", b"4", b"5", b"6"])
        outbox.flush(10)
        assert (outbox.sent, outbox.failed) == (6, 1)
    assert [event.value for event in got] == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert {event.key for event in got} == {b"e"}


def test_a_long_run_keeps_its_disk_bounded_and_its_archives_whole(
    client: Client, endpoint: str, topic: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "PART_BYTES", 1 << 20)
    with Outbox(root, execution="long", topic=topic, endpoint=endpoint) as outbox:
        for _ in range(20):
            outbox.append_many([os.urandom(1000) for _ in range(600)])
            outbox.flush(10)
        _until(lambda: look(root / "long").bytes_on_disk < 16 << 20)
    assert len(list((root / "archive").iterdir())) > 5
    events = list(archive.read_execution(root, "long"))
    assert [event.number for event in events] == list(range(12_000))
    assert [event.value for event in events] == stored(client, topic)


def test_without_archives_what_was_sent_leaves(client: Client, endpoint: str, topic: str, root: Path) -> None:
    with Outbox(root, execution="e", topic=topic, endpoint=endpoint, archive=False) as outbox:
        outbox.append(b"x")
    assert list(root.iterdir()) == []
    assert stored(client, topic) == [b"x"]


def test_clean_removes_what_is_old_and_says_so_first(endpoint: str, topic: str, root: Path) -> None:
    for name in ("old", "new"):
        with Outbox(root, execution=name, topic=topic, endpoint=endpoint) as outbox:
            outbox.append(b"x")
            outbox.flush(10)
    old = root / "archive" / "old.wal.zst"
    os.utime(old, (time.time() - 31 * 86_400,) * 2)
    assert archive.clean(root, dry_run=True) == [old]
    assert old.exists()
    assert archive.clean(root) == [old]
    assert sorted(path.name for path in old.parent.iterdir()) == ["new.wal.zst"]


@pytest.mark.parametrize("execution", ["archive", ".", "..", "a/b@c%2F", "ü ñ", "x" * 200])
def test_any_name_of_an_execution_is_one_directory_below_the_root(execution: str, root: Path) -> None:
    outbox = Outbox(root, execution=execution, topic="t", endpoint=NOBODY)
    outbox.append(b"x")
    outbox.stop(0)
    (found,) = outboxes(root)
    assert look(found).execution == execution
    assert found.parent == root


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"execution": ""}, "execution"),
        ({"execution": "x" * 201}, "execution"),
        ({"topic": None}, "topic"),
        ({"topic": "a//b"}, "topic"),
        ({"topic": "../x"}, "topic"),
        ({"endpoint": "nowhere"}, "endpoint"),
        ({"max_bytes": 0}, "max_bytes"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(bad: dict[str, object], why: str, root: Path) -> None:
    with pytest.raises(Refused, match=why):
        Outbox(root, **{"topic": "t", "endpoint": NOBODY, **bad})  # type: ignore[arg-type]
    assert not root.exists() or list(root.iterdir()) == []


def test_what_is_no_event_is_refused_and_nothing_is_appended(root: Path) -> None:
    outbox = Outbox(root, topic="t", endpoint=NOBODY)
    for value, options in (
        (1, {}),
        (b"x", {"key": 1}),
        (b"x", {"headers": {"a": 1}}),
        (b"x", {"headers": [(1, b"")]}),
    ):
        with pytest.raises(TypeError):
            outbox.append(value, **options)  # type: ignore[arg-type]
    with pytest.raises(Refused):
        outbox.append(b"x" * (17 << 20))
    with pytest.raises(Refused):
        outbox.append(b"x", timestamp=10**18)
    assert outbox.pending == 0
    outbox.stop(0)


def test_the_wall_clock_set_back_changes_nothing(
    client: Client, endpoint: str, topic: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cordwood.machine.clock import SystemClock

    with Outbox(root, execution="e", topic=topic, endpoint=endpoint) as outbox:
        outbox.append(b"1")
        monkeypatch.setattr(SystemClock, "now_ms", lambda self: 1_000)
        outbox.append(b"2")
        outbox.flush(10)
    assert stored(client, topic) == [b"1", b"2"]


def test_the_same_awaited(client: Client, endpoint: str, topic: str, root: Path) -> None:
    async def work() -> None:
        async with cordwood.aio.Outbox(root, execution="e", topic=topic, endpoint=endpoint) as outbox:
            assert sorted(await asyncio.gather(*(outbox.append(b"%d" % n) for n in range(20)))) == list(range(20))
            await outbox.append_many([b"x"] * 3)
            await outbox.flush(10)
            assert (outbox.pending, outbox.sent) == (0, 23)

    asyncio.run(work())
    assert len(stored(client, topic)) == 23


def _until(fact: object, timeout_s: float = 20.0) -> None:
    until = time.monotonic() + timeout_s
    while not fact():  # type: ignore[operator]
        assert time.monotonic() < until, "it did not come true in time"
        time.sleep(0.01)


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), Exception(), MemoryError()])
def test_whatever_a_function_raises_it_is_called_again(raised: BaseException, root: Path) -> None:
    got: list[bytes | None] = []

    def deliver(events: list[Event]) -> None:
        got.extend(event.value for event in events)
        if len(got) < 3:
            raise raised

    with Outbox(root, send=deliver) as outbox:
        outbox.append(b"x")
        outbox.flush(10)
        assert (outbox.sent, got) == (1, [b"x"] * 3)


def test_a_function_needs_no_hash(root: Path) -> None:
    class Deliver(list[bytes | None]):
        def __call__(self, events: list[Event]) -> None:
            self.extend(event.value for event in events)

    deliver = Deliver()
    with Outbox(root, send=deliver) as outbox:
        outbox.append(b"x")
    assert deliver == [b"x"]


def test_a_400_that_is_no_brokers_parks_nothing(root: Path) -> None:
    with Scripted([(400, {}, {})] * 3) as server, Outbox(root, topic="t", endpoint=server.endpoint) as outbox:
        outbox.append_many([b"x", b"y"])
        outbox.flush(10)
        assert (outbox.sent, outbox.failed) == (2, 0)


def test_an_outbox_whose_disk_failed_is_opened_anew_by_the_next_one(
    client: Client, endpoint: str, topic: str, root: Path
) -> None:
    failed = Outbox(root, "job/1", topic, NOBODY)
    failed.append(b"a")
    failed._log.journal.fail(OSError(5, "Input/output error"))
    with pytest.raises(Unavailable, match="only reads"):
        failed.append(b"b")
    with Outbox(root, "job/1", topic, NOBODY) as another:
        another.append(b"c")
        assert (failed.stop(), another.stop(0)) == (1, 1)
    assert send_left_overs(root, endpoint) == 0
    assert stored(client, topic) == [b"a", b"c"]


def test_a_left_over_whose_disk_fails_is_let_go_and_sent_when_it_is_opened_again(
    client: Client, endpoint: str, topic: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "REOPEN_MS", 10)
    left(root, "dead", topic, endpoint, b"a")
    record, failures = Log.record, [1]

    def failing(log: Log, facts: Sequence[Fact]) -> None:
        if failures and "dead" in log.directory.path:
            failures.pop()
            log.journal.fail(OSError(5, "Input/output error"))
        record(log, facts)

    monkeypatch.setattr(Log, "record", failing)
    with Outbox(root, "alive", topic, endpoint) as outbox:
        outbox.append(b"b")
        _until(lambda: len(stored(client, topic)) == 2)
        _until(lambda: [path.name for path in outboxes(root)] == ["alive"])
    assert not failures


def test_a_left_over_that_cannot_be_opened_now_is_tried_again(
    client: Client, endpoint: str, topic: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "SCAN_MS", 10)
    left(root, "dead", topic, endpoint, b"a")
    troubles: list[Exception] = [OSError(24, "Too many open files"), Full("no room")]

    def troubled(directory: Directory) -> State:
        if troubles:
            raise troubles.pop()
        return fold(directory)

    monkeypatch.setattr(leftovers, "fold", troubled)
    with Outbox(root, "alive", topic, endpoint):
        _until(lambda: stored(client, topic) == [b"a"])


def test_a_left_over_that_breaks_whoever_opens_it_does_not_hold_up_others(
    client: Client, endpoint: str, topic: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(root, "a-bad", topic, endpoint, b"bad")
    left(root, "good", topic, endpoint, b"good")

    def strict(directory: Directory) -> State:
        found = fold(directory)
        assert "a-bad" not in str(found.begun), "numbers are in order"
        return found

    monkeypatch.setattr(leftovers, "fold", strict)
    with Outbox(root, "alive", topic, endpoint) as outbox:
        outbox.append(b"new")
        _until(lambda: sorted(stored(client, topic), key=str) == [b"good", b"new"])


def test_a_forked_child_does_not_keep_the_lock_of_a_left_over(root: Path) -> None:
    left(root, "dead", "t", NOBODY, b"x")
    outbox = Outbox(root, "alive", "t", NOBODY)
    _until(lambda: (root / "dead@1").exists() and look(root / "dead@1").living)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reading, 1)
        os._exit(0)
    try:
        outbox.stop(0)
        _until(lambda: not look(root / "dead@1").living)
    finally:
        os.write(writing, b"x")
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_archives_are_read_in_their_order_when_the_first_are_cleaned_away(
    client: Client, endpoint: str, topic: str, root: Path
) -> None:
    for value in (b"1", b"2", b"3"):
        with Outbox(root, "job", topic, endpoint) as outbox:
            outbox.append(value)
    (root / "archive" / "job.wal.zst").unlink()
    with Outbox(root, "job", topic, endpoint) as outbox:
        outbox.append(b"4")
    with Outbox(root, "job.9", topic, endpoint) as outbox:
        outbox.append(b"another's")
    names = sorted(path.name for path in (root / "archive").iterdir())
    assert names == ["job.2.wal.zst", "job.3.wal.zst", "job.4.wal.zst", "job.9.wal.zst"]
    assert [event.value for event in archive.read_execution(root, "job")] == [b"2", b"3", b"4"]
    assert [event.value for event in archive.read_execution(root, "job.9")] == [b"another's"]
