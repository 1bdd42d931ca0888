"""A server that runs as our child: started, waited for, and stopped by its own process id."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cordwood.bench.peers.peer import Missing

START_SECONDS = 60
STOP_SECONDS = 15


def program(name: str, *first: Path) -> str:
    """Return the path of an installed program: in one of these directories, beside this Python, or in PATH."""
    places = [*map(str, first), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath), "/usr/sbin"]
    found = shutil.which(name, path=os.pathsep.join(places))
    if found is None:
        raise Missing(f"{name} is not installed")
    return found


def package(name: str) -> None:
    """Return if this Python package is installed."""
    if importlib.util.find_spec(name) is None:
        raise Missing(f"the Python package {name} is not installed")


def free_port() -> int:
    """Return a loopback port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """One process in a session of its own, so that a Ctrl-C reaches the bench and not the servers it measures."""

    def __init__(
        self,
        command: Sequence[str],
        directory: Path,
        *,
        port: int,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
    ):
        """Start it, and return once the port answers."""
        self._log = directory / "server.log"
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=directory,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=user,
                extra_groups=[] if user else None,
            )
        try:
            self._wait_for(port)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it, politely first."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)  # the group is its own: see start_new_session
                self.process.wait()

    def check(self) -> None:
        """Return if it runs. Raises Missing with what it said when it has ended."""
        if self.process.poll() is not None:
            raise Missing(f"it ended with code {self.process.returncode}: {self._last_line()}")

    def _wait_for(self, port: int) -> None:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            self.check()
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise Missing(f"it did not answer within {START_SECONDS} s: {self._last_line()}")

    def _last_line(self) -> str:
        """Return what it said in the end; why it gave up, where it says so."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        fatal = [line for line in lines if "FATAL" in line]
        return [*lines, *fatal][-1] if lines else "it said nothing"
