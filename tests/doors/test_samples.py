"""The sample logs, byte for byte: what is in them, and that our own writers write the same."""

import pytest

from cordwood.doors.recognise import AIRUNNER, BLIPMQ, DANUBE, DRIFTQ, recognise
from tests.doors import writers
from tests.doors.reading import read, sample

MS = 1_704_067_200_000


def test_driftq() -> None:
    found = read(DRIFTQ, sample("driftq.wal"))
    assert [(r.number, r.partition, r.key, r.value) for r in found.records] == [
        (0, 1, b"user:1", b"first"),
        (1, 0, b"user:2", b'{"n":2}'),
        (2, 1, None, bytes(range(256))),
    ]
    assert {r.topic for r in found.records} == {"tasks"}
    assert found.records[1].headers == (
        ("driftq-run-id", b"r1"),
        ("driftq-step-id", b"s1"),
        ("driftq-labels", b'{"team":"a"}'),
        ("driftq-idempotency-key", b"k-2"),
        ("driftq-tenant-id", b"t1"),
    )
    assert [(topic.name, topic.partitions) for topic in found.topics] == [("tasks", 3)]
    assert [aside.what for aside in found.asides] == ["group offset", "retry state", "idempotency key"]
    assert dict(found.asides[0].facts) == {"topic": "tasks", "partition": 1, "offset": 0, "group": "mailer"}
    assert not found.torn + found.corrupt


@pytest.mark.parametrize("year", [2025, 2026])
def test_danube(year: int) -> None:
    found = read(DANUBE, sample(f"danube-{year}/wal.log"), sample(f"danube-{year}/wal.1.log"))
    assert [(r.number, r.value, r.time_ms) for r in found.records] == [
        (n, b'{"order":%d}' % n, MS + n) for n in range(5)
    ]
    assert {r.format for r in found.records} == {f"danube-{year}"}
    assert {r.topic for r in found.records} == {"/default/orders"}
    assert {r.key for r in found.records} == {b"user:1" if year == 2026 else None}
    headers = dict(found.records[2].headers)
    assert headers["danube-request-id"] == b"1002"
    assert headers["danube-producer-id"] == b"7"
    assert headers["danube-producer"] == b"p1"
    assert headers["danube-broker"] == b"127.0.0.1:6650"
    assert headers["danube-topic-offset"] == b"2"
    assert headers["trace"] == b"abc"
    assert headers.get("danube-schema-id") == (b"3" if year == 2026 else None)
    assert not found.torn + found.corrupt + found.gaps


def test_blipmq() -> None:
    found = read(BLIPMQ, sample("blipmq.wal"))
    assert [(r.number, r.topic, r.value, r.headers) for r in found.records] == [
        (1, "demo", b"hi", (("blipmq-qos", b"1"),)),
        (2, "demo", b'{"n":2}', (("blipmq-qos", b"1"),)),
        (3, "other/topic", bytes(range(256)), (("blipmq-qos", b"0"),)),
    ]
    assert not found.torn + found.corrupt + found.gaps


@pytest.mark.parametrize("how", ["with", "without"])
def test_airunner(how: str) -> None:
    found = read(AIRUNNER, sample(f"airunner-length-{how}-itself.wal"))
    assert [(r.number, r.topic, r.value, r.time_ms, dict(r.headers)["airunner-status"]) for r in found.records] == [
        (1, None, b"test event", MS, b"pending"),
        (2, None, bytes(range(200)), MS + 500, b"sent"),
        (3, None, b"x" * 2048, MS + 1000, b"failed"),
    ]
    assert not found.torn + found.corrupt


@pytest.mark.parametrize(
    ("name", "door"),
    [
        ("driftq.wal", DRIFTQ),
        ("danube-2025/wal.log", DANUBE),
        ("danube-2026/wal.1.log", DANUBE),
        ("blipmq.wal", BLIPMQ),
        ("airunner-length-with-itself.wal", AIRUNNER),
        ("airunner-length-without-itself.wal", AIRUNNER),
    ],
)
def test_each_is_recognised(name: str, door: object) -> None:
    assert recognise(memoryview(sample(name))) is door


def test_our_writers_write_what_the_samples_are() -> None:
    orders = [
        writers.frame(
            n,
            writers.danube_payload(
                b'{"order":%d}' % n,
                n,
                request=1000 + n,
                time_ms=MS + n,
                attributes=[("trace", "abc")],
                layout=2026,
                schema=(3, 1),
                key="user:1",
            ),
        )
        for n in range(3)
    ]
    assert b"".join(orders) == sample("danube-2026/wal.log")
    blip = writers.blipmq([("demo", b"hi"), ("demo", b'{"n":2}')])
    assert sample("blipmq.wal").startswith(blip)
    record = writers.airunner_record(1, b"test event", with_itself=False, time_ms=MS)
    assert sample("airunner-length-without-itself.wal").startswith(writers.AIRUNNER_HEADER + record)
