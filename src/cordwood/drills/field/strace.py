"""Faults of the kernel's own calls, injected by strace into the broker that it runs."""

import os
from pathlib import Path

from cordwood.drills.field.stage import need_tool


def injecting(calls: str, fault: str, log: Path | str = os.devnull) -> list[str]:
    """Return the command that runs a broker with a fault in some calls, or skip the drill if there is no strace.

    A fault is what strace takes: `delay_enter=50000`, `error=EIO:when=40+`, `signal=SIGKILL:when=3`. Each of these
    calls is a line in `log`, or two when another thread's came between its begin and its end; see `calls_in`.
    """
    strace = need_tool("strace", "apt-get install strace")
    # Stopped at these calls alone it is faster by far; but then strace sends no signals.
    speed = [] if fault.startswith("signal=") else ["--seccomp-bpf"]
    command = [strace, "-f", *speed, "-qq", "-o", str(log), "-e", f"trace={calls}"]
    return [*command, "-e", f"inject={calls}:{fault}"]


def calls_in(log: Path, call: str) -> int:
    """Return how often a call was begun."""
    return log.read_text(errors="replace").count(f"{call}(")
