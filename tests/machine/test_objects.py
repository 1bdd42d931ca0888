"""Each kind of store keeps the same promises; tests/real asks a real S3 for them."""

import subprocess
import sys
from pathlib import Path

import pytest

from cordwood.errors import Refused
from cordwood.machine.objects import Objects, StoreUnavailable, open_objects
from cordwood.machine.objects.directory import DirectoryObjects
from cordwood.sim.clock import SimClock
from cordwood.sim.objects import SimObjects
from cordwood.sim.tree import SimTree
from tests.machine.object_promises import PROMISES, Promise


@pytest.fixture(params=["memory", "directory", "pretended directory", "pretended store"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    if request.param == "memory":
        return open_objects("memory:")
    if request.param == "directory":
        return open_objects(str(tmp_path / "store"))
    return DirectoryObjects(SimTree()) if request.param == "pretended directory" else SimObjects(SimClock())


@pytest.mark.parametrize("promise", PROMISES, ids=[promise.__name__ for promise in PROMISES])
def test_every_kind_keeps_the_promise(promise: Promise, objects: Objects) -> None:
    promise(objects)


@pytest.mark.parametrize("written", ["{}", "file:{}", "file://{}", "file://localhost{}", "FILE://{}"])
def test_a_directory_has_many_spellings(written: str, tmp_path: Path) -> None:
    objects = open_objects(written.format(f"{tmp_path}/a%20b" if "file" in written.lower() else f"{tmp_path}/a b"))
    assert objects.put("x/y", b"z")
    assert (tmp_path / "a b" / "x" / "y").read_bytes() == b"z"
    assert objects.url == f"file://{tmp_path}/a b"


def test_a_relative_path_is_meant_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("file:one", "two/three", "./with:colon"):
        open_objects(url).put("x", b"")
    assert sorted(path.name for path in tmp_path.rglob("x")) == ["x", "x", "x"]


BAD_URLS = ["", "ftp://x/y", "s3:bucket", "s3://", "s3:///x", "s3://bucket?versionId=1", "s3://bucket/a?b"]
BAD_URLS += [
    "file://host/dir",
    "file:",
    "file://",
    "memory:x",
    "gs://",
    "az://UPPER CASE/x",
    "etcd://h:1",
    "http://h/b",
]


@pytest.mark.parametrize("url", BAD_URLS)
def test_a_bad_url_is_refused_and_says_what_is_allowed(url: str) -> None:
    with pytest.raises(Refused, match=r"file:///dir"):
        open_objects(url)


@pytest.mark.parametrize("url", ["s3://KEY:sesame@bucket/prefix", "s3://bucket/prefix?secret_access_key=sesame"])
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(Refused, match=r"belong into the environment|is no bucket") as caught:
        open_objects(url)
    assert "sesame" not in str(caught.value)


def test_a_place_that_cannot_be_made_is_unavailable_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match=r"/file$"):
        open_objects(str(tmp_path / "file" / "store"))


def test_obstore_is_imported_only_for_a_cloud(tmp_path: Path) -> None:
    code = (
        "import sys; from cordwood.machine.objects import open_objects; import cordwood.tier.claiming;"
        f"open_objects({str(tmp_path)!r}).put('a', b''); open_objects('memory:');"
        "assert not any(name.startswith('obstore') for name in sys.modules);"
        "open_objects('s3://bucket'); assert 'obstore' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
