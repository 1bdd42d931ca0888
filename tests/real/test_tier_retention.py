"""What is over goes from the store, too, after it went from the log; what somebody holds stays."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.real.served import until
from tests.real.tier_broker import SCHEMA, TierBroker, numbers, sorted_by_first


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TierBroker]:
    """One for all tests; each has a topic of its own."""
    with TierBroker(tmp_path_factory.mktemp("retention")) as started:
        yield started


def three_objects(broker: TierBroker, topic: str) -> list[Any]:
    """Send messages of three ages, so that there are three objects, and return them."""
    broker.create(topic)
    for part, age in enumerate((timedelta(hours=3), timedelta(hours=2), timedelta())):
        stamps = pa.array([datetime.now(UTC) - age] * 10, SCHEMA[0].type)
        values = [b"%d " % number + bytes(110_000) for number in range(10 * part, 10 * part + 10)]
        broker.send_table(topic, pa.table({"value": values, "timestamp": stamps}))
    broker.rest(topic)
    found = sorted_by_first(broker.stored()[(topic, 0)])
    assert [(one.first, one.end) for one in found] == [(0, 10), (10, 20), (20, 30)]
    return found


def start(broker: TierBroker, topic: str) -> int:
    return int(broker.partitions(topic)[0]["start_offset"])


def set_topic(broker: TierBroker, topic: str, **settings: object) -> None:
    assert broker.ask("PATCH", f"/v1/topics/{topic}", settings).status == 200


def check_gone(broker: TierBroker, topic: str, objects: list[Any], first: int) -> None:
    """Wait until all below an offset is gone, from the log and from the store, and the rest can be read."""
    until(lambda: start(broker, topic) == first, f"it begins at {first}")
    left = [one.name for one in objects if one.end > first]
    until(lambda: [one.name for one in sorted_by_first(broker.stored()[(topic, 0)])] == left, "objects go")
    assert numbers(broker.values(topic)) == list(range(first, 30))


@pytest.mark.parametrize(
    ("topic", "settings", "first"),
    [("large", {"retention_bytes": 1_500_000}, 20), ("old", {"retention_ms": 9_000_000}, 10)],
)
def test_what_is_too_much_or_too_old_goes_from_the_log_and_then_from_the_store(
    broker: TierBroker, topic: str, settings: dict[str, int], first: int
) -> None:
    objects = three_objects(broker, topic)
    set_topic(broker, topic, **settings)
    check_gone(broker, topic, objects, first)
    broker.again()
    check_gone(broker, topic, objects, first)


def test_what_every_group_has_done_goes_if_the_topic_says_so(broker: TierBroker) -> None:
    objects = three_objects(broker, "acked")
    for group in ("a", "b"):
        assert len(broker.lease_all("acked", group, 30)) == 30
    broker.ack("acked", "a", 0, *range(30))
    broker.ack("acked", "b", 0, *range(12), 25)
    set_topic(broker, "acked", discard="acked")
    check_gone(broker, "acked", objects, 12)
    broker.again()
    again = [m["offset"] for m in broker.lease_all("acked", "b", 17)]
    assert again == [n for n in range(12, 30) if n != 25]


@pytest.mark.parametrize("holder", ["group", "reader"])
def test_whoever_has_not_read_it_yet_holds_it_in_the_store(broker: TierBroker, holder: str) -> None:
    objects = three_objects(broker, holder)

    def move(first: int, end: int) -> None:
        if holder == "group":
            broker.ack(holder, "g", 0, *range(first, end))
        else:
            assert broker.ask("PUT", f"/v1/readers/{holder}/r", {"offsets": {"0": end}}).status == 200

    if holder == "group":
        assert len(broker.lease_all(holder, "g", 30)) == 30
    move(0, 10)
    set_topic(broker, holder, retention_bytes=1)
    check_gone(broker, holder, objects, 10)
    time.sleep(1.5)  # several rounds
    check_gone(broker, holder, objects, 10)
    move(10, 20)
    check_gone(broker, holder, objects, 20)


def test_a_deleted_topic_leaves_no_object_and_shows_nothing_when_it_is_made_again(broker: TierBroker) -> None:
    before = three_objects(broker, "t")
    broker.create("other")
    broker.send_numbered("other", 0, 5)
    broker.rest("other")
    assert len(broker.lease_all("t", "g", 30)) == 30
    assert broker.ask("DELETE", "/v1/topics/t").status in (200, 204)
    broker.create("t", 2)
    assert [one["end_offset"] for one in broker.partitions("t")] == [0, 0]
    assert broker.values("t") == []
    broker.send_numbered("t", 100, 105, partition=0)
    broker.rest("t")
    folder: Path = broker.data / "tier" / "topics" / "t" / before[0].topic_id
    until(lambda: not [path for path in folder.glob("**/*") if path.is_file()], "its objects go")
    for killed in (False, True):
        if killed:
            broker.again()
        assert numbers(broker.values("t")) == list(range(100, 105))
        assert broker.topic("t")["groups"] == []
        assert broker.topic("t")["id"] != before[0].topic_id
        assert numbers(broker.values("other")) == list(range(5))
    assert [one.first for one in broker.stored()[("t", 0)]] == [0]
