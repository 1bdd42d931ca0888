"""The file of tokens: changed as a whole, read only when it is whole and nobody else's."""

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from cordwood.auth import token
from cordwood.auth.right import Grant, Right
from cordwood.auth.token_file import TokenFile, decode, encode
from cordwood.errors import Conflict, NotFound, OtherVersion, Refused

RIGHTS = (Grant(Right.PRODUCE, "a"),)


def make(name: str = "one") -> token.Token:
    return token.make(name, RIGHTS, 1_000)[0]


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "new" / "tokens.json")


def test_what_is_added_is_read_and_what_is_removed_is_not(file: TokenFile) -> None:
    assert file.read() is None
    one, two = make("one"), make("two")
    file.add(one)
    file.add(two)
    assert file.read() == (one, two)
    assert file.remove("one") == one
    assert file.remove(two.id) == two
    assert file.read() == (), "the file stays: to be without one would open the door"


def test_only_its_owner_may_read_it(file: TokenFile) -> None:
    file.add(make())
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert {path.name for path in file.path.parent.iterdir()} == {"tokens.json", "tokens.json.lock"}


def test_a_file_that_others_may_change_is_refused(file: TokenFile) -> None:
    file.add(make())
    file.path.chmod(0o620)
    with pytest.raises(Refused, match="chmod 600"):
        file.read()


def test_a_name_is_given_once(file: TokenFile) -> None:
    file.add(make())
    with pytest.raises(Conflict, match="'one' already"):
        file.add(make())
    with pytest.raises(NotFound, match="'nobody'"):
        file.remove("nobody")


def test_every_change_changes_the_stamp(file: TokenFile) -> None:
    stamps = [file.stamp()]
    file.add(make())
    stamps.append(file.stamp())
    file.add(make("two"))
    stamps.append(file.stamp())
    file.remove("two")
    stamps.append(file.stamp())
    assert stamps[0] is None
    assert len(set(stamps)) == 4


def test_what_somebody_who_was_killed_left_is_passed_over(file: TokenFile) -> None:
    file.path.parent.mkdir()
    Path(f"{file.path}.new").write_text("half a fi")
    file.add(make())
    assert len(file.read() or ()) == 1


def test_changes_by_many_at_once_are_all_there(file: TokenFile) -> None:
    threads = [threading.Thread(target=file.add, args=(make(f"t{n}"),)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {one.name for one in file.read() or ()} == {f"t{n}" for n in range(10)}


def test_bytes_are_on_disk_before_the_name_and_the_name_before_it_returns(
    file: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, os.rename

    def synced(descriptor: int) -> None:
        calls.append("sync directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        fsync(descriptor)

    def renamed(old: str, new: str) -> None:
        calls.append("rename")
        rename(old, new)

    file.add(make())
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    file.add(make("two"))
    assert calls[-3:] == ["sync file", "rename", "sync directory"]


GOOD = json.loads(encode((make(),)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        {"version": 1},
        {"version": "1", "tokens": []},
        {"version": 1, "tokens": [{}]},
        {"version": 1, "tokens": GOOD["tokens"] * 2},
        {"version": 1, "tokens": [GOOD["tokens"][0] | {"rights": []}]},
        {"version": 1, "tokens": [GOOD["tokens"][0] | {"rights": [["own", "a"]]}]},
        {"version": 1, "tokens": [GOOD["tokens"][0] | {"rights": [["admin", "a\n"]]}]},
        {"version": 1, "tokens": [GOOD["tokens"][0] | {"hash": "abc"}]},
        {"version": 1, "tokens": [GOOD["tokens"][0] | {"name": "a b"}]},
        {"version": 1, "tokens": [GOOD["tokens"][0] | {"name": "0123456789ab"}]},
        {"version": 1, "tokens": [GOOD["tokens"][0] | {"expires_at": 1}]},
    ],
    ids=lambda data: str(data)[:20] if isinstance(data, bytes) else None,
)
def test_what_is_no_file_of_tokens_is_refused_by_its_name(data: object) -> None:
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    with pytest.raises(Refused, match="here"):
        decode(text, "here")


def test_another_version_is_told_from_damage() -> None:
    with pytest.raises(OtherVersion, match="version 2"):
        decode(b'{"version":2,"things":[]}', "here")
