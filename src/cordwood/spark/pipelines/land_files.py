"""Directories as Spark reaches them: one of this computer, of HDFS, of S3 by `s3a`, wherever executors write.

Hadoop's own file systems do it, so that the driver sees what executors wrote. Where they end at this computer's disk,
`create`, `move` and `sync` survive a power cut; elsewhere it is as the store promises.
"""

import fcntl
import os
from collections.abc import Iterable
from posixpath import dirname
from typing import TYPE_CHECKING, Any, NamedTuple

from cordwood.errors import Conflict, Locked, Refused
from cordwood.machine.disk import sync_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEMES = {"s3": "s3a"}  # as Hadoop calls them
_PACKAGES = {"s3a": "hadoop-aws", "gs": "gcs-connector", "abfss": "hadoop-azure", "abfs": "hadoop-azure"}


class File(NamedTuple):
    """A file below a directory: where, with slashes, and how large."""

    path: str
    bytes: int


class Files:
    """Files on the file system of one directory."""

    def __init__(self, spark: "SparkSession", root: str):
        """Raises Refused where Spark has no such file system."""
        try:
            self._jvm: Any = spark.sparkContext._jvm
            conf: Any = spark.sparkContext._jsc.hadoopConfiguration()
        except Exception:  # whatever a session without a JVM of its own says
            raise Refused("this needs a SparkSession with a driver of its own, not one of Spark Connect") from None
        scheme = root.partition("://")[0]
        try:
            system = self._path(root).getFileSystem(conf)
        except Exception:
            package = _PACKAGES.get(scheme, f"the package for {scheme}://")
            raise Refused(
                f"this Spark cannot write {root}: start it with {package} (spark.jars.packages), or give a directory"
            ) from None
        self.local = str(system.getScheme()) == "file"
        # The local one keeps a checksum beside each file; a table is to have nothing but its own files.
        self._system = system.getRawFileSystem() if self.local else system

    def read(self, path: str) -> bytes | None:
        """Return what a file has, None where there is none."""
        at = self._path(path)
        if not self._system.exists(at):
            return None
        stream = self._system.open(at)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def exists(self, path: str) -> bool:
        """Say whether there is something."""
        return bool(self._system.exists(self._path(path)))

    def create(self, path: str, data: bytes) -> None:
        """Make a file that is there whole or not at all. Raises Conflict if there is one already."""
        new = f"{dirname(path)}/.{os.path.basename(path)}.new"
        stream = self._system.create(self._path(new), True)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()
        self.sync([new])
        self.move(new, path)
        self.sync_names([path], dirname(path))

    def move(self, source: str, target: str) -> None:
        """Rename a file, which is done once, however often it is said. Raises Conflict where there is another one."""
        here, there = self._path(source), self._path(target)
        if self._system.exists(there):
            if self._system.exists(here):
                raise Conflict(f"{target} is there already; nothing was overwritten")
            return
        self._system.mkdirs(there.getParent())
        try:
            done = self._system.rename(here, there)
        except Exception:  # another driver was faster, or it is gone; both are seen below
            done = False
        if not done and (self._system.exists(here) or not self._system.exists(there)):
            raise Conflict(f"{source} cannot be moved to {target}: is it there, and may it be written?")

    def remove(self, path: str) -> None:
        """Remove a file or a directory with all that is in it, if it is there."""
        self._system.delete(self._path(path), True)

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, none where there is no directory."""
        at = self._path(path)
        return (
            [str(one.getPath().getName()) for one in self._system.listStatus(at)] if self._system.exists(at) else []
        )

    def below(self, path: str, most: int | None = None) -> list[File]:
        """Return the files in a directory and in those below it, without hidden ones, in order; the first `most`."""
        found: list[File] = []
        folders = [("", self._path(path))]
        while folders and (most is None or len(found) < most):
            prefix, folder = folders.pop()
            for one in self._system.listStatus(folder) if self._system.exists(folder) else ():
                name = str(one.getPath().getName())
                if one.isDirectory():
                    if not name.startswith((".", "_")) or "=" in name:
                        folders.append((f"{prefix}{name}/", one.getPath()))
                elif not name.startswith((".", "_")):
                    found.append(File(prefix + name, int(one.getLen())))
        return sorted(found)

    def sync(self, paths: Iterable[str]) -> None:
        """Make the content of these files durable."""
        if self.local:
            for path in paths:
                sync_path(local(path))

    def sync_names(self, paths: Iterable[str], root: str) -> None:
        """Make the names of these files durable, and of the directories that they are in, up to that of `root`."""
        if self.local:
            stop = local(dirname(root))
            folders = set()
            for path in paths:
                folder = dirname(local(path))
                while folder not in folders and len(folder) >= len(stop):
                    folders.add(folder)
                    folder = dirname(folder)
            for folder in sorted(folders, reverse=True):
                sync_path(folder)

    def lock(self, path: str) -> int | None:
        """Keep other processes out until the descriptor is closed, or this process is gone. Raises Locked.

        Only on this computer's disk. Elsewhere two drivers are told apart by what they `create`.
        """
        if not self.local:
            return None
        os.makedirs(dirname(local(path)), exist_ok=True)
        descriptor = os.open(local(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise Locked(f"another process uses {dirname(local(path))}: wait for it, or stop it") from None
        return descriptor

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)


def full(path: str) -> str:
    """Return a directory as Spark is to be told it: an absolute path, or a URL."""
    scheme, found, rest = path.rstrip("/").partition("://")
    if not found:
        return f"file://{os.path.abspath(path)}"
    return f"{_SCHEMES.get(scheme, scheme)}://{rest}"


def local(path: str) -> str:
    """Return a URL of this computer as a path."""
    return path.removeprefix("file://")
