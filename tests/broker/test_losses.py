"""Which messages are lost with damaged frames: named before anything is given up."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.served import Served


def cordwood(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cordwood", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def damage(data: Path, text: bytes) -> None:
    """Flip a bit in every copy of a text."""
    for path in (data / "journal").glob("*.wal"):
        content = bytearray(path.read_bytes())
        place = content.find(text)
        while place >= 0:
            content[place] ^= 1
            place = content.find(text, place + 1)
        path.write_bytes(content)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A log of 30 messages of 100 kB in several segments; numbers 3 and 25 of partition 1 are damaged."""
    with Served(tmp_path, "--set", "segment_bytes=1048576") as broker:
        broker.create("t", 2)
        for number in range(30):
            broker.send("t", f"message {number:02} " + "x" * 100_000, partition=1)
        broker.send("t", "fine", partition=0)
        assert broker.stop() == 0
    damage(tmp_path, b"message 03 ")
    damage(tmp_path, b"message 25 ")
    return tmp_path


def test_a_refused_start_names_the_offsets(damaged: Path) -> None:
    done = cordwood("serve", "--data", damaged, "--port", 0)
    assert done.returncode == 65
    assert "topic t, partition 1, offset 3" in done.stderr


def test_a_repair_says_what_each_choice_loses(damaged: Path) -> None:
    done = cordwood("wal", "repair", damaged)
    assert done.returncode == 65
    assert "topic t, partition 1, offset 3; topic t, partition 1, offset 25" in done.stdout
    assert "partition 1, offsets 3 to 29" in done.stdout, "truncate gives up all that follows"


def test_quarantine_gives_up_what_cannot_be_read_and_starts(damaged: Path) -> None:
    with Served(damaged, "--on-corruption", "quarantine") as broker:
        assert [m["offset"] for m in broker.read("t", 1)] == [n for n in range(30) if n not in (3, 25)]
        assert [m["value"] for m in broker.read("t", 0)] == ["fine"]
        said = "".join(broker.said)
        assert "lost: topic t, partition 1, offset 3" in said
        assert "lost: topic t, partition 1, offset 25" in said
        assert list((damaged / "journal").glob("*.aside")), "a copy is kept"
        got = []
        while len(got) < 28:
            got += [m["offset"] for m in broker.lease("t", "g") if m["partition"] == 1]
        assert sorted(got) == [n for n in range(30) if n not in (3, 25)], "a group goes over what is gone"
        broker.again()
        assert len(broker.read("t", 1)) == 28


def test_truncate_gives_up_everything_behind_and_starts(damaged: Path) -> None:
    with Served(damaged, "--on-corruption", "truncate") as broker:
        assert [m["offset"] for m in broker.read("t", 1)] == [0, 1, 2]
        assert "partition 1, offsets 3 to 29" in "".join(broker.said)
        assert broker.send("t", "new", partition=1) == 3


def test_a_segment_that_is_missing_at_the_beginning_is_noticed(tmp_path: Path) -> None:
    with Served(tmp_path, "--set", "segment_bytes=1048576") as broker:
        broker.create("t")
        for number in range(30):
            broker.send("t", f"message {number:02} " + "x" * 100_000)
        assert broker.stop() == 0
    first = min((tmp_path / "journal").glob("*.wal"), key=lambda path: int(path.stem))
    first.rename(tmp_path / "elsewhere")
    done = cordwood("serve", "--data", tmp_path, "--port", 0)
    assert done.returncode == 65, done
    assert "t/0: 0 to 0" in done.stderr
    (tmp_path / "elsewhere").rename(first)
    with Served(tmp_path) as broker:
        assert len(broker.read("t")) == 30


def test_what_is_given_up_gives_no_offset_a_second_content(tmp_path: Path) -> None:
    """Staged and published: the offsets are those that were acknowledged, also when the staged frame is lost."""
    with Served(tmp_path) as broker:
        broker.create("t")
        for batch in (1, 2):
            staged = {"topic": "t", "value": f"of batch {batch}", "writer": "w", "batch": batch}
            body = {"value": staged.pop("value")}
            assert broker.ask("POST", "/v1/stage", body, **staged).status == 200
            published = broker.ask("POST", "/v1/publish", {"writer": "w", "batch": batch}).json
            assert published["results"][0]["first_offset"] == batch - 1
        assert broker.stop() == 0
    damage(tmp_path, b"of batch 1")
    with Served(tmp_path, "--on-corruption", "quarantine") as broker:
        assert "lost: topic t, partition 0, offset 0" in "".join(broker.said)
        assert [(m["offset"], m["value"]) for m in broker.read("t")] == [(1, "of batch 2")]
        assert broker.send("t", "next") == 2


def test_a_log_whose_first_frame_is_given_up_starts(tmp_path: Path) -> None:
    with Served(tmp_path) as broker:
        broker.create("the-lost-topic")
        broker.send("the-lost-topic", "x")
        broker.create("other")
        broker.send("other", "kept")
        assert broker.stop() == 0
    path = min((tmp_path / "journal").glob("*.wal"))
    content = bytearray(path.read_bytes())
    content[content.find(b"the-lost-topic")] ^= 1
    path.write_bytes(content)
    with Served(tmp_path, "--on-corruption", "quarantine") as broker:
        assert [m["value"] for m in broker.read("other")] == ["kept"]
