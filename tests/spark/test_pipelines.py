"""Compaction joins objects without anybody noticing; a scrub notices a single bit."""

from pathlib import Path
from typing import Any

import pytest

from cordwood.client.client import Client
from cordwood.errors import Conflict
from cordwood.spark.pipelines.compact import Small, compact, counted, runs
from cordwood.spark.pipelines.scrub import gaps, page, scrub
from cordwood.tier.descriptor import Descriptor
from tests.spark.conftest import Kept


def small(first: int, end: int, size: int, partition: int = 0) -> Small:
    return Small(Descriptor("t", "00aa", partition, first, end, 1, 0, end - first, 1), size)


@pytest.mark.parametrize(
    ("objects", "joined"),
    [
        ([small(0, 5, 10), small(5, 9, 10)], [[0, 5]]),
        ([small(0, 5, 10), small(6, 9, 10)], []),
        ([small(0, 5, 10), small(5, 9, 10, partition=1)], []),
        ([small(0, 5, 10), small(5, 9, 51), small(9, 12, 10), small(12, 13, 1)], [[9, 12]]),
        ([small(0, 1, 40), small(1, 2, 40), small(2, 3, 40), small(3, 4, 40)], [[0, 1], [2, 3]]),
        ([], []),
    ],
)
def test_only_small_neighbours_of_one_partition_are_joined(objects: list[Small], joined: list[list[int]]) -> None:
    assert [[one.descriptor.first for one in run] for run in runs(objects, 100)] == joined


def test_offsets_that_nothing_holds_are_found() -> None:
    held = [
        {"partition": 0, "start": 0, "end": 5, "source": "object"},
        {"partition": 0, "start": 7, "end": 9, "source": "broker"},
        {"partition": 1, "start": 3, "end": 9, "source": "hole"},
    ]
    assert [(one.partition, one.first, one.end) for one in gaps("t", held)] == [(0, 5, 7), (1, 3, 9)]


def tiered(kept: Kept, name: str, messages: int) -> None:
    """Fill a topic with several objects."""
    kept.topic(name, partitions=2)
    for start in range(0, messages, messages // 4):
        for number in range(start, start + messages // 4):
            kept.client.produce(name, f"value {number}", partition=number % 2)
        kept.tiered(name)


def test_compaction_changes_no_message_and_a_second_one_finds_nothing_to_do(spark: Any, kept: Kept) -> None:
    tiered(kept, "compacted", 40)
    before = [(m.partition, m.offset, m.value) for m in kept.client.read("compacted")]
    found = compact(spark, kept.endpoint, "compacted")
    assert found.objects_before > found.objects_after == 2
    assert found.messages == 40
    assert [(m.partition, m.offset, m.value) for m in kept.client.read("compacted")] == before
    assert compact(spark, kept.endpoint, "compacted").runs == 0
    assert scrub(spark, kept.endpoint, ["compacted"]).clean


def objects(kept: Kept, topic: str) -> set[str]:
    """Return the objects of a topic that are in the store."""
    return {path.name for path in (kept.data / "tier" / "topics" / topic).rglob("*.parquet")}


def test_an_object_that_was_swapped_in_is_kept_though_the_broker_says_no_the_second_time(
    spark: Any, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiered(kept, "swapped", 40)
    before = [(m.partition, m.offset, m.value) for m in kept.client.read("swapped")]
    replace = Client.replace

    def twice(self: Client, *asked: Any) -> Any:
        replace(self, *asked)
        raise Conflict("its answer was lost, and it was said again")

    monkeypatch.setattr(Client, "replace", twice)
    found = compact(spark, kept.endpoint, "swapped")
    assert (found.passed_over, found.objects_after) == (0, 2)
    named = {span["object"].rpartition("/")[2] for span in kept.client.spans("swapped") if span["source"] == "object"}
    assert named <= objects(kept, "swapped")
    assert [(m.partition, m.offset, m.value) for m in kept.client.read("swapped")] == before
    assert scrub(spark, kept.endpoint, ["swapped"]).clean


def test_what_later_compactions_made_of_an_object_says_that_it_counted() -> None:
    old, new, later = (Descriptor("t", "00aa", 0, 0, 5, 1, generation, 5, 1) for generation in (0, 1, 2))
    assert not counted(new, [old])
    assert not counted(new, [])
    assert counted(new, [new])
    assert counted(new, [later])


def test_an_object_that_was_not_swapped_in_is_deleted_again(
    spark: Any, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiered(kept, "refused", 40)
    before = objects(kept, "refused")

    def refuse(self: Client, *asked: Any) -> Any:
        raise Conflict("retention came first")

    monkeypatch.setattr(Client, "replace", refuse)
    found = compact(spark, kept.endpoint, "refused")
    assert (found.runs, found.passed_over, found.objects_after) == (2, 2, found.objects_before)
    assert objects(kept, "refused") == before


def test_a_scrub_counts_keys_in_another_partition_than_their_own(spark: Any, kept: Kept) -> None:
    topic = kept.topic("elsewhere", 3)
    for partition in (0, 1, 2):
        for key in ("user:1", "user:2", "order-123"):  # of partitions 1, 0 and 1
            kept.client.produce(topic, "x", key=key, partition=partition)
        kept.client.produce(topic, "has no key", partition=partition)
    kept.tiered(topic)
    found = scrub(spark, kept.endpoint, [topic])
    assert (found.clean, found.messages, found.keys_elsewhere) == (True, 12, 6)
    assert "6 keys in another partition" in page(found)


def test_a_scrub_names_the_object_with_a_flipped_bit(spark: Any, kept: Kept) -> None:
    tiered(kept, "scrubbed", 40)
    found = scrub(spark, kept.endpoint, ["scrubbed"])
    assert (found.clean, found.messages) == (True, 40)
    assert "Nothing is wrong" in page(found)
    name = next(span["object"] for span in kept.client.spans("scrubbed") if span["source"] == "object")
    path = kept.data / "tier" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    _check_damage(scrub(spark, kept.endpoint, ["scrubbed"]), name)
    path.unlink()
    _check_damage(scrub(spark, kept.endpoint, ["scrubbed"]), name)


def _check_damage(found: Any, name: str) -> None:
    (finding,) = found.findings
    assert finding.object == name
    assert Path(name).name in page(found)
