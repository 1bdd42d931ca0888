"""An outbox on a real filesystem of a few megabytes that fills up while the broker is away."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cordwood.edge import patience
from cordwood.edge.outbox import Outbox
from cordwood.errors import Full
from tests.conftest import skip_for_want_of
from tests.edge.scripted import Scripted


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 12 MiB."""
    if os.geteuid() != 0:
        skip_for_want_of("root, to mount a tmpfs")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        skip_for_want_of(f"the right to mount a tmpfs ({mounted.stderr.strip()})")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)  # a test that failed may have files open


def test_a_full_disk_is_told_keeps_what_was_accepted_and_gets_its_room_back_by_sending(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "FIRST_MS", 10)
    monkeypatch.setattr(patience, "MOST_MS", 50)
    away = (503, {"error": "UNAVAILABLE", "message": "away"}, {})
    with Scripted([away] * 100_000) as server:
        outbox = Outbox(small_disk / "outbox", "e", "t", server.endpoint)
        for _ in range(3):
            accepted = 0
            with pytest.raises(Full, match="no room"):
                for _ in range(1000):
                    outbox.append(os.urandom(50_000))
                    accepted += 1
            assert outbox.pending == accepted > 20, "what was accepted is kept"
            script, server.script[:] = list(server.script), []
            before = outbox.sent
            outbox.flush(30)
            assert outbox.sent - before == accepted
            for _ in range(500):  # room comes back by itself, a moment later
                try:
                    outbox.append(b"again")
                    break
                except Full:
                    outbox.flush(30)
            outbox.flush(30)
            assert outbox.sent - before == accepted + 1
            server.script[:] = script
        server.script.clear()
        assert outbox.stop() == 0
