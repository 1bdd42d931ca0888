"""Real workers that append and send, killed with SIGKILL at random moments; the broker is killed under them, too.

Each worker is an execution of its own in one root, so it also sends what those before it left. It tells over a pipe
which appends have returned. In the end the topic must have every one of these once, and each execution's events in
order, without a gap.
"""

import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cordwood.client.client import Client
from cordwood.edge import patience
from cordwood.edge.look import outboxes
from cordwood.edge.outbox import Outbox

TOPIC, PARTITIONS = "drill", 3
START_S = 60
DRAIN_S = 120
BROKER_KILLS = 4  # every so many rounds the broker is killed as well
TOLD = struct.Struct("<Q")


@dataclass(slots=True)
class Report:
    kills: int = 0
    broker_kills: int = 0
    acknowledged: int = 0
    stored: int = 0
    wrong: list[str] = field(default_factory=list)


def run(seed: int, kills: int, tell: Callable[[str], None] = lambda line: None) -> Report:
    """Kill so many workers, and the broker now and then; return what was found."""
    report = Report()
    draw = random.Random(seed)
    known: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="cordwood-outbox-") as scratch:
        broker = _Broker(Path(scratch) / "data")
        root = Path(scratch) / "outbox"
        try:
            with Client(broker.endpoint) as client:
                client.create_topic(TOPIC, PARTITIONS)
            for number in range(kills):
                execution = f"life-{number}"
                dies = number % BROKER_KILLS == 0
                known[execution] = _life(root, execution, broker, draw, broker_dies=dies)
                report.kills += 1
                report.broker_kills += dies
                if number % 20 == 19:
                    tell(f"{number + 1} kills, {len(outboxes(root))} left-overs, {sum(known.values())} acknowledged")
            _drain(root, broker.endpoint, report)
            _check(broker.endpoint, known, report)
        finally:
            broker.stop()
    if report.wrong:
        report.wrong = [f"{line} [seed {seed}]" for line in report.wrong]
    return report


def _life(root: Path, execution: str, broker: "_Broker", draw: random.Random, *, broker_dies: bool) -> int:
    """Let a worker live for a moment, kill it, and return how many of its appends had returned."""
    reading, writing = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.close(reading)
        try:
            _work(root, execution, broker.endpoint, writing)
        finally:
            os._exit(1)
    os.close(writing)
    try:
        said = os.read(reading, TOLD.size)  # its first append
        time.sleep(draw.random() * 0.4)
        if broker_dies:
            broker.kill()
            time.sleep(draw.random() * 0.05)
            broker.start()
            time.sleep(draw.random() * 0.2)
        os.kill(worker, signal.SIGKILL)
        while piece := os.read(reading, 1 << 16):
            said += piece
    finally:
        os.close(reading)
        os.waitpid(worker, 0)
    whole = len(said) // TOLD.size * TOLD.size
    return max((number for (number,) in TOLD.iter_unpack(said[:whole])), default=0)


def _work(root: Path, execution: str, endpoint: str, pipe: int) -> None:
    patience.FIRST_MS, patience.MOST_MS = 10, 100  # the drill has many tries to see, not long waits
    outbox = Outbox(root, execution=execution, topic=TOPIC, endpoint=endpoint, linger_ms=2)
    draw = random.Random(execution)
    number = 0
    while True:
        many = draw.choice((1, 1, 1, 1, 20, 300))
        outbox.append_many(f"{execution}:{number + step}:{'x' * draw.randrange(200)}" for step in range(many))
        number += many
        os.write(pipe, TOLD.pack(number))


def _drain(root: Path, endpoint: str, report: Report) -> None:
    """Send what the dead have left."""
    waits = (patience.FIRST_MS, patience.MOST_MS)
    patience.FIRST_MS, patience.MOST_MS = 10, 100
    try:
        with Outbox(root, execution="last", topic=TOPIC, endpoint=endpoint):
            until = time.monotonic() + DRAIN_S
            while len(outboxes(root)) > 1:
                if time.monotonic() > until:
                    left = [path.name for path in outboxes(root)]
                    report.wrong.append(f"{len(left)} outboxes are not sent after {DRAIN_S} s, such as {left[0]}")
                    return
                time.sleep(0.02)
    finally:
        patience.FIRST_MS, patience.MOST_MS = waits


def _check(endpoint: str, known: dict[str, int], report: Report) -> None:
    report.acknowledged = sum(known.values())
    found: dict[str, list[int]] = defaultdict(list)
    with Client(endpoint) as client:
        for partition in range(PARTITIONS):
            for message in client.read(TOPIC, partition=partition):
                assert message.value is not None, "no event of the drill is a tombstone"
                execution, number, _ = message.value.decode().split(":")
                found[execution].append(int(number))
    report.stored = sum(map(len, found.values()))
    for execution, acknowledged in known.items():
        numbers = found[execution]
        if len(set(numbers)) < len(numbers):
            report.wrong.append(f"{execution}: {len(numbers) - len(set(numbers))} events are there twice")
        if len(set(numbers)) < acknowledged:
            report.wrong.append(f"{execution}: {acknowledged} were acknowledged, {len(set(numbers))} are there")
        if numbers != list(range(len(numbers))):
            report.wrong.append(f"{execution}: its events are out of order, or one is missing between others")


class _Broker:
    """A broker with a process and a port of its own, which it keeps when it is started again."""

    def __init__(self, data: Path):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._port = listener.getsockname()[1]
        self._data = data
        self.endpoint = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it and return when it listens."""
        command = [sys.executable, "-m", "cordwood", "serve", "--data", str(self._data), "--port", str(self._port)]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
        assert self._process.stderr is not None
        until = time.monotonic() + START_S
        for line in self._process.stderr:
            if re.search(rb"listening on http://", line):
                return
            assert time.monotonic() < until, "the broker starts"
        raise AssertionError(f"the broker ended with {self._process.wait()}")

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        assert self._process is not None and self._process.stderr is not None
        self._process.kill()
        self._process.wait()
        self._process.stderr.close()

    def stop(self) -> None:
        """End it for good."""
        if self._process is not None and self._process.poll() is None:
            self.kill()


def main() -> int:
    """Run the drill by itself: python -m cordwood.drills.outbox_kill [KILLS [SEED]]"""
    report = run(int(sys.argv[2]) if len(sys.argv) > 2 else 1, int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    print(report)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
