"""A directory as a store, and the power cut at any of its system calls."""

import contextlib
import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from cordwood.errors import Locked
from cordwood.machine.objects import ObjectMissing, StoreUnavailable, open_objects
from cordwood.machine.objects.directory import DirectoryObjects
from cordwood.machine.objects.tree import RealTree
from cordwood.sim.tree import SimTree

NAME = "topics/t/partition=0/1"
DATA = bytes(range(100))
SEEDS = range(30)


class Crash(BaseException):
    """The process ends here."""


def put_until(tree: SimTree, operation: int) -> bool | None:
    """Put an object and end before this operation; return what `put` did, or None if it never returned."""
    tree.operations = 0

    def watch(what: str, name: str) -> None:
        if tree.operations > operation:
            raise Crash

    tree.watch = watch
    try:
        return DirectoryObjects(tree).put(NAME, DATA)
    except Crash:
        return None
    finally:
        tree.watch = None


def crashes(prepare: bool) -> Iterator[tuple[SimTree, bool | None]]:
    """Put with a crash before each operation in turn, and once without; return the tree and what `put` returned."""
    for operation in range(1000):
        tree = SimTree()
        if prepare:
            assert DirectoryObjects(tree).put("topics/t/partition=0/0", b"before")
        done = put_until(tree, operation)
        yield tree, done
        if done is not None:
            return
    raise AssertionError("a put does not take a thousand operations")


def found(tree: SimTree, name: str = NAME) -> bytes | None:
    try:
        return bytes(DirectoryObjects(tree).get(name))
    except ObjectMissing:
        return None


@pytest.mark.parametrize("prepare", [False, True], ids=["into new folders", "beside another"])
def test_an_object_is_whole_or_absent_after_a_power_cut_at_any_call(prepare: bool) -> None:
    steps = 0
    for steps, (tree, done) in enumerate(crashes(prepare), 1):
        for seed in SEEDS:
            left = tree.after_power_cut(Random(seed))
            assert found(left) in ((DATA,) if done else (None, DATA)), (steps, seed)
            assert not prepare or found(left, "topics/t/partition=0/0") == b"before"
    assert steps >= 7


def test_a_put_after_the_crash_finds_the_name_free_or_taken_and_then_it_survives() -> None:
    for tree, _ in crashes(prepare=False):
        for seed in SEEDS:
            for again in (tree.after_power_cut(Random(seed)), tree.after_kill()):
                DirectoryObjects(again).put(NAME, DATA)
                assert found(again.after_power_cut(Random(seed), keep=0.0)) == DATA


def test_what_a_listing_showed_survives_although_its_maker_was_killed_before_the_sync() -> None:
    shown = 0
    for tree, _ in crashes(prepare=False):
        left = tree.after_kill()
        if [entry.name for entry in DirectoryObjects(left).list("topics/t/")] == [NAME]:
            shown += 1
            assert found(left.after_power_cut(Random(0), keep=0.0)) == DATA
    assert shown >= 2


def test_a_deletion_survives() -> None:
    tree = SimTree()
    objects = DirectoryObjects(tree)
    objects.put(NAME, DATA)
    objects.delete([NAME])
    assert found(tree.after_power_cut(Random(0), keep=0.0)) is None


def test_every_call_that_fails_is_said_and_the_next_put_is_good() -> None:
    failed = set()
    for operation in range(1, 100):
        tree = SimTree()
        objects = DirectoryObjects(tree)

        def fail(what: str, name: str, size: int, tree: SimTree = tree, operation: int = operation) -> None:
            if tree.operations == operation:
                failed.add(what)
                raise OSError(errno.EIO, "Input/output error")

        tree.faults = fail
        with contextlib.suppress(StoreUnavailable):
            objects.put(NAME, DATA)
        tree.faults = None
        objects.put(NAME, DATA)
        assert found(tree.after_power_cut(Random(operation), keep=0.0)) == DATA, operation
        if tree.operations < operation:
            break
    assert failed == {"create", "write", "sync", "link", "sync folder", "remove"}


def test_a_full_disk_is_said_and_leaves_nothing_behind() -> None:
    tree = SimTree(capacity_bytes=50)
    with pytest.raises(StoreUnavailable, match="No space"):
        DirectoryObjects(tree).put(NAME, DATA)
    assert [name for name in tree.names() if not name.endswith("/")] == []


def test_the_next_owner_removes_what_was_left_half_written_and_no_listing_shows_it() -> None:
    seen = 0
    for tree, _ in crashes(prepare=False):
        left = tree.after_kill()
        objects = DirectoryObjects(left)
        before = [entry.name for entry in objects.list("")]
        seen += bool(left.names_in(".tmp")) if ".tmp/" in left.names() else 0
        objects.lock()
        assert ".tmp/" not in left.names() or left.names_in(".tmp") == []
        assert [entry.name for entry in objects.list("")] == before
        assert before in ([], [NAME])
    assert seen >= 3


def test_files_and_folders_are_for_their_owner_only(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        objects = open_objects(str(tmp_path / "made" / "store"))
        objects.put(NAME, DATA)
        assert isinstance(objects, DirectoryObjects)
        objects.lock()
    finally:
        os.umask(old)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "made").rglob("*")}
    assert modes
    assert all(mode == (0o700 if path.is_dir() else 0o600) for path, mode in modes.items())


def test_a_folder_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path))
    objects.put("a/1", b"")
    objects.delete(["a/1"])
    (tmp_path / "a").rmdir()
    with pytest.raises(StoreUnavailable):
        objects.put("a/1", b"")
    assert objects.put("a/1", b"") is True


def test_the_lock_holds_between_processes_and_goes_with_its_owner(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from cordwood.machine.objects.tree import RealTree;"
        "tree = RealTree(Path(sys.argv[1])); tree.lock(); print('locked', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"locked\n"
    tree = RealTree(tmp_path)
    with pytest.raises(Locked, match="stop that one first"):
        tree.lock()
    child.kill()
    child.wait()
    tree.lock()
    with pytest.raises(Locked):
        RealTree(tmp_path).lock()
    tree.unlock()
    RealTree(tmp_path).lock()
