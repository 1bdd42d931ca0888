"""Who leaves the demo in the middle leaves nothing behind."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("scene", "number"), [("messages go in and come out", signal.SIGINT), ("there is no broker", signal.SIGTERM)]
)
def test_everything_is_removed_and_that_is_said(tmp_path: Path, scene: str, number: signal.Signals) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-u", "-m", "cordwood", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell has its background jobs ignore it
    )
    assert demo.stdout is not None
    said = ""
    for line in demo.stdout:
        said += line
        if scene in line:
            break
    demo.send_signal(number)
    said += demo.stdout.read()
    assert demo.wait() == 130
    assert said.splitlines()[-1].strip() == "broken off; everything is removed again"
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []
    port = re.search(r"http://127\.0\.0\.1:(\d+)", said)
    assert port is not None
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(port[1]))) != 0, "the broker is gone, too"
