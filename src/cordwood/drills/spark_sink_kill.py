"""A streaming query from topic to topic; its driver, its broker and its executors killed at every place of a batch.

    driver    planned, staged, published, committed; and `forgotten`, where the last file of `commits/` is
              deleted besides. Each dies in a batch of its own, and the next driver goes on with the checkpoint
    broker    planned, staged, published: it is started again while the query runs
    executor  planned, written: Spark runs its task again on another, and starts a new one
    executor  raced: nobody dies; a task runs twice at the same time, and both attempts stage all of its rows

What the places mean stands in `spark_sink_trap`. One query goes through all of it, first on this computer, then on
a cluster. A kill counts if the process ended by SIGKILL, and if what Spark had on its disk at that moment is what it
has at that place. Behind each kill of a driver the target must have exactly the messages of the batches that were
published, each once; in the end, all of them.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cordwood.client.client import Client
from cordwood.drills.spark_cluster import Cluster, end_session
from cordwood.spark import java

DRIVER = ("planned", "staged", "published", "committed", "forgotten")
BROKER = ("planned", "staged", "published")
EXECUTOR = ("planned", "written", "raced")
POINTS = (
    *(f"driver {place}" for place in DRIVER),
    *(f"broker {place}" for place in BROKER),
    *(f"executor {place}" for place in EXECUTOR),
)
SOURCE, PARTITIONS, TARGET = "drill", 3, "copy"
BATCH_ROWS = 60  # as the driver's
CHILD_S = 900  # a process that hangs is a finding; a slow machine is none
TRIES = 40

Place = tuple[int, int]


@dataclass(slots=True)
class Report:
    """How often each point was hit, and what was wrong."""

    kills: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    wrong: list[str] = field(default_factory=list)


def reason_to_skip() -> str | None:
    """Return why this cannot run here, in one line; None if it can."""
    if find_spec("pyspark") is None:
        return "pyspark is missing: pip install 'cordwood[spark]'"
    return java.java_home(os.environ)[1]


def run(kills: int, points: Sequence[str] = POINTS, tell: Callable[[str], None] = lambda line: None) -> Report:
    """Kill so often at each of the points; return what was found."""
    with tempfile.TemporaryDirectory(prefix="cordwood-sink-") as scratch:
        broker = _Broker(Path(scratch) / "data")
        try:
            broker.start()
            return _Drill(Path(scratch), broker, tell).run(kills, points)
        finally:
            broker.kill()


class _Drill:
    """One query, and what is done to it."""

    def __init__(self, root: Path, broker: "_Broker", tell: Callable[[str], None]):
        self._root = root
        self._broker = broker
        self._tell = tell
        self._checkpoint = root / "checkpoint"
        self._client = Client(broker.endpoint, tries=TRIES)
        self._sent = 0  # to each partition
        self._report = Report()

    def run(self, kills: int, points: Sequence[str]) -> Report:
        self._client.create_topic(SOURCE, PARTITIONS)
        self._client.create_topic(TARGET, 2)
        for number in range(1, kills + 1):
            for place in [place for place in DRIVER if f"driver {place}" in points]:
                self._kill_driver(place)
            self._tell(f"{number} of {kills} rounds of kills of the driver, {len(self._report.wrong)} wrong")
        others = [point for point in points if not point.startswith("driver ")] * kills
        with Cluster(self._root / "cluster") as cluster:
            self._kill_others(cluster, others)
        self._report.messages = self._sent * PARTITIONS
        self._client.close()
        return self._report

    # Those who die

    def _kill_driver(self, place: str) -> None:
        """Have a driver go on, and die in the first batch that is new."""
        batch = self._send(1)
        at = "committed" if place == "forgotten" else place
        driver = _Driver(self._root, self._broker.endpoint, "local[2]", {batch: f"driver {at}"})
        code = driver.wait()
        note = driver.note(f"{batch}")
        known = {"place": at, "offsets": batch, "commits": batch - (at != "committed")}
        if code != -signal.SIGKILL or note is None or {key: note[key] for key in known} != known:
            self._wrong(f"the driver did not die at {place!r} of batch {batch}, but with {code}, {note}", driver)
            return
        self._report.kills[f"driver {place}"] += 1
        self._check(batch if at in ("published", "committed") else batch - 1, f"behind the kill at {place!r}")
        if place == "forgotten":
            (self._checkpoint / "commits" / f"{batch}").unlink()
            (self._checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)

    def _kill_others(self, cluster: Cluster, points: Sequence[str]) -> None:
        """Have a driver end what a killed one began, and all the rest, though something dies in each batch."""
        first = self._send(len(points))
        at = {first + number: point for number, point in enumerate(points)}
        driver = _Driver(self._root, self._broker.endpoint, cluster.url, at)
        for batch, point in at.items():
            if point.startswith("broker "):
                if not driver.comes_to(f"{batch}"):
                    break
                killed = self._broker.kill() == -signal.SIGKILL
                driver.leave(f"{batch}.dead")
                self._broker.start()
                self._report.kills[point] += killed
        code = driver.wait()
        if code != 0:
            self._wrong(f"the driver ended with {code}, though only others were killed", driver)
        self._check(first + len(points) - 1, "in the end")
        for batch, point in at.items():
            if point == "executor raced":
                self._report.kills[point] += driver.note(f"{batch}.second") is not None
            elif point.startswith("executor "):
                self._report.kills[point] += driver.note(f"{batch}") is not None
        kills = sum(point in ("executor planned", "executor written") for point in points)
        if cluster.executors_killed() != kills:
            self._wrong(f"{cluster.executors_killed()} executors were killed, not {kills}", driver)

    # What is sent, and what arrives

    def _send(self, batches: int) -> int:
        """Send messages for so many batches, and return the number of the first of them."""
        planned = [int(one.name) for one in (self._checkpoint / "offsets").glob("*") if one.name.isdigit()]
        for _ in range(batches * BATCH_ROWS // PARTITIONS):
            for partition in range(PARTITIONS):
                self._client.produce(SOURCE, b"", partition=partition)
            self._sent += 1
        return max(planned, default=-1) + 1

    def _check(self, batch: int, when: str) -> None:
        """See whether the target has exactly what Spark planned up to and with a batch."""
        ends: dict[str, Any] = {}
        plan = self._checkpoint / "offsets" / f"{batch}"
        if plan.exists():
            ends = json.loads(plan.read_text().splitlines()[-1])[SOURCE]
        elif batch >= 0:
            self._report.wrong.append(f"{when}: batch {batch} was never planned")
            return
        wanted = Counter(
            (number, offset) for number in range(PARTITIONS) for offset in range(ends.get(f"{number}", 0))
        )
        found: Counter[Place] = Counter()
        for message in self._client.read(TARGET):
            number, _, offset = (message.value or b"").partition(b":")
            found[int(number), int(offset)] += 1
        for name, places in (("too many", found - wanted), ("missing", wanted - found)):
            if places:
                self._report.wrong.append(f"{when}, batch {batch}: {places.total()} {name}, such as {min(places)}")

    def _wrong(self, text: str, driver: "_Driver") -> None:
        self._report.wrong.append(f"{text}: {driver.said()}")


class _Driver:
    """A process that runs the query with a trap, in a session of its own."""

    def __init__(self, root: Path, endpoint: str, master: str, points: dict[int, str]):
        self._notes = Path(tempfile.mkdtemp(prefix="notes-", dir=root))
        self._log = self._notes / "log"
        trap = {"points": points, "notes": str(self._notes), "checkpoint": str(root / "checkpoint")}
        command = [sys.executable, "-m", "cordwood.drills.spark_sink_driver", master, endpoint, SOURCE, TARGET]
        with self._log.open("wb") as said:
            self._process = subprocess.Popen(
                [*command, json.dumps(trap)],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def wait(self) -> int:
        """Return how it ended; nothing of its session is left then."""
        try:
            return self._process.wait(CHILD_S)
        except subprocess.TimeoutExpired:
            return 0xDEAD
        finally:
            end_session(self._process.pid)
            self._process.wait()

    def comes_to(self, note: str) -> bool:
        """Wait for a note, or for the end; say whether it was the note."""
        until = time.monotonic() + CHILD_S
        while self.note(note) is None:
            if self._process.poll() is not None or time.monotonic() > until:
                return False
            time.sleep(0.005)
        return True

    def note(self, name: str) -> dict[str, Any] | None:
        """Return what a note says, None if it is not there."""
        try:
            found: dict[str, Any] = json.loads((self._notes / name).read_text())
            return found
        except FileNotFoundError:
            return None

    def leave(self, name: str) -> None:
        """Leave a note for it."""
        (self._notes / name).touch()

    def said(self) -> str:
        """Return what it died of, if it says so; else its last words."""
        text = self._log.read_text(errors="replace")
        raised = re.findall(r"^[\w.]*\b[A-Z]\w+: .+", text, re.MULTILINE)
        return " | ".join(raised[-2:])[:600] or text[-300:]


class _Broker:
    """A broker in a process of its own, always at the same port."""

    def __init__(self, data: Path):
        self._data = data
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self._port = taken.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and return when it listens."""
        command = [sys.executable, "-m", "cordwood", "serve", "--data", str(self._data), "--port", str(self._port)]
        log = self._data.with_name("broker.log")
        with log.open("wb") as said:
            self._process = subprocess.Popen(command, stderr=said, start_new_session=True)
        while not re.search(rb"listening on ", log.read_bytes()):
            assert self._process.poll() is None, f"the broker ended: {log.read_text(errors='replace')[-300:]}"
            time.sleep(0.01)

    def kill(self) -> int:
        """Kill it, if it runs, and return how it ended."""
        if self._process is None:
            return 0
        end_session(self._process.pid)
        return self._process.wait()


def main() -> int:
    """Run the drill by itself: python -m cordwood.drills.spark_sink_kill [KILLS [POINT…]]"""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    report = run(kills, sys.argv[2:] or POINTS, lambda line: print(line, file=sys.stderr, flush=True))
    print(json.dumps({"kills": report.kills, "messages": report.messages, "wrong": report.wrong}))
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
