"""The job of the demo: any command, wrapped in `cordwood run`, that works on while the broker is dead."""

import subprocess
import sys
from pathlib import Path

from cordwood.edge.running import send_left_overs
from cordwood.serving import environment

TOPIC, EXECUTION = "job-events", "nightly/1"
LINES = 60
EVERY_S = 0.15
END_S = 60.0
_SCRIPT = """
import sys, time
for step in range(int(sys.argv[1])):
    print("step", step, flush=True)
    time.sleep(float(sys.argv[2]))
"""


class Job:
    """Prints a line now and then. Knows nothing of a broker."""

    def __init__(self, endpoint: str, root: Path):
        command = [sys.executable, "-m", "cordwood", "run", "--topic", TOPIC, "--execution", EXECUTION]
        self._endpoint, self._root = endpoint, root
        there = ["--outbox", str(root), "--endpoint", endpoint]
        script = [sys.executable, "-c", _SCRIPT, str(LINES), str(EVERY_S)]
        self._process = subprocess.Popen(
            [*command, *there, "--", *script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def finish(self) -> str | None:
        """Wait for its end, and until its events are sent; return what went wrong, None when all is well."""
        try:
            printed, said = self._process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            self.stop()
            return f"the job did not end within {END_S:.0f} s"
        if self._process.returncode or printed.splitlines() != expected():
            return f"the job ended with {self._process.returncode}: {said.strip() or printed[-200:]}"
        # `cordwood run` waits for the broker only a while; what it left is sent as `cordwood outbox send` does it.
        left = send_left_overs(self._root, self._endpoint, timeout_s=END_S)
        return f"{left} events of the job were not sent: {said.strip()}" if left else None

    def stop(self) -> None:
        """End it, if it runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def expected() -> list[str]:
    """Return the lines that it prints."""
    return [f"step {step}" for step in range(LINES)]
