"""`cordwood outbox`, as a person or a script meets it."""

import json
import os
import pty
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cordwood.client.client import Client
from cordwood.edge.archive import open_archive
from cordwood.edge.facts import Sending
from cordwood.edge.look import look, of_execution, outboxes
from cordwood.edge.outbox import Outbox
from tests.edge.scripted import Scripted

NOBODY = "http://127.0.0.1:9"


def outbox(root: Path, *words: object) -> subprocess.CompletedProcess[str]:
    first, *rest = map(str, words)
    command = [sys.executable, "-m", "cordwood", "outbox", first, "--dir", str(root), *rest]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CORDWOOD_")}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)


def said(root: Path, *words: object) -> Any:
    done = outbox(root, *words, "--json")
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def leave(root: Path, execution: str, topic: str, *values: bytes) -> None:
    """Leave an outbox behind whose process is gone."""
    dead = Outbox(root, execution, topic, NOBODY)
    dead.append_many(values)
    dead.stop(0)


def damage(path: Path) -> None:
    """Flip a bit in a frame that another proves."""
    segment = max(path.glob("*.wal"), key=lambda file: file.stat().st_mtime)
    data = bytearray(segment.read_bytes())
    at = data.index(b"value")
    data[at] ^= 1
    segment.write_bytes(data)


def refused(count: int) -> list[tuple[int, dict[str, object], dict[str, str]]]:
    return [(400, {"error": "INVALID_ARGUMENT", "message": "not this one"}, {})] * count


def test_nothing_is_said_to_be_there_where_nothing_is(root: Path) -> None:
    done = outbox(root, "list")
    assert (done.returncode, done.stdout) == (0, f"no outboxes in {root}\n")
    assert said(root, "list", "--archives") == {"outboxes": [], "archives": []}
    assert outbox(root, "send", "--endpoint", NOBODY).returncode == 0
    assert said(root, "archive") == {"outboxes": []}
    assert said(root, "clean") == {"removed": [], "old": 0, "archives": []}
    assert not root.exists()


def test_living_left_over_and_damaged_ones_are_listed(root: Path) -> None:
    leave(root, "job/1", "t", b"a", b"b")
    leave(root, "job/2", "t", *[b"value"] * 3)
    damage(of_execution(root, "job/2")[0])
    away = threading.Event()
    living = Outbox(root, "job/3", send=lambda events: away.wait(30))  # of another kind: it takes no left-overs
    living.append(b"c")
    try:
        found = {one["execution"]: one for one in said(root, "list")["outboxes"]}
        shown = outbox(root, "list").stdout
    finally:
        away.set()
        living.stop(0)
    first, second, third = found["job/1"], found["job/2"], found["job/3"]
    assert (first["state"], first["topic"], first["pending"], first["sent"]) == ("left-over", "t", 2, 0)
    assert first["bytes"] > 0
    assert first["age_ms"] >= 0
    assert second["state"] == "damaged"
    assert "damaged" in second["last_error"]
    assert (third["state"], third["pending"], third["topic"]) == ("living", 1, None)
    assert all(word in shown for word in ("job/1", "left-over", "job/2", "damaged", "job/3", "living"))


def test_one_is_inspected_by_its_execution_and_by_its_path(root: Path) -> None:
    leave(root, "job/1", "t", b"one", b"\xff\x00", b"[/red]\x1b[31m")
    (path,) = of_execution(root, "job/1")
    (by_name,) = said(root, "inspect", "job/1", "--limit", 2)["outboxes"]
    (by_path,) = said(root, "inspect", path, "--limit", 2)["outboxes"]
    assert by_name == by_path
    assert (by_name["pending"], by_name["events"], by_name["parked"]) == (3, 3, [])
    assert [(one["event"], one.get("value"), one.get("value_base64")) for one in by_name["next"]] == [
        (0, "one", None),
        (1, None, "/wA="),
    ]
    shown = outbox(root, "inspect", "job/1").stdout
    assert "[/red]\\x1b[31m" in shown, "as it is, and harmless"
    assert said(root, "inspect", "job/1", "--limit", 0)["outboxes"][0]["next"] == []


def test_what_is_not_there_cannot_be_inspected(root: Path, tmp_path: Path) -> None:
    for what in ("nothing", tmp_path):
        done = outbox(root, "inspect", what)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)


def test_a_damaged_one_is_exit_65_and_left_alone_by_all(client: Client, running: str, topic: str, root: Path) -> None:
    leave(root, "whole", topic, b"a")
    leave(root, "broken", topic, *[b"value"] * 3)
    (path,) = of_execution(root, "broken")
    damage(path)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    assert outbox(root, "inspect", "broken").returncode == 65
    done = outbox(root, "send", "--endpoint", running)
    assert (done.returncode, "1 events sent, 0 remain" in done.stdout) == (65, True)
    assert str(path) in done.stderr
    assert outbox(root, "archive").returncode == 65
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert [message.value for message in client.read(topic, partition=0)] == [b"a"]


def test_what_a_repair_put_aside_outlives_its_outbox(client: Client, running: str, topic: str, root: Path) -> None:
    dead = Outbox(root, "broken", topic, NOBODY)
    for value in (b"first", b"value", b"last"):
        dead.append(value)
    dead.stop(0)
    (path,) = of_execution(root, "broken")
    damage(path)
    command = [sys.executable, "-m", "cordwood", "wal", "repair", str(path), "--quarantine"]
    subprocess.run(command, capture_output=True, check=True, timeout=60)
    ((name, kept),) = [(file.name, file.read_bytes()) for file in path.glob("*.aside")]
    assert outbox(root, "send", "--endpoint", running).returncode == 0
    assert [message.value for message in client.read(topic, partition=0)] == [b"first", b"last"]
    assert not path.exists()
    (aside,) = (root / "archive").glob("*.aside")
    assert (aside.name.startswith("broken."), aside.name.endswith(name)) == (True, True)
    assert aside.read_bytes() == kept
    assert said(root, "clean", "--older-than", "0s")["old"] == 1
    assert aside.exists()


def test_what_is_pending_is_sent_once_and_archived(client: Client, running: str, topic: str, root: Path) -> None:
    for number in range(3):
        leave(root, f"job/{number}", topic, *(b"%d-%d" % (number, event) for event in range(50)))
    done = outbox(root, "send", "--endpoint", NOBODY)
    assert done.returncode == 75
    assert "0 events sent, 150 remain: the broker cannot be reached" in done.stdout
    assert said(root, "send", "--endpoint", running, "--timeout", 30)["sent"] == 150
    assert said(root, "send", "--endpoint", running)["sent"] == 0
    values = [message.value for message in client.read(topic, partition=0)]
    assert len(values) == 150
    for number in range(3):
        mine = [value for value in values if value is not None and value.startswith(b"%d-" % number)]
        assert mine == [b"%d-%d" % (number, event) for event in range(50)]
    found = said(root, "list", "--archives")
    assert found["outboxes"] == []
    assert [one["execution"] for one in found["archives"]] == ["job/0", "job/1", "job/2"]
    (by_name,) = said(root, "inspect", "job/1", "--limit", 1)["archives"]
    (by_path,) = said(root, "inspect", found["archives"][1]["file"], "--limit", 1)["archives"]
    assert by_name == by_path
    assert (by_name["state"], by_name["events"], by_name["first"][0]["value"]) == ("archived", 50, "1-0")


def test_an_archives_execution_is_not_guessed_from_its_name(
    client: Client, running: str, topic: str, root: Path
) -> None:
    for execution in ("a", "a", "a.2"):
        with Outbox(root, execution, topic, running) as sending:
            sending.append(b"x")
    found = said(root, "list", "--archives")["archives"]
    assert sorted(one["execution"] for one in found) == ["a", "a", "a.2"]
    assert len(said(root, "inspect", "a")["archives"]) == 2
    assert len(said(root, "inspect", "a.2")["archives"]) == 1


def test_an_archive_of_a_long_name_leaves_the_other_columns_their_room(
    client: Client, running: str, topic: str, root: Path
) -> None:
    for execution in ("short", "x" * 200):
        with Outbox(root, execution, topic, running) as sending:
            sending.append(b"x")
    shown = outbox(root, "list", "--archives").stdout
    (line,) = [line for line in shown.splitlines() if line.startswith("short ")]
    assert str(root / "archive" / "short.wal.zst") in line
    assert line.rstrip().endswith(" s"), "the age"
    assert str(root / "archive" / f"{'x' * 200}.wal.zst") in shown
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "cordwood", "outbox", "list", "--archives", "--dir", str(root)]
    narrow = {**os.environ, "COLUMNS": "80", "TERM": "dumb"}
    subprocess.run(command, stdout=theirs, check=True, timeout=60, env=narrow)
    os.close(theirs)
    shown = ""
    with suppress(OSError):  # the terminal's end
        while chunk := os.read(ours, 1 << 16):
            shown += chunk.decode()
    os.close(ours)
    assert all(name in shown for name in ("archive of", "file", "size", "age"))
    assert shown.count("x") >= 400, "the execution, and the name of its file"


def test_a_living_one_is_left_to_its_own_process(client: Client, running: str, topic: str, root: Path) -> None:
    living = Outbox(root, "job/1", topic, NOBODY)
    living.append(b"c")
    try:
        assert said(root, "send", "--endpoint", running) == {
            "sent": 0,
            "remain": 0,
            "parked": 0,
            "error": None,
            "damaged": [],
        }
        assert said(root, "archive")["outboxes"] == [{"execution": "job/1", "outcome": "living"}]
    finally:
        living.stop(0)
    assert list(client.read(topic, partition=0)) == []


def test_parked_events_stay_until_they_are_put_away_on_purpose(root: Path) -> None:
    leave(root, "job/1", "t", b"bad")
    leave(root, "job/2", "t", b"later")
    with Scripted(refused(1)) as broker:
        done = outbox(root, "send", "--endpoint", broker.endpoint)
    assert (done.returncode, "1 were refused for good" in done.stdout) == (0, True)
    (one,) = said(root, "list")["outboxes"]
    assert (one["pending"], one["failed"], "not this one" in one["last_error"]) == (0, 1, True)
    execution = one["execution"]
    (parked,) = said(root, "inspect", execution)["outboxes"][0]["parked"]
    assert (parked["event"], "not this one" in parked["reason"]) == (0, True)
    assert said(root, "archive")["outboxes"] == [{"execution": execution, "outcome": "parked"}]
    assert said(root, "archive", execution, "--parked")["outboxes"] == [
        {"execution": execution, "outcome": "archived"}
    ]
    assert outboxes(root) == []
    (archived,) = said(root, "inspect", execution)["archives"]
    assert (archived["events"], len(archived["parked"])) == (1, 1)


def test_what_is_pending_is_not_put_away(root: Path) -> None:
    leave(root, "job/1", "t", b"a")
    assert said(root, "archive", "--parked")["outboxes"] == [{"execution": "job/1", "outcome": "pending"}]
    assert look(outboxes(root)[0]).pending == 1
    assert outbox(root, "archive", "nothing").returncode == 1


def test_only_old_archives_are_cleaned(client: Client, running: str, topic: str, root: Path) -> None:
    for execution in ("old", "new"):
        with Outbox(root, execution, topic, running) as sending:
            sending.append(b"x")
    leave(root, "pending", topic, b"a")
    old, new = root / "archive" / "old.wal.zst", root / "archive" / "new.wal.zst"
    os.utime(old, (time.time() - 31 * 86_400,) * 2)
    assert said(root, "clean", "--dry-run") == {"removed": [], "old": 1, "archives": [str(old)]}
    assert old.exists()
    assert said(root, "clean", "--older-than", "32d")["old"] == 0
    done = outbox(root, "clean")
    assert (done.returncode, done.stdout) == (0, f"{old}\n1 archives were removed\n")
    assert (old.exists(), new.exists(), len(outboxes(root))) == (False, True, 1)
    assert open_archive(new).events[0].value == b"x"


def test_a_batch_whose_answer_was_lost_and_that_conflicts_is_sent_again_on_purpose(root: Path) -> None:
    dead = Outbox(root, "job/1", "t", NOBODY)
    dead.append_many([b"a", b"b"])
    dead._log.record([Sending([2], 1)])  # it went out, and nobody heard an answer
    dead.stop(0)
    conflict: tuple[int, dict[str, object], dict[str, str]] = (409, {"error": "no such numbers", "epoch": 0}, {})
    with Scripted([conflict]) as broker:
        done = outbox(root, "send", "--endpoint", broker.endpoint)
        assert (done.returncode, "2 remain: " in done.stdout) == (75, True)
        done = outbox(root, "send", "--endpoint", broker.endpoint, "--resend", "job/1")
        assert (done.returncode, "2 events sent, 0 remain" in done.stdout) == (0, True)
        assert [(query["epoch"], rows) for query, rows in broker.requests] == [("0", 2), ("1", 2)]
    assert outbox(root, "send", "--resend", "nothing").returncode == 1


def test_of_a_batch_in_doubt_only_what_is_not_stored_is_sent_when_a_person_says_so(root: Path) -> None:
    dead = Outbox(root, "job/1", "t", NOBODY)
    dead.append_many([b"a", b"b", b"c"])
    dead._log.record([Sending([2], 1)])  # it went out, and nobody heard an answer
    dead.stop(0)
    (shown,) = said(root, "inspect", "job/1")["outboxes"]
    assert (shown["pending"], shown["doubtful"]) == (3, 2)
    with Scripted([]) as broker:
        done = outbox(root, "send", "--endpoint", broker.endpoint, "--stored", "job/1", "3")
        assert (done.returncode, "2 events that may be stored, from event 0 on" in done.stderr) == (2, True)
        done = outbox(root, "send", "--endpoint", broker.endpoint, "--stored", "job/1", "1")
        assert (done.returncode, "2 events sent, 0 remain" in done.stdout) == (0, True), done.stderr
        assert [(query["epoch"], query["sequence"], rows) for query, rows in broker.requests] == [("1", "0", 2)]


@pytest.mark.parametrize(
    "words",
    [
        ["clean", "--older-than", "soon"],
        ["send", "--timeout", "-1"],
        ["send", "--endpoint", "ftp://x"],
        ["inspect"],
        ["nothing"],
    ],
)
def test_wrong_usage_is_exit_2(root: Path, words: list[str]) -> None:
    done = outbox(root, *words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
