"""The outbox: what an append costs, how threads share it, how fast a backlog drains, how light it is.

append       one thread beside raw write + fdatasync of as many bytes, in turns
threads      sixteen that append beside one
drain        a million events that wait for a broker, once it is there, beside `send_table` with the same batches
light        the time to import it, and the memory of one that idles
"""

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import pyarrow as pa

from cordwood import Outbox, Producer
from cordwood.bench import raw
from cordwood.bench.ours import IN_FLIGHT
from cordwood.bench.result import Result, alone, at_least, at_most, compared
from cordwood.bench.served import Served
from cordwood.record import TIME

Tell = Callable[[str], None]

NOBODY = "http://127.0.0.1:9"  # so that only appends are measured
TOPIC = "events"
VALUE = bytes(range(100))
BATCH = 10_000
THREADS = 16
FRAME_BYTES = 240  # of one event of 100 bytes in the log
MIB = 1 << 20
IMPORT = "import time; t = time.perf_counter(); from cordwood import Outbox; print(time.perf_counter() - t)"


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured. The defaults take about three minutes."""

    rounds: int = 7
    appends: int = 500
    drains: int = 3
    events: int = 1_000_000
    small_events: int = 200_000  # appended one by one, which takes a while
    idle: int = 50


QUICK = Effort(rounds=3, appends=200, drains=1, events=300_000, small_events=100_000, idle=20)


def measure(scratch: Path, effort: Effort, tell: Tell) -> Iterator[Result]:
    """Yield the results of all parts."""
    yield from _append(scratch, effort, tell)
    yield from _drain(scratch, effort, tell)
    yield from _light(scratch, effort, tell)


def _append(scratch: Path, effort: Effort, tell: Tell) -> Iterator[Result]:
    piece = os.urandom(FRAME_BYTES)
    one, many = [], []
    outbox = Outbox(scratch / "append", topic=TOPIC, endpoint=NOBODY)
    with raw.Prepared(scratch / "raw", 4 * MIB) as file:
        for _ in range(effort.rounds):
            beside = median(raw.write_times(file, piece, count=effort.appends))
            times = []
            began = perf_counter()
            for _ in range(effort.appends):
                start = perf_counter()
                outbox.append(VALUE)
                times.append(perf_counter() - start)
            rate = effort.appends / (perf_counter() - began)
            one.append((median(times) * 1e6, beside * 1e6))
            many.append((_threads(outbox, effort.appends * 4), rate))
            tell(f"append {one[-1][0]:.0f} µs, raw {one[-1][1]:.0f} µs; {many[-1][0]:,.0f}/s by {THREADS} threads")
    outbox.stop(0)
    shutil.rmtree(scratch / "append")
    yield compared("append, one thread, p50", "µs", one, at_most(2), "events of 100 bytes; lower is better")
    yield compared(
        f"append, {THREADS} threads", "events/s", many, at_least(2), "they share syncs", against="one thread"
    )


def _threads(outbox: Outbox, count: int) -> float:
    def work() -> None:
        for _ in range(count // THREADS):
            outbox.append(VALUE)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    began = perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count / (perf_counter() - began)


def _drain(scratch: Path, effort: Effort, tell: Tell) -> Iterator[Result]:
    rounds, small = [], []
    for number in range(effort.drains):
        one_by_one = number == effort.drains - 1
        tables, (drained, *_), few = _drain_once(scratch / f"drain-{number}", effort, one_by_one=one_by_one)
        rounds.append((drained, tables))
        tell(f"send_table {tables:,.0f}/s, the outbox drains at {drained:,.0f}/s")
        if few is not None:
            small.append((few, tables))
            tell(f"appended one by one by {THREADS} threads it drains at {few:,.0f}/s")
    yield compared(
        "drain",
        "events/s",
        rounds,
        at_least(0.5),
        f"{effort.events:,} events of 100 bytes, appended with append_many, batches of {BATCH:,}",
        against="send_table",
    )
    yield compared(
        "drain, appended one by one",
        "events/s",
        small,
        None,
        f"{effort.small_events:,} events by {THREADS} threads: some ten in a frame",
        against="send_table",
    )


def _drain_once(directory: Path, effort: Effort, *, one_by_one: bool) -> tuple[float, list[float], float | None]:
    directory.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    boxes = [Outbox(directory / "many", "exec-1", TOPIC, endpoint)]
    boxes[0].append_many(VALUE for _ in range(effort.events))
    with Served(directory, "--port", str(port), "--tier", "none") as service:
        service.create_topic(TOPIC)
        rates = [_drained(boxes[0])]
        few = None
        if one_by_one:
            service.stop()
            time.sleep(0.2)
            box = Outbox(directory / "few", "exec-2", TOPIC, endpoint)
            _threads(box, effort.small_events // THREADS * THREADS)
            boxes.append(box)
    if one_by_one:
        with Served(directory, "--port", str(port), "--tier", "none"):
            few = _drained(boxes[-1])
            for box in boxes:
                box.stop()
    with Served(directory, "--tier", "none") as service:
        tables = _tables(service, effort.events)
    for box in boxes:
        box.stop(0)
    shutil.rmtree(directory)
    return tables, rates, few


def _drained(outbox: Outbox) -> float:
    """Return how many events a second are sent, from the first that are to the last."""
    while not outbox.sent:
        time.sleep(0.0005)
    first, began = outbox.sent, perf_counter()
    outbox.flush(120)
    return (outbox.sent - first) / (perf_counter() - began)


def _tables(service: Served, count: int) -> float:
    values = pa.array([VALUE] * BATCH, pa.binary())
    keys = pa.array([b"exec-1"] * BATCH, pa.binary())
    times = pa.array(range(BATCH), pa.int64()).cast(TIME)
    table = pa.table({"timestamp": times, "key": keys, "value": values})
    waiting: deque = deque()
    with Producer(service.endpoint, TOPIC) as producer:
        producer.send_table(table).result()
        began = perf_counter()
        for _ in range(count // BATCH):
            waiting.append(producer.send_table(table))
            if len(waiting) >= IN_FLIGHT:
                waiting.popleft().result()
        for future in waiting:
            future.result()
        return count / (perf_counter() - began)


def _output(code: str, *options: str) -> str:
    """Return what Python says to this code."""
    return subprocess.run([sys.executable, "-c", code, *options], capture_output=True, check=True, text=True).stdout


def _light(scratch: Path, effort: Effort, tell: Tell) -> Iterator[Result]:
    times = [float(_output(IMPORT)) * 1000 for _ in range(effort.rounds)]
    yield alone("import", "ms", times, at_most(150), "from cordwood import Outbox; no numpy, no pyarrow")
    code = (
        "import sys, time; from cordwood import Outbox\n"
        "def memory():\n"
        "    return int(open('/proc/self/statm').read().split()[1]) * 4096\n"
        "make = lambda n: Outbox(sys.argv[1], f'idle-{n}', 'events', 'http://127.0.0.1:9')\n"
        "boxes = [make(0)]; boxes[0].append(b'x')\n"
        "while boxes[0].last_error is None: time.sleep(0.1)\n"  # then the thread has loaded all that it needs
        "before = memory()\n"
        "for number in range(1, int(sys.argv[2]) + 1): boxes.append(make(number)); boxes[-1].append(b'x')\n"
        "print((memory() - before) / (len(boxes) - 1))\n"
        "for box in boxes: box.stop(0)\n"
    )
    found = float(_output(code, str(scratch / "idle"), str(effort.idle))) / 1e6
    tell(f"import {median(times):.0f} ms, {found:.2f} MB of memory for one that idles")
    shutil.rmtree(scratch / "idle")
    yield alone("memory of an idle outbox", "MB", [found], at_most(1), f"the mean of {effort.idle} in one process")
