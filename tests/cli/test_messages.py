"""Topics, messages and groups, as a person or a script meets them on the command line."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cordwood.embedding import Embedded, embedded


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Embedded]:
    with embedded(tmp_path / "data") as running:
        yield running


def cordwood(broker: Embedded, *words: object, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "cordwood", *map(str, words), "--endpoint", broker.endpoint]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=60)


def said(broker: Embedded, *words: object, stdin: bytes | None = None) -> str:
    done = cordwood(broker, *words, stdin=stdin)
    assert done.returncode == 0, done
    return done.stdout.decode()


def test_a_message_goes_in_and_comes_out(broker: Embedded) -> None:
    assert "no topics yet" in said(broker, "topic", "list")
    said(broker, "topic", "create", "clicks", "--partitions", 2)
    assert "2 message(s) on disk in clicks" in said(broker, "produce", "clicks", "hello", "world", "--key", "user:1")
    out = said(broker, "consume", "clicks", "--group", "g", "--idle-timeout-ms", 3000)
    assert out.splitlines() == ["hello", "world"]
    assert said(broker, "consume", "clicks", "--group", "g", "--idle-timeout-ms", 300) == ""
    assert said(broker, "read", "clicks").splitlines() == ["hello", "world"]


def test_lines_of_standard_input_and_of_a_file_are_messages(broker: Embedded, tmp_path: Path) -> None:
    said(broker, "topic", "create", "t")
    found = json.loads(said(broker, "produce", "t", "--json", stdin=b"one\ntwo\r\n\nfour"))
    assert found == {"topic": "t", "count": 4, "results": [{"partition": 0, "first_offset": 0, "last_offset": 3}]}
    (tmp_path / "blob").write_bytes(bytes(range(256)))
    said(broker, "produce", "t", "--file", tmp_path / "blob", "--whole", "--header", "name=blob")
    assert cordwood(broker, "read", "t").stdout == b"one\ntwo\n\nfour\n" + bytes(range(256)) + b"\n"
    last = json.loads(said(broker, "read", "t", "--from", "4", "--json"))
    assert last["headers"] == {"name": "blob"}
    assert "value_base64" in last


def test_read_from_a_time_and_from_the_end(broker: Embedded) -> None:
    said(broker, "topic", "create", "t")
    said(broker, "produce", "t", "old")
    assert said(broker, "read", "t", "--from", "2000-01-01T00:00:00Z") == "old\n"
    assert said(broker, "read", "t", "--from", "time:99999999999999") == ""
    assert said(broker, "read", "t", "--from", "latest") == ""
    assert said(broker, "read", "t", "--limit", 0) == ""


def test_consume_without_ack_gives_everything_back(broker: Embedded) -> None:
    said(broker, "topic", "create", "t")
    said(broker, "produce", "t", "again")
    for _ in range(2):
        (line,) = said(broker, "consume", "t", "--group", "g", "--no-ack", "--max", 1, "--json").splitlines()
        assert json.loads(line)["attempts"] == 1


def test_groups_are_listed_shown_moved_and_deleted(broker: Embedded) -> None:
    said(broker, "topic", "create", "t")
    assert "no groups yet" in said(broker, "group", "list")
    said(broker, "produce", "t", "a", "b")
    said(broker, "consume", "t", "--group", "g", "--max", 2)
    (line,) = json.loads(said(broker, "group", "list", "--json"))["groups"]
    assert (line["topic"], line["group"], line["lag"]) == ("t", "g", 0)
    assert "goes on from 0: 0" in said(broker, "group", "seek", "t", "g", "earliest")
    assert json.loads(said(broker, "group", "show", "t", "g", "--json"))["lag"] == 2
    assert "max_attempts=3" in said(broker, "group", "set", "t", "g", "max_attempts=3")
    assert "0 dead letter(s)" in said(broker, "group", "redrive", "t", "g")
    said(broker, "group", "delete", "t", "g")
    assert cordwood(broker, "group", "show", "t", "g").returncode == 1


def test_topics_are_shown_changed_and_deleted(broker: Embedded) -> None:
    said(broker, "topic", "create", "a/b", "--set", "retention_ms=1000")
    assert "retention_ms=1000" in said(broker, "topic", "show", "a/b")
    assert "retention_ms=0" in said(broker, "topic", "set", "a/b", "retention_ms=default")
    assert cordwood(broker, "topic", "create", "a/b", "--partitions", 7).returncode == 1
    said(broker, "topic", "delete", "a/b", "--yes")
    assert json.loads(said(broker, "topic", "list", "--json")) == {"topics": []}


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["produce", "nothere", "x"], 1, "there is no topic 'nothere'"),
        (["topic", "create", "a//b"], 2, "no topic name"),
        (["topic", "create", "t", "--set", "retention"], 2, "NAME=VALUE"),
        (["topic", "create", "t", "--set", "colour=red"], 2, "no parameter 'colour'"),
        (["group", "seek", "nothere", "g", "latest"], 1, "there is no topic"),
        (["read", "nothere"], 1, "there is no topic"),
        (["produce", "t", "x", "--file", __file__], 2, "not both"),
        (["consume", "nothere", "--group", "g"], 1, "there is no topic"),
    ],
)
def test_a_mistake_is_one_line_and_an_exit_code(broker: Embedded, words: list[str], code: int, text: str) -> None:
    done = cordwood(broker, *words)
    assert done.returncode == code, done
    assert text in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_a_broker_that_is_not_there_means_try_later() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cordwood", "topic", "list", "--endpoint", "http://127.0.0.1:1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 75
    assert done.stderr == (
        "cordwood: the broker cannot be reached at http://127.0.0.1:1: Connection refused;"
        " start it with `cordwood serve`, or give its endpoint\n"
    )


@pytest.mark.parametrize(
    "words", [["produce", "t", "x"], ["consume", "t", "--group", "g"], ["spark", "stats", "t"]], ids=lambda w: w[0]
)
def test_nobody_waits_for_a_broker_that_is_not_there(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cordwood", *words, "--endpoint", "http://127.0.0.1:1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 75
    assert done.stderr.startswith("cordwood: the broker cannot be reached at http://127.0.0.1:1"), "and Spark did not"


def test_every_command_has_an_example_in_its_help_and_a_whole_line_in_the_list() -> None:
    import click

    from cordwood.cli.main import cli

    def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield (*path, name), command
            if isinstance(command, click.Group):
                yield from commands(command, (*path, name))

    found = [((), cli), *commands(cli)]
    assert ("topic", "create") in [path for path, _ in found]
    for path, command in found:
        assert "Example" in (command.help or ""), f"cordwood {' '.join(path)} has no example"
        short = command.get_short_help_str(limit=70)
        assert path == () or not short.endswith("..."), f"cordwood {' '.join(path)} is cut short in the list: {short}"


def test_every_change_of_a_setting_can_be_read_by_a_program(broker: Embedded) -> None:
    said(broker, "topic", "create", "t")
    assert json.loads(said(broker, "topic", "set", "t", "retention_ms=5", "--json"))["settings"]["retention_ms"] == 5
    assert json.loads(said(broker, "group", "set", "t", "g", "lease_ms=5", "--json"))["settings"]["lease_ms"] == 5


@pytest.mark.parametrize("answer", [b"n\n", b""])
def test_a_topic_that_nobody_agrees_to_delete_is_kept(broker: Embedded, answer: bytes) -> None:
    said(broker, "topic", "create", "t")
    done = cordwood(broker, "topic", "delete", "t", stdin=answer)
    assert (done.returncode, b"t is kept" in done.stderr) == (1, True), done
    assert "t" in said(broker, "topic", "list")
    said(broker, "topic", "delete", "t", "--yes")
