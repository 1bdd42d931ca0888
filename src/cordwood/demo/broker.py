"""A broker of the demo: `cordwood serve` as a process of its own, on one port through its restarts."""

import re
import subprocess
import sys
import time
from pathlib import Path

from cordwood.errors import CordwoodError

START_S = 60.0
STOP_S = 30.0
POLL_S = 0.02
SETTINGS = ("--set", "tier_interval_s=1")  # or the demo would wait a minute for history
_LISTENS = re.compile(r"^cordwood: listening on (\S+:(\d+))$", re.MULTILINE)


class Broker:
    """Runs on `data`; what it says goes into `said`. Not stopped by the Ctrl-C that stops the demo: it is told."""

    def __init__(self, data: Path, said: Path):
        self._data = data
        self._said = said
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.endpoint = ""

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was started"
        return self._process.pid

    def start(self) -> None:
        """Start it and return when it listens."""
        command = [sys.executable, "-m", "cordwood", "serve", "--data", str(self._data), "--port", str(self._port)]
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [*command, *SETTINGS], stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )
        end = time.monotonic() + START_S
        while (found := _LISTENS.search(self._said.read_text(errors="replace"))) is None:
            if self._process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise CordwoodError(f"the broker did not start: {self._said.read_text(errors='replace').strip()}")
            time.sleep(POLL_S)
        self.endpoint, self._port = found[1], int(found[2])

    def kill(self) -> None:
        """End it as `kill -9` does."""
        assert self._process is not None, "it was started"
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it cleanly, if it runs."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
