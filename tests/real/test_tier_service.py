"""What a broker says of its tier, and does for those who work on it: replace, health, metrics, modes of sync."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cordwood.spark.pipelines.compact import join
from tests.conftest import skip_for_want_of
from tests.real.served import until
from tests.real.tier_broker import TierBroker, numbers


def metrics(broker: TierBroker) -> dict[str, float]:
    lines = broker.ask("GET", "/metrics").body.decode().splitlines()
    found = (line.rsplit(" ", 1) for line in lines if line.startswith("cordwood_tier"))
    return {name: float(value) for name, value in found}


def objects_of(broker: TierBroker, topic: str) -> list[str]:
    spans = broker.ask("GET", f"/v1/spans?topic={topic}").json["spans"]
    return [span["object"] for span in spans if span["source"] == "object"]


def swap(broker: TierBroker, names: list[str], name: str, topic: str = "t") -> Any:
    return broker.ask("POST", f"/v1/topics/{topic}/replace", {"partition": 0, "objects": names, "replacement": name})


def test_a_run_of_objects_is_swapped_for_one_that_has_their_messages(tmp_path: Path) -> None:
    with TierBroker(tmp_path) as broker:
        broker.create("t")
        broker.create("u")
        for at in range(3):
            broker.send_numbered("t", at * 100, at * 100 + 100)
            broker.rest("t")
        names = objects_of(broker, "t")
        assert len(names) == 3
        before = broker.table("t")
        one = join(broker.url, names[1:])
        assert swap(broker, names, one).status == 409, "the first is not in it"
        assert swap(broker, names[1:2], one).status == 409
        assert swap(broker, names[1:], one, topic="u").status == 409
        assert swap(broker, ["nothing"], one).status == 400
        missing = one.replace(one[-12:-8], "0000")
        refused = swap(broker, names[1:], missing)
        assert (refused.status, "put it, and then replace" in refused.json["message"]) == (409, True)
        assert objects_of(broker, "t") == names, "nothing came of all that"
        assert swap(broker, names[1:], one).status == 200
        assert swap(broker, names[1:], one).status == 200, "to say it again changes nothing"
        assert objects_of(broker, "t") == [names[0], one]
        assert broker.table("t").equals(before)
        broker.again()
        assert objects_of(broker, "t") == [names[0], one]
        assert broker.table("t").equals(before)
        there = {entry.name for entry in broker.objects.list("topics/")}
        assert set(names[1:]) <= there, "whoever reads the old ones may finish"


def test_an_object_that_was_put_for_nothing_is_collected_under_the_next_claim(tmp_path: Path) -> None:
    with TierBroker(tmp_path) as broker:
        broker.create("t")
        for at in range(2):
            broker.send_numbered("t", at * 10, at * 10 + 10)
            broker.rest("t")
        one = join(broker.url, objects_of(broker, "t"))
        broker.again()
        until(lambda: one not in {entry.name for entry in broker.objects.list("topics/")}, "it is collected")
        assert numbers(broker.values("t")) == list(range(20))


def test_without_a_sync_only_what_survives_a_power_cut_is_shipped_and_all_of_it_is_there(tmp_path: Path) -> None:
    with TierBroker(tmp_path, sync="never") as broker:
        broker.create("t")
        broker.send_numbered("t", 0, 700, 1_000)
        broker.rest("t")
        assert len(objects_of(broker, "t")) >= 1
        broker.again()
        assert numbers(broker.values("t")) == list(range(700))
        broker.send_numbered("t", 700, 800)
        broker.rest("t")
        assert numbers(broker.values("t")) == list(range(800))


def test_a_state_that_is_larger_than_a_segment_is_found_again_on_an_empty_disk(tmp_path: Path) -> None:
    def send(broker: TierBroker, first: int, end: int) -> Any:
        """Send messages with keys that the broker remembers: some thirty bytes of its state for each."""
        body = "".join(f'{{"value":"{n}","idempotency_key":"{n}"}}\n' for n in range(first, end)).encode()
        kind = {"Content-Type": "application/x-ndjson"}
        return broker.fetch("POST", "/v1/produce", body, kind, topic="t").json

    count = 60_000
    with TierBroker(tmp_path / "a", tier=str(tmp_path / "tier"), segment_bytes=4 << 20) as broker:
        broker.create("t")
        for at in range(0, count, 10_000):
            assert send(broker, at, at + 10_000)["count"] == 10_000
        broker.rest("t")
        broker.stop()
        assert broker.objects.size(broker.snapshots()[-1]) > 1 << 20
    with TierBroker(tmp_path / "b", tier=str(tmp_path / "tier")) as broker:
        assert numbers(broker.values("t")) == list(range(count))
        assert send(broker, count - 10, count + 5)["duplicates"] == 10
        broker.again()
        assert numbers(broker.values("t"))[-1] == count + 4


def test_a_store_with_objects_and_no_snapshot_is_refused_and_left_alone(tmp_path: Path) -> None:
    with TierBroker(tmp_path / "a", tier=str(tmp_path / "tier")) as broker:
        broker.create("t")
        broker.send_numbered("t", 0, 10)
        broker.rest("t")
        broker.stop()
        objects = broker.objects
    there = [entry.name for entry in objects.list("topics/")]
    objects.delete([entry.name for entry in objects.list("state/") if entry.name.endswith(".snapshot")])
    code, said = TierBroker(tmp_path / "b", tier=str(tmp_path / "tier")).refused()
    assert (code, "no snapshot that names them" in said) == (1, True), said
    assert [entry.name for entry in objects.list("topics/")] == there


@pytest.fixture
def small_store(tmp_path: Path) -> Iterator[Path]:
    """A directory with room for 4 MiB."""
    if os.geteuid() != 0:
        skip_for_want_of("root, to mount a tmpfs")
    (tmp_path / "tier").mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(tmp_path / "tier")]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        skip_for_want_of(f"the right to mount a tmpfs ({mounted.stderr.strip()})")
    yield tmp_path / "tier"
    subprocess.run(["umount", str(tmp_path / "tier")], check=True)


def fill(store: Path) -> Path:
    filler = store / "filler"
    with pytest.raises(OSError, match="No space"):
        filler.write_bytes(bytes(8 << 20))
    return filler


def test_a_full_store_is_told_and_the_broker_goes_on_and_catches_up(small_store: Path, tmp_path: Path) -> None:
    with TierBroker(tmp_path / "data", tier=str(small_store)) as broker:
        broker.create("t")
        broker.send_numbered("t", 0, 100)
        broker.rest("t")
        assert metrics(broker)["cordwood_tier_available"] == 1
        assert metrics(broker)["cordwood_tier_backlog_bytes"] == 0
        filler = fill(small_store)
        broker.send_numbered("t", 100, 600, 1_000)
        until(lambda: metrics(broker)["cordwood_tier_available"] == 0, "a metric says so")
        health = broker.ask("GET", "/v1/healthz")
        assert (health.status, health.json["status"]) == (200, "ok"), "producers do not depend on the store"
        assert "No space" in str(health.json["tier"])
        told = metrics(broker)
        assert told["cordwood_tier_backlog_bytes"] > 400_000
        assert told["cordwood_tier_failures_total"] >= 1
        broker.again()  # a journal that had this store goes on without it
        assert numbers(broker.values("t", offset=100)) == list(range(100, 600))
        broker.send_numbered("t", 600, 700)
        assert "No space" in str(broker.ask("GET", "/v1/healthz").json["tier"])
        filler.unlink()
        broker.rest("t")
        assert numbers(broker.values("t")) == list(range(700))
        assert metrics(broker)["cordwood_tier_available"] == 1
        assert "tier" not in broker.ask("GET", "/v1/healthz").json
