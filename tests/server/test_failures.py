"""A disk that fails or is full, seen over HTTP: nothing is acknowledged that is not there, and reads go on."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

from cordwood.machine.disk import File, RealDirectory
from cordwood.sim.disk import SimDirectory
from tests.server.serving import Serving
from tests.server.streams import Open


class Failing:
    """A file whose writes reach the disk and whose syncs fail, once `broken` says so."""

    def __init__(self, file: File, broken: Callable[[], bool]):
        self._file = file
        self._broken = broken

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def sync(self) -> None:
        if self._broken():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._file.sync()


class FailingDirectory(RealDirectory):
    """A real directory whose files stop to sync when `broken` is set."""

    broken = False

    def open(self, name: str, *, create: bool = False, write: bool = True) -> File:
        file = super().open(name, create=create, write=write)
        return Failing(file, lambda: self.broken)  # type: ignore[return-value]


def test_after_a_failed_sync_nothing_is_acknowledged_and_reads_go_on(tmp_path: Path) -> None:
    disk = FailingDirectory(tmp_path)
    with Serving(directory=disk) as server:
        server.topic()
        server.produce("a")
        server.lease()
        disk.broken = True
        lost = server.post("/v1/produce", {"topic": "clicks", "value": "b"})
        assert (lost.status, lost.error) == (503, "UNAVAILABLE")
        many = server.post(
            "/v1/produce", b'{"value":"c"}\n', {"Content-Type": "application/x-ndjson"}, topic="clicks"
        )
        assert many.error == "UNAVAILABLE"
        assert server.post("/v1/lease", {"topic": "clicks", "group": "mailer"}).error == "UNAVAILABLE"
        ack = {"topic": "clicks", "group": "mailer", "partition": 0, "offset": 0}
        assert server.post("/v1/ack", ack).error == "UNAVAILABLE"
        assert server.get("/v1/consume", topic="clicks", group="mailer").error == "UNAVAILABLE"
        assert server.post("/v1/topics", {"name": "other"}).error == "UNAVAILABLE"
        health = server.get("/v1/healthz")
        assert (health.status, health.error, health.json["status"]) == (503, "UNAVAILABLE", "failed")
        assert server.values() == ["a"]
        assert server.get("/v1/topics").json["topics"][0]["messages"] == 1
        assert server.get("/v1/groups").status == server.get("/v1/spans", topic="clicks").status == 200
        assert b"cordwood_writable 0\n" in server.get("/metrics").body
        disk.broken = False
        assert server.post("/v1/produce", {"topic": "clicks", "value": "d"}).status == 503, "it is not tried again"


def test_a_failed_sync_ends_streams(tmp_path: Path) -> None:
    disk = FailingDirectory(tmp_path)
    with Serving(directory=disk) as server:
        server.topic()
        with Open(server, "/v1/consume", topic="clicks", group="mailer") as stream:
            disk.broken = True
            server.post("/v1/produce", {"topic": "clicks", "value": "b"})
            assert stream.rest() == b""


def test_a_full_disk_is_507_and_goes_on_when_there_is_space(tmp_path: Path) -> None:
    disk = SimDirectory(capacity_bytes=6 << 20)
    with Serving(directory=disk) as server:
        server.topic()
        stored = 0
        while (reply := server.post("/v1/produce", {"topic": "clicks", "value": "x" * 200_000})).status == 200:
            stored += 1
        assert (reply.status, reply.error) == (507, "INSUFFICIENT_STORAGE")
        assert len(server.values()) == server.end() == stored
        assert server.post("/v1/ack", {"topic": "clicks", "group": "g", "partition": 0, "offset": 0}).status == 404
        assert len(server.lease(max_messages=1)) == 1
        ack = {"topic": "clicks", "group": "mailer", "partition": 0, "offset": 0}
        assert server.post("/v1/ack", ack).status == 204, "acks go on from a reserve"
        disk.capacity_bytes = 100 << 20
        while server.post("/v1/produce", {"topic": "clicks", "value": "y"}).status == 507:
            pass
        assert server.end() == stored + 1
