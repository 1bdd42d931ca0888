"""`cordwood serve` as a process of its own, for what shows, measures or strains a broker on this machine."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from cordwood.errors import CordwoodError
from cordwood.settings import PREFIX

START_S = 60.0
STOP_S = 30.0
POLL_S = 0.02
AGAIN_S = 0.2
_TAKEN = "address already in use"
_LISTENS = re.compile(r"^cordwood: listening on (\S+:(\d+))$", re.MULTILINE)


def environment() -> dict[str, str]:
    """Return ours without what the user has set for a broker of their own: it does not concern this one."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


class Serving:
    """A broker on `directory`/data; what it says goes into `directory`/broker.log. Its port stays through restarts.

    Not stopped by the Ctrl-C that stops its owner: it is told.
    """

    def __init__(self, directory: Path, *options: str):
        self._data = directory / "data"
        self._log = directory / "broker.log"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.endpoint = ""
        self.port = 0

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was started"
        return self._process.pid

    def start(self) -> None:
        """Start it and return when it listens. Raises CordwoodError when it does not.

        While it was away a connection of somebody who looked for it may have got its port; such are gone soon.
        """
        end = time.monotonic() + START_S
        process = self._begin()
        try:
            while (found := _LISTENS.search(self._log.read_text(errors="replace"))) is None:
                ended, late = process.poll() is not None, time.monotonic() > end
                said = self._log.read_text(errors="replace").strip()
                if ended and not late and self.port and _TAKEN in said:
                    time.sleep(AGAIN_S)
                    process = self._begin()
                elif ended or late:
                    raise CordwoodError(f"the broker did not start: {said or 'it said nothing'}")
                else:
                    time.sleep(POLL_S)
        except BaseException:
            self.kill()
            raise
        self.endpoint, self.port = found[1], int(found[2])

    def _begin(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "cordwood", "serve", "--data", str(self._data), "--port", str(self.port)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *self._options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=environment(),
            )
        return self._process

    def kill(self) -> None:
        """End it as `kill -9` does."""
        assert self._process is not None, "it was started"
        self._process.kill()
        self._process.wait()

    def drop(self) -> None:
        """End it as `kill -9` does, if it was started."""
        if self._process is not None:
            self.kill()

    def stop(self) -> None:
        """End it cleanly, if it runs."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
