"""`cordwood demo`: produce and consume while the broker is killed with kill -9; counted by reading the log again."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import IO

import click

from cordwood.errors import CordwoodError

KILLS = 3
BETWEEN_S = 1.5  # from one kill to the next
START_S = 30.0
TOPIC, GROUP = "demo", "workers"


class _Broker:
    """`cordwood serve` on a directory; its port stays the same over a restart."""

    def __init__(self, data: Path):
        self._data = data
        self._port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it and return when it listens."""
        command = [sys.executable, "-m", "cordwood", "serve", "--data", str(self._data), "--port", str(self._port)]
        self._process = subprocess.Popen([*command, "--log-level", "error"], stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        found = re.search(r"listening on \S+:(\d+)$", line.strip())
        if found is None:
            rest = self._process.stderr.read()
            raise CordwoodError(f"the broker did not start: {line}{rest}")
        self._port = int(found[1])
        threading.Thread(target=_drain, args=(self._process.stderr,), daemon=True).start()

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it cleanly, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(START_S)
            if self._process.poll() is None:
                self.kill()


def _drain(stream: IO[str]) -> None:
    for _ in stream:
        pass


class _Traffic:
    """A producer and two consumers, each on a thread of its own, that never hear of the kills."""

    def __init__(self, endpoint: str):
        self._endpoint = endpoint
        self._stop = threading.Event()
        self.acknowledged: list[int] = []
        self.delivered: Counter[int] = Counter()
        self.failed: list[str] = []
        self._lock = threading.Lock()
        self._producer = threading.Thread(target=self._produce, daemon=True)
        self._consumers = [threading.Thread(target=self._consume, daemon=True) for _ in range(2)]

    def start(self) -> None:
        for thread in (self._producer, *self._consumers):
            thread.start()

    def finish(self) -> None:
        """Stop producing; return when everything was consumed, too."""
        self._stop.set()
        for thread in (self._producer, *self._consumers):
            thread.join()

    def _produce(self) -> None:
        from cordwood.client.producer import Producer

        number = 0
        try:
            with Producer(self._endpoint, TOPIC) as producer:
                while not self._stop.is_set():
                    sent = [(n, producer.send(b"%d" % n, key=f"user:{n % 100}")) for n in range(number, number + 500)]
                    number += 500
                    for n, future in sent:
                        future.result()
                        self.acknowledged.append(n)
        except CordwoodError as error:
            self.failed.append(f"the producer: {error}")

    def _consume(self) -> None:
        from cordwood.client.consumer import Consumer

        try:
            with Consumer(self._endpoint, TOPIC, group=GROUP, idle_timeout_ms=3000) as consumer:
                while not (self._stop.is_set() and self.complete):
                    for message in consumer:
                        with self._lock:
                            self.delivered[int(message.value or b"-1")] += 1
                        message.ack()
        except CordwoodError as error:
            self.failed.append(f"a consumer: {error}")

    @property
    def complete(self) -> bool:
        """Whether everything that was acknowledged was delivered."""
        with self._lock:
            return len(self.delivered) >= len(self.acknowledged) and not self._producer.is_alive()


@click.command(short_help="Watch messages survive kill -9.")
@click.option("--keep", is_flag=True, help="Leave the data on disk and say where it is.")
def demo(keep: bool) -> None:
    """Watch messages survive: produce and consume, kill the broker with kill -9, start it again, count what is there.

    Example: cordwood demo --keep
    """
    scratch = tempfile.TemporaryDirectory(prefix="cordwood-demo-")
    data = Path(scratch.name) / "data"
    broker = _Broker(data)
    try:
        ok = _run(broker)
    finally:
        broker.stop()
        if keep:
            kept = Path(tempfile.mkdtemp(prefix="cordwood-kept-"))
            os.replace(data, kept / "data")
            click.echo(f"the data is kept: cordwood serve --data {kept / 'data'}")
        scratch.cleanup()
    if not ok:
        sys.exit(1)
    if not keep:
        click.echo("\ntry next:")
        for command in ("serve --data ./data", "topic create clicks", "produce clicks hello"):
            click.echo(f"  cordwood {command}")


def _run(broker: _Broker) -> bool:
    from cordwood.client.client import Client

    broker.start()
    click.echo(f"a broker runs at {broker.endpoint}; a producer and two consumers begin")
    client = Client(broker.endpoint)
    client.create_topic(TOPIC, partitions=2)
    traffic = _Traffic(broker.endpoint)
    traffic.start()
    for kill in range(1, KILLS + 1):
        time.sleep(BETWEEN_S)
        broker.kill()
        sent, got = len(traffic.acknowledged), len(traffic.delivered)
        click.echo(f"kill -9 number {kill}: {sent} messages were acknowledged to the producer, {got} delivered")
        begun = time.monotonic()
        broker.start()
        click.echo(f"  it runs again after {time.monotonic() - begun:.1f} s")
    time.sleep(BETWEEN_S)
    traffic.finish()
    found = Counter(int(message.value or b"-1") for message in client.read(TOPIC))
    return _report(traffic, found, int(client.group(TOPIC, GROUP)["lag"]))


def _report(traffic: _Traffic, found: "Counter[int]", lag: int) -> bool:
    """Print what was counted by reading the log again; say whether all of it is right."""
    acknowledged = set(traffic.acknowledged)
    lost = acknowledged - found.keys()
    doubled = [number for number, times in found.items() if times > 1]
    missed = acknowledged - traffic.delivered.keys()
    again = sum(traffic.delivered.values()) - len(traffic.delivered)
    click.echo(
        f"\nread again from the broker: {len(acknowledged)} acknowledged, {len(acknowledged & found.keys())} found"
    )
    click.echo(f"  lost {len(lost)}, stored twice {len(doubled)}")
    click.echo(f"  delivered {len(traffic.delivered)}, never delivered {len(missed)}, not acked {lag}")
    click.echo(f"  delivered again because the broker died before the ack was on disk: {again}")
    for failure in traffic.failed:
        click.echo(f"  {failure}", err=True)
    return not (lost or doubled or missed or lag or traffic.failed) and bool(acknowledged)
