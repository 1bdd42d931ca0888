"""The ways in which earlier brokers lost data, each tried on a real process with a real kill -9."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.conftest import skip_for_want_of
from tests.real.served import Served, until


def offsets(messages: list[dict[str, object]]) -> list[object]:
    return [message["offset"] for message in messages]


def values(messages: list[dict[str, object]]) -> list[object]:
    return [message["value"] for message in messages]


def test_after_an_ack_out_of_order_and_a_kill_the_ones_before_come_again(tmp_path: Path) -> None:
    with Served(tmp_path) as broker:
        broker.create("t")
        for number in range(8):
            broker.send("t", f"m{number}")
        assert len(broker.lease("t", "g")) == 8
        broker.ack("t", "g", 0, 0, 1, 2, 5, 7)
        broker.again()
        again = broker.lease("t", "g")
        assert offsets(again) == [3, 4, 6]
        assert values(again) == ["m3", "m4", "m6"]
        assert [message["attempts"] for message in again] == [2, 2, 2]


def test_messages_that_nobody_consumed_before_a_restart_are_delivered_after_it(tmp_path: Path) -> None:
    with Served(tmp_path) as broker:
        broker.create("t", 2)
        for number in range(10):
            broker.send("t", f"m{number}", partition=number % 2)
        broker.again()
        assert sorted(map(str, values(broker.lease("t", "new")))) == [f"m{number}" for number in range(10)]


def test_offset_0_is_read(tmp_path: Path) -> None:
    with Served(tmp_path) as broker:
        broker.create("t")
        assert broker.send("t", "first") == 0
        broker.again()
        assert offsets(broker.read("t", offset=0)) == [0]


def test_a_torn_tail_then_new_messages_then_a_restart_and_all_are_there(tmp_path: Path) -> None:
    random = Random(7)
    with Served(tmp_path) as broker:
        broker.create("t")
        sent = [broker.send("t", f"m{number}") for number in range(20)]
        for round_ in range(3):
            broker.kill()
            newest = max((tmp_path / "journal").glob("*.wal"), key=lambda path: int(path.stem))
            with newest.open("r+b") as file:
                content = file.read()
                end = len(content.rstrip(b"\0"))
                file.seek(end + 8)
                file.write(random.randbytes(200))  # a write that a power cut left in pieces
            broker.start()
            sent.append(broker.send("t", f"after {round_}"))
        broker.again()
        assert offsets(broker.read("t")) == sent == list(range(23))


def test_a_flipped_bit_in_an_acknowledged_message_is_found_and_named(tmp_path: Path) -> None:
    with Served(tmp_path) as broker:
        broker.create("t")
        for number in range(20):
            broker.send("t", f"message number {number}")
        assert broker.stop() == 0
    for path in (tmp_path / "journal").glob("*.wal"):
        content = bytearray(path.read_bytes())
        place = content.find(b"message number 7")
        if place >= 0:
            content[place + 3] ^= 4
            path.write_bytes(content)
    before = {path.name: path.read_bytes() for path in (tmp_path / "journal").iterdir()}
    done = subprocess.run(
        [sys.executable, "-m", "cordwood", "serve", "--data", tmp_path, "--port", "0"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 65, done
    assert ".wal, byte" in done.stderr
    assert "LSN" in done.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "journal").iterdir()} == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 12 MiB."""
    if os.geteuid() != 0:
        skip_for_want_of("root, to mount a tmpfs")
    options = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(tmp_path)]
    mounted = subprocess.run(options, capture_output=True, text=True, check=False)
    if mounted.returncode:
        skip_for_want_of(f"the right to mount a tmpfs ({mounted.stderr.strip()})")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_full_disk_refuses_and_after_space_is_freed_later_messages_survive_a_restart(small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes(5 << 20))
    with Served(small_disk / "data", "--set", "segment_bytes=1048576") as broker:
        broker.create("t")
        taken: list[int] = []
        refused = None
        for number in range(200):
            answer = broker.ask("POST", "/v1/produce", {"topic": "t", "value": f"{number} " + "x" * 50_000})
            if answer.status != 200:
                refused = answer
                break
            taken.append(answer.json["offset"])
        assert refused is not None
        assert (refused.status, refused.json["error"]) == (507, "INSUFFICIENT_STORAGE")
        assert broker.ask("GET", "/v1/healthz").status == 200
        assert len(broker.read("t")) == len(taken), "reads go on"
        leased = broker.lease("t", "g", max_messages=5)
        broker.ack("t", "g", 0, *[message["offset"] for message in leased])  # and acks, from the reserve
        filler.unlink()
        later = until(
            lambda: [
                answer.json["offset"]
                for _ in range(3)
                if (answer := broker.ask("POST", "/v1/produce", {"topic": "t", "value": "y" * 50_000})).status == 200
            ],
            "it goes on after space was freed",
        )
        broker.again()
        assert offsets(broker.read("t")) == list(range(len(taken) + len(later)))
        rest = broker.lease("t", "g")
        assert not set(offsets(leased)) & set(offsets(rest))


def test_after_a_failed_sync_no_offset_has_two_contents(strace: str, tmp_path: Path) -> None:
    """Every answer is kept; after the restart each acknowledged offset holds what was acknowledged."""
    inject = [strace, "-f", "-qq", "-o", os.devnull, "-e", "trace=fdatasync", "-e"]
    acknowledged: dict[int, str] = {}
    with Served(tmp_path, before=[*inject, "inject=fdatasync:error=EIO:when=40"]) as broker:
        broker.create("t")
        refused = None
        for number in range(200):
            answer = broker.ask("POST", "/v1/produce", {"topic": "t", "value": f"a{number}"})
            if answer.status != 200:
                refused = answer
                break
            acknowledged[answer.json["offset"]] = f"a{number}"
        assert refused is not None
        assert (refused.status, refused.json["error"]) == (503, "UNAVAILABLE")
        assert broker.ask("GET", "/v1/healthz").status == 503
        assert broker.ask("POST", "/v1/produce", {"topic": "t", "value": "later"}).status == 503
        assert values(broker.read("t")) == list(acknowledged.values()), "reads go on, with what is acknowledged"
        assert broker.topic("t")["partitions"][0]["end_offset"] == len(acknowledged)
    with Served(tmp_path) as broker:
        assert values(broker.read("t")) == list(acknowledged.values())
        assert broker.send("t", "new") == len(acknowledged)


def test_offsets_go_on_after_a_restart_over_rotated_segments(tmp_path: Path) -> None:
    with Served(tmp_path, "--set", "segment_bytes=1048576") as broker:
        broker.create("t")
        for _ in range(60):
            broker.send("t", "y" * 50_000)
        assert len(list((tmp_path / "journal").glob("*.wal"))) > 2
        broker.again()
        assert broker.topic("t")["partitions"][0]["end_offset"] == 60
        assert broker.send("t", "next") == 60
        assert offsets(broker.read("t")) == list(range(61))


def test_a_topic_of_8_partitions_without_messages_keeps_8(tmp_path: Path) -> None:
    with Served(tmp_path) as broker:
        broker.create("t", 8)
        broker.again()
        assert [p["partition"] for p in broker.topic("t")["partitions"]] == list(range(8))


def test_attempts_survive_kills_so_poison_reaches_the_dead_letters(tmp_path: Path) -> None:
    with Served(tmp_path) as broker:
        broker.create("t")
        broker.send("t", "poison", headers={"trace": "abc"})
        group = {"max_attempts": 3, "backoff_ms": 0, "lease_ms": 60_000}
        assert broker.ask("PATCH", "/v1/groups/t/g", group).status == 200
        for attempt in (1, 2):
            (message,) = broker.lease("t", "g")
            assert message["attempts"] == attempt
            broker.again()
        (message,) = broker.lease("t", "g")
        assert message["attempts"] == 3
        asked = {"topic": "t", "group": "g", "partition": 0, "offset": 0, "reason": "it is poison"}
        assert broker.ask("POST", "/v1/nack", asked).status == 204
        (dead,) = until(lambda: broker.read("dlq.t"), "the dead letter")
        assert dead["value"] == "poison"
        assert dead["headers"]["cordwood-error"] == "it is poison"
        assert dead["headers"]["cordwood-attempts"] == "3"
        assert (dead["headers"]["cordwood-topic"], dead["headers"]["cordwood-offset"]) == ("t", "0")
        assert dead["headers"]["trace"] == "abc"
        broker.again()
        assert len(broker.read("dlq.t")) == 1
        assert broker.lease("t", "g", wait_ms=0) == []


def test_a_full_dead_letter_topic_stalls_nobody(tmp_path: Path) -> None:
    with Served(tmp_path) as broker:
        broker.create("t")
        broker.create("dlq.t", max_buffered_messages=1)
        assert broker.ask("PATCH", "/v1/groups/t/g", {"max_attempts": 1}).status == 200
        for number in range(5):
            broker.send("t", f"m{number}")
        for message in broker.lease("t", "g"):
            asked = {"topic": "t", "group": "g", "partition": 0, "offset": message["offset"], "reason": "no"}
            assert broker.ask("POST", "/v1/nack", asked).status == 204
        assert len(broker.read("dlq.t")) == 5
        broker.send("t", "goes on")
        assert values(broker.lease("t", "g")) == ["goes on"]


def test_an_idle_tail_is_synced_without_further_traffic(strace: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    watch = [strace, "-f", "-qq", "-o", str(trace), "-e", "trace=fdatasync"]
    flags = ("--sync", "interval", "--set", "sync_interval_ms=200")
    with Served(tmp_path / "data", *flags, before=watch) as broker:
        broker.create("t")
        until(lambda: broker.ask("GET", "/v1/topics/t").status == 200, "the topic is synced")
        answer = broker.ask("POST", "/v1/produce", {"topic": "t", "value": "alone"})
        assert answer.json["durability"] == "written"
        before = trace.read_text().count("fdatasync")
        until(lambda: trace.read_text().count("fdatasync") > before, "a sync by the timer alone")
        until(lambda: values(broker.read("t")) == ["alone"], "what is synced is visible")


def test_an_abandoned_group_blocks_no_producer_for_ever(tmp_path: Path) -> None:
    with Served(tmp_path) as broker:
        broker.create("t", max_buffered_messages=3, hold_max_ms=300)
        assert broker.lease("t", "left", wait_ms=0) == []
        for number in range(3):
            broker.send("t", f"m{number}")
        answer = broker.ask("POST", "/v1/produce", {"topic": "t", "value": "one too many"})
        if answer.status != 200:  # unless the group was forgotten already, on a slow machine
            assert answer.status == 429
            assert answer.json["reason"] == "partition_buffer_full"
            assert answer.json["error"] == "RESOURCE_EXHAUSTED"
            assert int(answer.headers["Retry-After"]) >= 1
        until(
            lambda: broker.ask("POST", "/v1/produce", {"topic": "t", "value": "later"}).status == 200,
            "the producer goes on",
        )


def test_a_topic_deleted_and_made_again_shows_nothing_of_the_old_one(tmp_path: Path) -> None:
    with Served(tmp_path) as broker:
        broker.create("t", 2)
        for _ in range(5):
            broker.send("t", "old", partition=0)
        broker.ack("t", "g", 0, *offsets(broker.lease("t", "g")))
        old = broker.topic("t")["id"]
        assert broker.ask("DELETE", "/v1/topics/t").status == 204
        assert broker.ask("GET", "/v1/topics/t").status == 404
        broker.create("t")
        assert broker.topic("t")["id"] != old
        assert broker.read("t") == []
        assert broker.send("t", "new") == 0
        broker.again()
        assert values(broker.read("t")) == ["new"]
        assert broker.ask("GET", "/v1/groups/t/g").status == 404
        assert len(broker.topic("t")["partitions"]) == 1


def test_a_moved_data_directory_opens(tmp_path: Path) -> None:
    with Served(tmp_path / "here") as broker:
        broker.create("t")
        for number in range(5):
            broker.send("t", f"m{number}")
        broker.kill()
    shutil.move(tmp_path / "here", tmp_path / "there")
    with Served(tmp_path / "there") as broker:
        assert values(broker.read("t")) == [f"m{number}" for number in range(5)]


def test_the_second_broker_on_a_directory_is_told_to_try_later(tmp_path: Path) -> None:
    with Served(tmp_path) as broker:
        done = subprocess.run(
            [sys.executable, "-m", "cordwood", "serve", "--data", tmp_path, "--port", "0"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 75
        assert broker.ask("GET", "/v1/healthz").status == 200


@pytest.mark.parametrize("call", ["pwritev,pwritev2", "fdatasync", "rename,renameat,renameat2", "fsync", "ftruncate"])
@pytest.mark.parametrize("when", [3, 7, 12])
def test_a_kill_at_any_system_call_loses_nothing(strace: str, tmp_path: Path, call: str, when: int) -> None:
    kill = [strace, "-f", "-qq", "-o", os.devnull, "-e", f"trace={call}"]
    kill += ["-e", f"inject={call}:signal=KILL:when={when}"]
    acknowledged: list[str] = []
    broker = Served(tmp_path, "--set", "segment_bytes=1048576", before=kill)
    try:
        broker.start()
        broker.create("t")
        for number in range(40):
            value = f"{number} " + "x" * 100_000
            broker.send("t", value)
            acknowledged.append(value)
    except (AssertionError, OSError, ConnectionError):
        pass  # it died, as it was told to; some are not called so often
    if broker.process is not None and broker.process.poll() is None:
        broker.kill()
    with Served(tmp_path) as again:
        if acknowledged:
            found = values(again.read("t"))
            assert found[: len(acknowledged)] == acknowledged
            assert len(found) <= len(acknowledged) + 1
