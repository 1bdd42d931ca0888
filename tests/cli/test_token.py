"""`cordwood token`, and how other commands show one."""

import json
import stat
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cordwood.auth.keyring import Keyring
from cordwood.auth.token_file import TokenFile
from cordwood.cli.main import cli
from cordwood.cli.token import token
from cordwood.client.client import Client
from cordwood.embedding import embedded
from cordwood.errors import Conflict, CordwoodError, NotFound, Refused
from tests.certificates import make_pair


def run(*arguments: str, **environment: str) -> str:
    """Return what a command prints; raise what it ends with."""
    done = CliRunner().invoke(cli, arguments, standalone_mode=False, env=environment)
    if done.exception is not None:
        raise done.exception
    return done.stdout


def test_a_token_is_shown_once_and_kept_as_a_hash(tmp_path: Path) -> None:
    text = run(
        "token", "create", "shop", "--produce", "orders", "--consume", "orders*", "--data", str(tmp_path)
    ).strip()
    path = tmp_path / "tokens.json"
    assert text.partition("_")[0] == "cordwood"
    for file in tmp_path.iterdir():
        assert text.rpartition("_")[2] not in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert text not in run("token", "list", "--data", str(tmp_path))
    found = Keyring(TokenFile(path).read() or ()).find(f"Bearer {text}".encode(), 0)
    assert [str(grant) for grant in found.token.rights] == ["produce:orders", "consume:orders"]


def test_programs_get_json(tmp_path: Path) -> None:
    made = json.loads(
        run("token", "create", "ops", "--admin", "*", "--expires", "2h", "--data", str(tmp_path), "--json")
    )
    text = made.pop("token")
    assert made["rights"] == [{"right": "admin", "prefix": ""}]
    assert made["expires_at"] - made["created_at"] == 7_200_000
    listed = json.loads(run("token", "list", "--data", str(tmp_path), "--json"))
    assert listed == {"tokens": [made]}
    assert text[22:] not in json.dumps(listed)
    assert json.loads(run("token", "revoke", made["id"], "--data", str(tmp_path), "--json")) == made
    assert json.loads(run("token", "list", "--data", str(tmp_path), "--json")) == {"tokens": []}


def test_people_are_told_what_there_is(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    assert "everybody who reaches the broker may do everything" in run("token", "list", *data)
    run("token", "create", "shop", "--consume", "a", *data)
    assert "consume:a" in run("token", "list", *data)
    assert run("token", "revoke", "shop", *data) == "token shop is revoked\n"
    assert "nobody may come in" in run("token", "list", *data)


def test_the_directory_can_be_named_by_the_environment_and_the_file_by_itself(tmp_path: Path) -> None:
    run("token", "create", "a", "--admin", "*", CORDWOOD_DATA=str(tmp_path / "a"))
    assert (tmp_path / "a" / "tokens.json").exists()
    run("token", "create", "a", "--admin", "*", "--file", str(tmp_path / "b" / "mine.json"))
    assert (tmp_path / "b" / "mine.json").exists()


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    with pytest.raises(Refused, match="without rights"):
        run("token", "create", "shop", *data)
    with pytest.raises(Refused, match="say '\\*'"):
        run("token", "create", "shop", "--admin", "", *data)
    with pytest.raises(Refused, match="no name for a token"):
        run("token", "create", "my shop", "--admin", "*", *data)
    with pytest.raises(Refused, match="no beginning of a topic"):
        run("token", "create", "shop", "--admin", "a*b", *data)
    with pytest.raises(Refused, match="over before it begins"):
        run("token", "create", "shop", "--admin", "*", "--expires", "0s", *data)
    with pytest.raises(click.UsageError, match="no length of time"):
        run("token", "create", "shop", "--admin", "*", "--expires", "soon", *data)
    assert not (tmp_path / "tokens.json").exists()
    run("token", "create", "shop", "--admin", "*", *data)
    with pytest.raises(Conflict, match="already"):
        run("token", "create", "shop", "--admin", "*", *data)
    with pytest.raises(NotFound, match="cordwood token list"):
        run("token", "revoke", "nobody", *data)


@pytest.mark.parametrize("name", sorted(token.commands))
def test_every_command_shows_an_example(name: str) -> None:
    assert f"Example: cordwood token {name}" in run("token", name, "--help")


def test_commands_show_a_token_and_trust_whom_they_are_told(tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    data = tmp_path / "data"
    text = run("token", "create", "ops", "--admin", "*", "--data", str(data)).strip()
    with embedded(data, tls_cert=pair.cert, tls_key=pair.key) as broker:
        there = ("--endpoint", broker.endpoint, "--ca", pair.cert)
        run("topic", "create", "clicks", *there, "--token", text)
        assert "1 message(s) on disk" in run("produce", "clicks", "hello", *there, "--token", text)
        assert "clicks" in run("topic", "list", *there, CORDWOOD_TOKEN=text)
        assert "clicks" in run(
            "topic", "list", CORDWOOD_ENDPOINT=broker.endpoint, CORDWOOD_TOKEN=text, CORDWOOD_CA=pair.cert
        )
        with pytest.raises(CordwoodError, match="needs a token"):
            run("topic", "list", *there)
        with pytest.raises(CordwoodError, match="CERTIFICATE_VERIFY_FAILED"):
            run("topic", "list", "--endpoint", broker.endpoint, "--token", text)
        with Client(broker.endpoint, ca=pair.cert) as client, pytest.raises(Refused, match="needs a token"):
            client.topics()


def test_what_is_run_gets_no_token_from_the_command_line(tmp_path: Path) -> None:
    data = tmp_path / "data"
    text = run("token", "create", "ops", "--admin", "*", "--data", str(data)).strip()
    with embedded(data) as broker:
        with Client(broker.endpoint, token=text) as client:
            client.create_topic("jobs")
        root = str(tmp_path / "outbox")
        asked = ("--topic", "jobs", "--endpoint", broker.endpoint, "--token", text, "--outbox", root)
        run("run", *asked, "--", "sh", "-c", "env | grep cordwood_; echo said")
        with Client(broker.endpoint, token=text) as client:
            lines = [message.value or b"" for message in client.read("jobs")]
        assert b"said" in lines
        assert not any(text.encode() in line for line in lines)
        for path in Path(root).rglob("*"):
            assert path.is_dir() or text[22:].encode() not in path.read_bytes()
