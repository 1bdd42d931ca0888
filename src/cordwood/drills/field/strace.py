"""Faults of the kernel's own calls, injected by strace into the broker that it runs."""

import os

from cordwood.drills.field.stage import need_tool


def injecting(calls: str, fault: str) -> list[str]:
    """Return the command that runs a broker with a fault in some calls, or skip the drill if there is no strace.

    A fault is what strace takes: `delay_enter=50000`, `error=EIO:when=40+`, `signal=SIGKILL:when=3`.
    """
    strace = need_tool("strace", "apt-get install strace")
    # Stopped at these calls alone it is faster by far; but then strace sends no signals.
    speed = [] if fault.startswith("signal=") else ["--seccomp-bpf"]
    command = [strace, "-f", *speed, "-qq", "-o", os.devnull, "-e", f"trace={calls}"]
    return [*command, "-e", f"inject={calls}:{fault}"]
