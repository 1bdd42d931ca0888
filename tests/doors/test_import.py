"""`cordwood wal import` against a real broker: everything arrives, once."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cordwood
from cordwood.cli.main import cli
from cordwood.client.client import Client
from cordwood.client.message import Message
from cordwood.doors import carry
from cordwood.embedding import Embedded
from cordwood.errors import Conflict, CordwoodError, NotFound, Refused, Unavailable
from tests.doors import writers
from tests.doors.writers import SAMPLES


@pytest.fixture(scope="module")
def broker() -> Iterator[Embedded]:
    with cordwood.embedded() as running:
        yield running


@pytest.fixture
def client(broker: Embedded) -> Iterator[Client]:
    """A client of a broker without topics."""
    with Client(broker.endpoint) as client:
        for topic in client.topics():
            client.delete_topic(topic["name"])
        yield client


class Importing:
    """The command, in this process."""

    def __init__(self, endpoint: str, capsys: pytest.CaptureFixture[str]):
        self._endpoint = endpoint
        self._capsys = capsys

    def __call__(self, path: Path, *words: str) -> dict[str, Any]:
        self._capsys.readouterr()
        cli(
            ["wal", "import", str(path), *words, "--endpoint", self._endpoint, "--json"],
            standalone_mode=False,
        )
        return dict(json.loads(self._capsys.readouterr().out))


@pytest.fixture
def importing(broker: Embedded, client: Client, capsys: pytest.CaptureFixture[str]) -> Importing:
    return Importing(broker.endpoint, capsys)


def messages(client: Client, topic: str, partition: int | None = None) -> list[Message]:
    return list(client.read(topic, partition))


def values(client: Client, topic: str) -> list[bytes | None]:
    return [message.value for message in messages(client, topic)]


def header(message: Message, name: str) -> bytes | None:
    return dict(message.headers or {}).get(name)


def topics(client: Client) -> dict[str, int]:
    return {topic["name"]: topic["partitions"] for topic in client.topics() if topic["name"] != carry.MARKS}


# What arrives


def test_driftq_arrives_with_keys_values_partitions_and_headers(client: Client, importing: Importing) -> None:
    found = importing(SAMPLES / "driftq.wal")
    assert (found["imported"], found["already"]) == (3, 0)
    assert found["sources"][0]["not_imported"] == {"group offset": 1, "retry state": 1, "idempotency key": 1}
    assert topics(client) == {"tasks": 3}
    first, third = messages(client, "tasks", 1)
    assert (first.key, first.value, third.key, third.value) == (b"user:1", b"first", None, bytes(range(256)))
    (second,) = messages(client, "tasks", 0)
    assert (second.key, second.value) == (b"user:2", b'{"n":2}')
    assert dict(second.headers or {}) == {
        "source": str(SAMPLES / "driftq.wal").encode(),
        "source-format": b"driftq",
        "source-topic": b"tasks",
        "source-partition": b"0",
        "source-offset": b"1",
        "driftq-run-id": b"r1",
        "driftq-step-id": b"s1",
        "driftq-labels": b'{"team":"a"}',
        "driftq-idempotency-key": b"k-2",
        "driftq-tenant-id": b"t1",
    }


@pytest.mark.parametrize("year", [2025, 2026])
def test_danube_arrives_without_the_leading_slash(client: Client, importing: Importing, year: int) -> None:
    found = importing(SAMPLES / f"danube-{year}")
    assert found["sources"][0]["format"] == f"danube-{year}"
    assert topics(client) == {"default/orders": 1}
    arrived = messages(client, "default/orders")
    assert [message.value for message in arrived] == [b'{"order":%d}' % n for n in range(5)]
    assert [message.timestamp for message in arrived] == [1_704_067_200_000 + n for n in range(5)]
    assert {message.key for message in arrived} == {b"user:1" if year == 2026 else None}
    assert [header(message, "source-offset") for message in arrived] == [b"%d" % n for n in range(5)]
    assert header(arrived[0], "source-topic") == b"/default/orders"
    assert header(arrived[0], "source-format") == b"danube-%d" % year
    assert header(arrived[0], "danube-producer") == b"p1"
    assert header(arrived[0], "trace") == b"abc"


def test_blipmq_and_airunner_arrive(client: Client, importing: Importing) -> None:
    importing(SAMPLES / "blipmq.wal")
    importing(SAMPLES / "airunner-length-with-itself.wal")
    importing(SAMPLES / "airunner-length-without-itself.wal")
    assert topics(client) == {"demo": 1, "other/topic": 1, "airunner": 1}
    assert values(client, "demo") == [b"hi", b'{"n":2}']
    assert [header(message, "blipmq-qos") for message in messages(client, "other/topic")] == [b"0"]
    assert values(client, "airunner") == [b"test event", bytes(range(200)), b"x" * 2048] * 2
    statuses = [header(message, "airunner-status") for message in messages(client, "airunner")]
    assert statuses == [b"pending", b"sent", b"failed"] * 2


def test_a_directory_is_imported_whole(client: Client, importing: Importing) -> None:
    found = importing(SAMPLES)
    assert found["imported"] == 3 + 5 + 5 + 3 + 3 + 3
    assert topics(client) == {"airunner": 1, "default/orders": 1, "demo": 1, "other/topic": 1, "tasks": 3}
    assert importing(SAMPLES)["imported"] == 0
    assert importing(SAMPLES / "danube-2026")["imported"] == 0


def test_a_time_that_no_message_can_have_is_kept_as_a_header(
    client: Client, importing: Importing, tmp_path: Path
) -> None:
    (tmp_path / "wal.log").write_bytes(writers.danube([b"x"], time_ms=2**64 - 1))
    importing(tmp_path)
    (message,) = messages(client, "default/orders")
    assert header(message, "source-timestamp") == b"%d" % (2**64 - 1)
    assert abs(message.timestamp - time.time() * 1000) < 600_000


def test_a_topic_that_is_there_is_used_as_it_is(client: Client, importing: Importing) -> None:
    client.create_topic("tasks", 2, retention_ms=1000 * 86_400_000)
    importing(SAMPLES / "driftq.wal")
    assert topics(client) == {"tasks": 2}
    assert [len(messages(client, "tasks", partition)) for partition in range(2)] == [1, 2]


def test_partitions_that_the_topic_does_not_have_stay_together(
    client: Client, importing: Importing, tmp_path: Path
) -> None:
    client.create_topic("t", 2)
    sent = [writers.driftq_message("t", n, b"%d" % n, partition=n % 5, key=b"k%d" % n) for n in range(20)]
    (tmp_path / "log").write_bytes(writers.driftq(sent))
    importing(tmp_path / "log")
    for partition in range(2):
        expected = [b"%d" % n for n in range(20) if n % 5 % 2 == partition]
        assert [message.value for message in messages(client, "t", partition)] == expected


def test_records_without_a_key_keep_their_order_in_a_topic_of_many_partitions(
    client: Client, importing: Importing, tmp_path: Path
) -> None:
    client.create_topic("t", 4)
    sent = [b"%d" % n for n in range(100)]
    (tmp_path / "log").write_bytes(writers.blipmq([("t", value) for value in sent]))
    importing(tmp_path / "log", "--batch-messages", "7")
    assert [message.value for message in messages(client, "t", 0)] == sent


def test_one_topic_for_all(client: Client, importing: Importing) -> None:
    importing(SAMPLES / "blipmq.wal", "--topic", "all")
    assert topics(client) == {"all": 1}
    assert [header(message, "source-topic") for message in messages(client, "all")] == [b"demo"] * 2 + [
        b"other/topic"
    ]


@pytest.mark.parametrize("name", ["", "no spaces", "a//b", "//a", "..", "x" * 300, "ü"])
def test_a_name_that_no_topic_can_have_asks_for_one(
    client: Client, importing: Importing, tmp_path: Path, name: str
) -> None:
    (tmp_path / "log").write_bytes(writers.blipmq([("fine", b"1"), (name, b"2")]))
    with pytest.raises(Refused, match="--topic") as raised:
        importing(tmp_path / "log")
    assert raised.value.exit_code == 2
    assert client.topics() == []
    assert importing(tmp_path / "log", "--topic", "fine")["imported"] == 2


def test_a_topic_name_given_wrongly_is_refused(client: Client, importing: Importing) -> None:
    for name in ("no spaces", carry.MARKS):
        with pytest.raises(Refused):
            importing(SAMPLES / "blipmq.wal", "--topic", name)
    assert topics(client) == {}


# Nothing twice


def test_importing_again_imports_nothing(client: Client, importing: Importing) -> None:
    for name in ("driftq.wal", "danube-2025", "blipmq.wal", "airunner-length-with-itself.wal"):
        before = importing(SAMPLES / name)
        held = {topic: values(client, topic) for topic in topics(client)}
        again = importing(SAMPLES / name, "--batch-messages", "1")
        assert (again["imported"], again["already"]) == (0, before["imported"])
        assert {topic: values(client, topic) for topic in topics(client)} == held


def test_a_log_that_has_grown_gives_only_what_is_new(client: Client, importing: Importing, tmp_path: Path) -> None:
    sent = [("a" if n % 3 else "b", b"%d" % n) for n in range(40)]
    log = tmp_path / "log"
    done = 0
    for length in (1, 2, 3, 10, 10, 39, 40):
        log.write_bytes(writers.blipmq(sent[:length]))
        found = importing(log, "--batch-messages", str(1 + length % 4))
        assert (found["imported"], found["already"]) == (length - done, done)
        done = length
    for topic in "ab":
        assert values(client, topic) == [value for name, value in sent if name == topic]


def test_a_torn_tail_comes_when_it_is_whole(client: Client, importing: Importing, tmp_path: Path) -> None:
    log, data = tmp_path / "log", writers.airunner([b"one", b"two", b"three"])
    for cut in range(len(data) - 80, len(data) + 1, 7):
        log.write_bytes(data[:cut])
        importing(log)
    log.write_bytes(data)
    importing(log)
    assert values(client, "airunner") == [b"one", b"two", b"three"]


def test_a_source_whose_beginning_has_changed_is_an_error(
    client: Client, importing: Importing, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_bytes(writers.blipmq([("t", b"one"), ("t", b"two")]))
    importing(log)
    for other in (
        [("t", b"ONE"), ("t", b"two"), ("t", b"three")],
        [("t", b"one"), ("t", b"TWO"), ("t", b"three")],
        [("t", b"one")],
        [],
    ):
        log.write_bytes(writers.blipmq(other))
        for words in ((), ("--topic", "t")):
            with pytest.raises(Conflict, match="has changed"):
                importing(log, *words)
    log.write_bytes(writers.blipmq([("t", b"two"), ("t", b"three")], first=2))
    with pytest.raises(Conflict, match="--source NAME"):
        importing(log)
    log.write_bytes(writers.blipmq([("another", b"one"), ("t", b"two")]))
    with pytest.raises(Conflict):
        importing(log)
    assert topics(client) == {"t": 1}  # what is refused makes no topic
    assert values(client, "t") == [b"one", b"two"]
    assert importing(log, "--source", "another")["imported"] == 2


def test_a_status_that_changes_in_place_changes_nothing(client: Client, importing: Importing, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(writers.airunner([b"one"], status=1))
    importing(log)
    log.write_bytes(writers.airunner([b"one", b"two"], status=2))
    assert importing(log)["imported"] == 1


def test_two_files_are_two_sources_and_a_name_makes_them_one(
    client: Client, importing: Importing, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        shutil.copy(SAMPLES / "blipmq.wal", tmp_path / name)
        assert importing(tmp_path / name)["imported"] == 3
    assert importing(tmp_path / "first", "--source", "named")["imported"] == 3
    assert importing(tmp_path / "second", "--source", "named")["imported"] == 0
    sources = {header(message, "source") for message in messages(client, "demo")}
    assert sources == {str(tmp_path / "first").encode(), str(tmp_path / "second").encode(), b"named"}


def test_the_same_topic_named_or_not_is_the_same_import(client: Client, importing: Importing) -> None:
    importing(SAMPLES / "danube-2025")
    assert importing(SAMPLES / "danube-2025", "--topic", "default/orders")["imported"] == 0
    assert importing(SAMPLES / "danube-2025", "--topic", "elsewhere")["imported"] == 5
    assert importing(SAMPLES / "danube-2025")["imported"] == 0


def test_a_topic_that_has_some_of_a_source_does_not_get_all_of_it(
    client: Client, importing: Importing, tmp_path: Path
) -> None:
    (tmp_path / "log").write_bytes(writers.blipmq([("a", b"1"), ("b", b"2"), ("a", b"3")]))
    importing(tmp_path / "log")
    with pytest.raises(Conflict):
        importing(tmp_path / "log", "--topic", "a")
    assert importing(tmp_path / "log", "--topic", "a", "--source", "again")["imported"] == 3


def test_a_topic_that_was_deleted_is_imported_again(client: Client, importing: Importing) -> None:
    importing(SAMPLES / "blipmq.wal")
    client.delete_topic("demo")
    assert importing(SAMPLES / "blipmq.wal")["imported"] == 2
    assert len(values(client, "other/topic")) == 1
    client.delete_topic(carry.MARKS)  # whoever deletes it says: forget
    assert importing(SAMPLES / "blipmq.wal")["imported"] == 3


def test_the_marks_are_kept_whatever_the_broker_keeps(capsys: pytest.CaptureFixture[str]) -> None:
    short = {"retention_ms": 60_000, "retention_bytes": 1_000, "discard": "acked"}
    with cordwood.embedded(**short) as broker, Client(broker.endpoint) as client:
        Importing(broker.endpoint, capsys)(SAMPLES / "blipmq.wal")
        settings = client.topic(carry.MARKS)["settings"]
    assert (settings["retention_ms"], settings["retention_bytes"], settings["discard"]) == (0, 0, "none")


def test_what_others_produce_to_the_topic_of_marks_is_passed_over(
    importing: Importing, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    importing(SAMPLES / "blipmq.wal")
    client.produce(carry.MARKS, b"junk")
    client.produce(carry.MARKS, None)
    assert importing(SAMPLES / "blipmq.wal")["already"] == 3
    assert "2 message(s) of cordwood.imports are no marks" in caplog.text


# Damage


def flipped(path: Path, text: bytes) -> int:
    data = bytearray(path.read_bytes())
    at = data.index(text)
    data[at] ^= 1
    path.write_bytes(data)
    return at


def test_damage_is_refused_and_what_is_whole_is_imported_by_choice(
    client: Client, importing: Importing, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_bytes(writers.blipmq([("t", b"value %d" % n) for n in range(5)]))
    flipped(log, b"value 2")
    with pytest.raises(CordwoodError, match="--skip-damaged") as raised:
        importing(log)
    assert raised.value.exit_code == 65
    assert "log, byte" in str(raised.value)
    assert client.topics() == []
    found = importing(log, "--skip-damaged")
    assert (found["imported"], len(found["sources"][0]["damages"])) == (4, 1)
    assert values(client, "t") == [b"value %d" % n for n in (0, 1, 3, 4)]
    assert importing(log, "--skip-damaged")["imported"] == 0


def test_damage_in_one_of_many_sources_stops_all_of_them(
    client: Client, importing: Importing, tmp_path: Path
) -> None:
    shutil.copy(SAMPLES / "blipmq.wal", tmp_path / "a")
    shutil.copy(SAMPLES / "airunner-length-with-itself.wal", tmp_path / "b")
    flipped(tmp_path / "b", b"test event")
    with pytest.raises(CordwoodError) as raised:
        importing(tmp_path)
    assert raised.value.exit_code == 65
    assert client.topics() == []


def test_what_is_no_log_is_refused(client: Client, importing: Importing, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "noise").write_bytes(random.Random(3).randbytes(5000))
    for name in ("nothing", "empty", "noise", "missing"):
        with pytest.raises(Refused, match=name) as raised:
            importing(tmp_path / name)
        assert raised.value.exit_code == 2
    assert client.topics() == []


def test_a_message_that_is_too_large_is_named(client: Client, importing: Importing, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(writers.blipmq([("t", b"fine"), ("t", bytes(17 << 20)), ("t", b"fine")]))
    with pytest.raises(Refused, match=r"record\(s\) 2 to 2 of .*log: .*at most"):
        importing(tmp_path / "log")
    assert values(client, "t") == [b"fine"]  # and again gives the same, not the first once more
    with pytest.raises(Refused):
        importing(tmp_path / "log")
    assert values(client, "t") == [b"fine"]


def test_a_topic_that_is_made_again_meanwhile_is_for_later(
    client: Client, importing: Importing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_bytes(writers.blipmq([("t", b"one")]))
    importing(tmp_path / "log")
    (tmp_path / "log").write_bytes(writers.blipmq([("t", b"one"), ("t", b"two")]))
    compare = carry.Carrier.compare

    def slow(self: carry.Carrier, *words: Any) -> None:
        compare(self, *words)
        client.delete_topic("t")
        client.create_topic("t")

    monkeypatch.setattr(carry.Carrier, "compare", slow)
    with pytest.raises(Unavailable, match="meanwhile"):
        importing(tmp_path / "log")
    monkeypatch.undo()
    importing(tmp_path / "log")
    assert values(client, "t") == [b"one", b"two"]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("asked", ["stage", "publish"])
def test_a_topic_that_is_deleted_between_two_batches_gets_everything_once(
    asked: str, again: bool, client: Client, importing: Importing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_bytes(writers.blipmq([("t", b"%d" % number) for number in range(9)]))
    ask, asks = getattr(Client, asked), 0

    def interfered(self: Client, *words: Any, **more: Any) -> Any:
        nonlocal asks
        asks += 1
        if asks == 3:
            client.delete_topic("t")
            if again:
                client.create_topic("t")
        return ask(self, *words, **more)

    monkeypatch.setattr(Client, asked, interfered)
    with pytest.raises(Unavailable, match="meanwhile"):
        importing(tmp_path / "log", "--batch-messages", "2")
    monkeypatch.undo()
    importing(tmp_path / "log", "--batch-messages", "2")
    assert values(client, "t") == [b"%d" % number for number in range(9)]


# Interrupted


class Cut(Exception):
    """The power is gone."""


def cut_at(monkeypatch: pytest.MonkeyPatch, moment: int) -> list[str]:
    """Let the power go at one of the moments before and after each request that changes something."""
    done: list[str] = []

    def cutting(name: str) -> None:
        asked = getattr(Client, name)

        def call(self: Client, *words: Any, **more: Any) -> Any:
            for when in ("before", "after"):
                if len(done) == moment:
                    raise Cut(f"{when} {name}")
                done.append(f"{when} {name}")
                if when == "before":
                    answer = asked(self, *words, **more)
            return answer

        monkeypatch.setattr(Client, name, call)

    for name in ("create_topic", "stage", "publish"):
        cutting(name)
    return done


def test_cut_off_between_any_two_steps_everything_arrives_once(
    client: Client, importing: Importing, tmp_path: Path
) -> None:
    sent = [("a" if n % 2 else "b", b"%d" % n) for n in range(12)]
    (tmp_path / "log").write_bytes(writers.blipmq(sent))
    moment = 0
    while True:
        with pytest.MonkeyPatch.context() as patch:
            cut_at(patch, moment)
            try:
                importing(tmp_path / "log", "--batch-messages", "4")
            except Cut:
                pass
            else:
                break
        importing(tmp_path / "log", "--batch-messages", str(1 + moment % 5))
        for topic in "ab":
            assert values(client, topic) == [value for name, value in sent if name == topic], moment
            client.delete_topic(topic)
        client.delete_topic(carry.MARKS)
        moment += 1
    assert moment == 2 * (3 + 3 * 4)  # three topics; three batches of two topics, marks and a publish


def test_it_does_not_matter_whether_the_broker_remembers_the_writer(
    client: Client, importing: Importing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish, stage = Client.publish, Client.stage
    sent = [("t", b"%d" % n) for n in range(30)]
    for day in range(1, 4):  # a writer of another name each time is one that the broker has forgotten
        monkeypatch.setattr(Client, "publish", lambda s, w, *a, day=day: publish(s, f"{day}{w}", *a))
        monkeypatch.setattr(
            Client, "stage", lambda s, *a, writer, day=day, **m: stage(s, *a, writer=f"{day}{writer}", **m)
        )
        (tmp_path / "log").write_bytes(writers.blipmq(sent[: 10 * day]))
        assert importing(tmp_path / "log", "--batch-messages", "3")["imported"] == 10
    assert values(client, "t") == [value for _, value in sent]


def test_an_answer_that_was_lost_is_not_another_import(
    client: Client, importing: Importing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = Client.publish

    def twice(self: Client, *words: Any) -> Any:
        publish(self, *words)
        return publish(self, *words)

    monkeypatch.setattr(Client, "publish", twice)
    sent = [("t", b"%d" % n) for n in range(10)]
    (tmp_path / "log").write_bytes(writers.blipmq(sent))
    assert importing(tmp_path / "log", "--batch-messages", "3")["imported"] == 10
    assert values(client, "t") == [value for _, value in sent]


@pytest.mark.parametrize("step", ["stage", "publish"])
def test_two_imports_of_one_source_at_once_import_it_once(
    client: Client, importing: Importing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    sent = [("t", b"%d" % n) for n in range(10)]
    (tmp_path / "log").write_bytes(writers.blipmq(sent))
    real = getattr(Client, step)

    def overtaken(self: Client, *words: Any, **more: Any) -> Any:
        monkeypatch.setattr(Client, step, real)
        importing(tmp_path / "log", "--batch-messages", "10")
        return real(self, *words, **more)

    monkeypatch.setattr(Client, step, overtaken)
    with pytest.raises(Unavailable, match="another import") as raised:
        importing(tmp_path / "log", "--batch-messages", "3")
    assert raised.value.exit_code == 75
    assert values(client, "t") == [value for _, value in sent]


def test_killed_in_the_middle_and_run_again_everything_arrives_once(
    broker: Embedded, client: Client, importing: Importing, tmp_path: Path
) -> None:
    sent = [(f"t{n % 3}", b"%d" % n) for n in range(3000)]
    (tmp_path / "log").write_bytes(writers.blipmq(sent))
    command = [sys.executable, "-m", "cordwood", "wal", "import", str(tmp_path / "log")]
    dice = random.Random(5)
    last = 0
    for _ in range(4):
        process = subprocess.Popen([*command, "--batch-messages", "5", "--endpoint", broker.endpoint])
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(NotFound):
                there = sum(p["end_offset"] for p in client.topic("t0")["partitions"])
                if there > last + dice.randrange(5, 60):
                    break
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it was done before it was killed"
        last = sum(p["end_offset"] for p in client.topic("t0")["partitions"])
    assert 0 < last < 1000
    importing(tmp_path / "log", "--batch-messages", "700")
    for topic in ("t0", "t1", "t2"):
        assert values(client, topic) == [value for name, value in sent if name == topic]


def test_a_broker_that_was_started_again_knows_what_was_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = [("t", b"%d" % n) for n in range(50)]
    (tmp_path / "log").write_bytes(writers.blipmq(sent[:30]))
    with cordwood.embedded(tmp_path / "data") as broker:
        Importing(broker.endpoint, capsys)(tmp_path / "log")
    (tmp_path / "log").write_bytes(writers.blipmq(sent))
    with cordwood.embedded(tmp_path / "data") as broker, Client(broker.endpoint) as client:
        assert Importing(broker.endpoint, capsys)(tmp_path / "log")["imported"] == 20
        assert values(client, "t") == [value for _, value in sent]
