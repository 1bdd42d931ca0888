"""Outboxes whose process is gone."""

from pathlib import Path

from cordwood.client.endpoint import endpoint as parse
from cordwood.edge import running
from cordwood.edge.event import draft
from cordwood.machine.clock import SystemClock


def left(root: Path, execution: str, topic: str, endpoint: str, *values: bytes) -> Path:
    """Leave one behind that was meant for a broker and has sent nothing; return its directory."""
    path, log = running.begin(root, execution, topic, parse(endpoint).url, 1 << 30, SystemClock())
    log.append([draft(value, None, None, None, 0) for value in values])
    log.close()
    return path
