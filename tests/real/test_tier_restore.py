"""A disk that is gone, with everything that was not in the store yet: what the store knows is found again there."""

import shutil
import time
from pathlib import Path
from typing import Any

from tests.real.served import until
from tests.real.tier_broker import TierBroker, numbers

FAR = 1 << 40  # where a partition goes on


def lose_journal(broker: TierBroker) -> TierBroker:
    """Kill a broker, take its journal away, and start it again."""
    broker.kill()
    shutil.rmtree(broker.data / "journal")
    return broker.start()


def sent_by_number(broker: TierBroker, sequence: int) -> Any:
    asked = {"topic": "t", "value": f"{sequence}", "partition": 0}
    return broker.ask("POST", "/v1/produce", {**asked, "producer_id": "p", "epoch": 1, "sequence": sequence}).json


def test_a_broker_on_an_empty_disk_finds_everything_again_and_goes_on_above(tmp_path: Path) -> None:
    with TierBroker(tmp_path) as broker:
        broker.create("empty", 8, retention_ms=86_400_000)
        broker.create("t", 2, max_buffered_messages=1_000_000)
        assert [sent_by_number(broker, number)["offset"] for number in range(5)] == list(range(5))
        broker.send_numbered("t", 0, 100, partition=1)
        assert len(broker.lease("t", "g")) == 105
        broker.ack("t", "g", 0, 0, 1, 4)
        broker.ack("t", "g", 1, *range(98))
        assert broker.ask("PATCH", "/v1/groups/t/slow", {"max_attempts": 3, "mode": "ordered"}).status in (200, 201)
        assert broker.ask("PUT", "/v1/readers/t/r", {"offsets": {"1": 50}}).status == 200
        broker.rest("t").marked("t")
        topics = {name: broker.topic(name) for name in ("empty", "t")}
        slow = broker.group("t", "slow")["settings"]
        broker.send("t", "not shipped", partition=1)  # acknowledged, and lost with the disk
        lose_journal(broker)

        for name, before in topics.items():
            now = broker.topic(name)
            assert {**now, "partitions": 0} == {**before, "partitions": 0}
            assert len(now["partitions"]) == len(before["partitions"])
        assert [one["end_offset"] for one in broker.partitions("empty")] == [FAR] * 8
        assert broker.offsets("t", 0) == list(range(5))
        assert numbers(broker.values("t", 1)) == list(range(100))
        assert broker.group("t", "slow")["settings"] == slow
        assert broker.ask("GET", "/v1/readers/t/r").json["offsets"] == {"1": 50}
        assert broker.ask("GET", "/v1/readers/t/r").json["lag"] == 5 + 50
        assert broker.group("t", "g")["lag"] == 4
        left = broker.lease("t", "g")
        assert sorted((m["partition"], m["offset"]) for m in left) == [(0, 2), (0, 3), (1, 98), (1, 99)]

        assert sent_by_number(broker, 4)["offset"] == 4, "a repeat is still one"
        assert sent_by_number(broker, 5)["offset"] == FAR
        assert broker.send("t", "after", partition=1) == FAR
        broker.ack("t", "g", 0, 2, 3)
        found = broker.lease_all("t", "g", 2)
        assert sorted((m["offset"], m["value"]) for m in found) == [(FAR, "5"), (FAR, "after")]
        assert numbers(broker.values("t", 0)) == list(range(6))
        broker.rest("t").again()
        assert broker.offsets("t", 0) == [*range(5), FAR]


def test_a_hole_is_shown_passed_over_and_counts_for_nothing(tmp_path: Path) -> None:
    with TierBroker(tmp_path) as broker:
        broker.create("t")
        broker.send_numbered("t", 0, 10)
        assert len(broker.lease("t", "g", max_messages=4)) == 4
        broker.ack("t", "g", 0, 0, 1, 2, 3)
        broker.rest("t").marked("t")
        lose_journal(broker)
        broker.send_numbered("t", 10, 20)
        info = broker.partitions("t")[0]
        assert info["holes"] == [[10, FAR]]
        assert info["end_offset"] == FAR + 10
        spans = broker.ask("GET", "/v1/spans", topic="t").json["spans"]
        assert [(span["start"], span["end"], span["source"]) for span in spans] == [
            (0, 10, "object"),
            (10, FAR, "hole"),
            (FAR, FAR + 10, "broker"),
        ]
        assert broker.ask("GET", "/v1/topics").json["topics"][0]["messages"] == 20
        begun = time.monotonic()
        assert numbers(broker.values("t")) == list(range(20))
        assert broker.offsets("t", offset=5_000) == list(range(FAR, FAR + 10))
        assert broker.offsets("t", offset=8, limit=4) == [8, 9, FAR, FAR + 1]
        assert broker.offsets("t", offset=FAR + 9) == [FAR + 9]
        for group, start, left in (("g", None, 16), ("new", "earliest", 20), ("inside", "77", 10)):
            asked = {} if start is None else {"start": start}
            broker.ask("PATCH", f"/v1/groups/t/{group}", asked)
            assert broker.group("t", group)["lag"] == left
            assert numbers([m["value"].encode() for m in broker.lease("t", group)]) == list(range(20 - left, 20))
            broker.ack("t", group, 0, *[n for n in range(20 - left, 10)], *range(FAR, FAR + 10))
            assert broker.group("t", group)["lag"] == 0
            assert broker.group("t", group)["partitions"][0]["floor"] == FAR + 10
        assert broker.ask("POST", "/v1/groups/t/new/seek", {"to": "9"}).status in (200, 204)
        assert broker.group("t", "new")["lag"] == 11
        assert time.monotonic() - begun < 20


def test_a_disk_that_is_lost_again_and_again_leaves_holes_that_do_not_overlap(tmp_path: Path) -> None:
    with TierBroker(tmp_path) as broker:
        broker.create("t")
        broker.send_numbered("t", 0, 10)
        broker.lease("t", "g", max_messages=1)
        broker.rest("t").marked("t")
        lose_journal(broker)
        assert broker.send("t", "10") == FAR
        lose_journal(broker)
        lose_journal(broker)
        assert broker.ask("GET", "/v1/topics").json["topics"][0]["messages"] == 10
        assert broker.group("t", "g")["lag"] == 10
        first = broker.send("t", "11")
        assert first >= 2 * FAR
        holes = broker.partitions("t")[0]["holes"]
        ends = [end for hole in holes for end in hole]
        assert ends == sorted(ends)
        assert (ends[0], ends[-1]) == (10, first)
        assert broker.ask("GET", "/v1/topics").json["topics"][0]["messages"] == 11
        assert broker.group("t", "g")["lag"] == 11
        assert numbers(broker.values("t")) == [*range(10), 11]
        spans = broker.ask("GET", "/v1/spans", topic="t").json["spans"]
        assert [span["end"] for span in spans[:-1]] == [span["start"] for span in spans[1:]]


def test_after_a_clean_stop_nothing_is_missing_on_an_empty_disk(tmp_path: Path) -> None:
    with TierBroker(tmp_path) as broker:
        broker.create("t")
        broker.create("unborn", 3)
        broker.send_numbered("t", 0, 10)
        broker.rest("t")
        assert broker.stop() == 0
        shutil.rmtree(tmp_path / "journal")
        broker.start()
        assert "holes" not in broker.partitions("t")[0]
        assert [one["end_offset"] for one in broker.partitions("unborn")] == [0, 0, 0]
        assert broker.send("t", "10") == 10
        assert numbers(broker.values("t")) == list(range(11))


def test_of_two_snapshots_one_may_be_damaged(tmp_path: Path) -> None:
    with TierBroker(tmp_path) as broker:
        broker.create("t")
        broker.send_numbered("t", 0, 10)
        broker.marked("t")
        broker.send_numbered("t", 10, 20)
        broker.rest("t").marked("t")
        broker.kill()
        shutil.rmtree(tmp_path / "journal")
        flip(tmp_path / "tier" / broker.snapshots()[-1])
        broker.start()
        assert numbers(broker.values("t")) == list(range(20))
        assert broker.send("t", "20") == FAR


def flip(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.chmod(0o600)
    path.write_bytes(content)


def files(tier: Path) -> set[str]:
    return {str(path.relative_to(tier)) for path in tier.glob("topics/**/*") if path.is_file()}


def test_without_a_whole_snapshot_a_new_journal_is_refused_and_no_object_goes(tmp_path: Path) -> None:
    with TierBroker(tmp_path) as broker:
        broker.create("t")
        broker.send_numbered("t", 0, 10)
        broker.rest("t").marked("t")
        broker.kill()
        shutil.rmtree(tmp_path / "journal")
        for name in broker.snapshots():
            flip(tmp_path / "tier" / name)
        before = files(tmp_path / "tier")
        code, said = broker.refused()
        assert code in (1, 65), said
        assert ".snapshot" in said
        assert files(tmp_path / "tier") == before


def test_what_retention_deleted_is_deleted_on_an_empty_disk_too(tmp_path: Path) -> None:
    # It takes seconds until a snapshot is due: nothing may go before.
    with TierBroker(tmp_path, tier_interval_s=3) as broker:
        broker.create("t")
        broker.send_numbered("t", 0, 4_000, 1_000)
        until(lambda: broker.partitions("t")[0].get("objects", 0) >= 3, "three objects")
        before = len(broker.stored()[("t", 0)])
        assert broker.ask("PATCH", "/v1/topics/t", {"retention_bytes": 1_500_000}).status == 200
        until(lambda: len(broker.stored()[("t", 0)]) < before, "objects go")
        lose_journal(broker)
        found = broker.offsets("t")
        assert found[0] > 0
        assert found == list(range(found[0], found[-1] + 1))
        assert broker.partitions("t")[0]["start_offset"] == found[0]


def test_a_topic_that_was_deleted_stays_so_on_an_empty_disk(tmp_path: Path) -> None:
    with TierBroker(tmp_path, tier_interval_s=3) as broker:
        broker.create("t")
        broker.create("other")
        broker.send_numbered("t", 0, 2_000, 1_000)
        until(lambda: broker.partitions("t")[0].get("objects", 0) >= 1, "an object")
        assert broker.ask("DELETE", "/v1/topics/t").status in (200, 204)
        until(lambda: not broker.stored(), "its objects go")
        lose_journal(broker)
        assert [topic["name"] for topic in broker.ask("GET", "/v1/topics").json["topics"]] == ["other"]


def test_an_object_that_is_missing_when_the_disk_is_lost_is_a_hole(tmp_path: Path) -> None:
    with TierBroker(tmp_path, tier_interval_s=3600) as broker:
        broker.create("t")
        broker.named("t")
        snapshots = [tmp_path / "tier" / name for name in broker.snapshots()]
        kept = {path: path.read_bytes() for path in snapshots}
        broker.send_numbered("t", 0, 4_000, 1_000)
        until(lambda: broker.partitions("t")[0].get("objects", 0) >= 3, "three objects")
        broker.kill()
        # The snapshots after it are lost, and so is an object in the middle.
        for name in broker.snapshots():
            (tmp_path / "tier" / name).unlink()
        for path, content in kept.items():
            path.write_bytes(content)
        middle = sorted(broker.stored()[("t", 0)], key=lambda one: one.first)[1]
        (tmp_path / "tier" / middle.name).unlink()
        shutil.rmtree(tmp_path / "journal")
        broker.start()
        found = broker.offsets("t")
        assert middle.first not in found
        assert found[0] == 0
        assert found[-1] > middle.end
        assert [middle.first, middle.end] in broker.partitions("t")[0]["holes"]
        assert len(broker.lease("t", "g", max_messages=10_000)) == 1_000
        assert broker.group("t", "g")["lag"] == len(found)


def test_a_journal_whose_history_is_elsewhere_is_refused(tmp_path: Path) -> None:
    with TierBroker(tmp_path) as broker:
        broker.create("t")
        broker.send_numbered("t", 0, 10)
        broker.rest("t")
        assert broker.stop() == 0
        for elsewhere in (str(tmp_path / "another"), "none"):
            code, said = TierBroker(tmp_path, tier=elsewhere).refused()
            assert code in (1, 2), said
            assert "history" in said
        broker.start()
        assert numbers(broker.values("t")) == list(range(10))
