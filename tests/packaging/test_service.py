"""The unit of systemd: what it says, that systemd understands it, and that the broker tells when it is ready."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cordwood.errors import Damaged, Refused
from cordwood.machine import notify
from tests.packaging.conftest import ROOT

UNIT = ROOT / "packaging" / "cordwood.service"


def settings() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def test_the_unit_keeps_the_data_and_gives_no_rights() -> None:
    said = settings()
    assert said["Type"] == ["notify"]
    assert said["StateDirectory"] == ["cordwood"]
    assert "--data %S/cordwood" in said["ExecStart"][0]
    assert said["DynamicUser"] == said["NoNewPrivileges"] == ["yes"]
    assert said["ProtectSystem"] == ["strict"]
    assert said["CapabilityBoundingSet"] == [""]
    assert said["KillSignal"] == ["SIGTERM"]


def test_what_needs_a_person_is_not_started_again() -> None:
    assert settings()["Restart"] == ["on-failure"]
    assert settings()["RestartPreventExitStatus"] == [f"{Refused.exit_code} {Damaged.exit_code}"]


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze")
    # It wants the program to be there.
    unit = tmp_path / "cordwood.service"
    unit.write_text(UNIT.read_text().replace("/opt/cordwood/bin/cordwood", sys.executable))
    checked = subprocess.run([analyze, "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60)
    ours = [line for line in checked.stderr.splitlines() if "cordwood.service" in line]
    assert not ours
    rated = subprocess.run(
        [analyze, "security", "--offline=true", "--threshold=25", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert rated.returncode == 0, rated.stdout[-500:]


def test_the_broker_says_when_it_is_ready_and_when_it_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        variables = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
        command = [sys.executable, "-m", "cordwood", "serve", "--memory", "--port", "0"]
        broker = subprocess.Popen(command, env=variables, stderr=subprocess.DEVNULL)
        try:
            assert manager.recv(100) == b"READY=1"
        finally:
            broker.send_signal(signal.SIGTERM)
        assert manager.recv(100) == b"STOPPING=1"
        assert broker.wait(60) == 0


def test_without_anybody_to_tell_nothing_happens(tmp_path: Path) -> None:
    notify.tell(notify.READY, {})
    notify.tell(notify.READY, {"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    notify.tell(notify.READY, {"NOTIFY_SOCKET": "@nobody-listens-here"})
