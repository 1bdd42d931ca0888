"""A broker that cannot start says why, and what to do, in one line."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest


def serve(*words: str, place: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cordwood", "serve", *words]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=60)


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = serve("--port", str(port), place=tmp_path)
    said = f"cordwood: 127.0.0.1:{port}: address already in use; stop who has it, or choose another --port\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.parametrize(
    ("host", "why"), [("192.0.2.1", "Cannot assign requested address"), ("no-such-host.invalid", "")]
)
def test_a_host_that_is_not_ours_is_named(tmp_path: Path, host: str, why: str) -> None:
    done = serve("--host", host, "--insecure", place=tmp_path)
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"cordwood: cannot listen at {host}:7878: {why}")
    assert line.endswith("; choose another --host or --port")


def test_a_file_is_no_data_directory(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    done = serve("--data", "notes", place=tmp_path)
    assert (done.returncode, done.stderr) == (2, "cordwood: --data notes is a file; give a directory\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_start_that_waits_for_its_store_can_be_stopped(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "cordwood", "serve", "--port", "0", "--metadata", "etcd://127.0.0.1:1"]
    broker = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert broker.stderr is not None
    said = ""
    while "waiting for the claim" not in said:
        said += broker.stderr.readline()
    broker.send_signal(number)
    assert broker.stderr.read().splitlines()[-1] == "cordwood: stopped before it was ready"
    assert broker.wait() == 0
