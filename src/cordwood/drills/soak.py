"""A real soak: a broker with its tier under half of its peak load, for an hour; does anything grow, or come late?

    peak      a few seconds as fast as it goes, to know the rate
    soak      half of that, sampled every few seconds
    end       every message is counted, and its place checked
    verdict   the median of the last quarter against that of the second; the first is warm-up

python -m cordwood.drills soak --minutes 60 --out soak        writes soak.json and soak.svg
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from cordwood.client.client import Client
from cordwood.drills.soak_chart import chart
from cordwood.drills.soak_load import GROUP
from cordwood.serving import Serving

TOPIC = "soak"
PRODUCERS = 2
PEAK_S = 5.0
SAMPLES = 400  # at most, over the whole soak
SHORTEST_MINUTES = 0.2
CACHE_BYTES = 16 << 20  # so that it is full within the warm-up: while it fills, memory grows, as it should
WAIT_S = 120.0  # for what was sent to be consumed, in the end


@dataclass(frozen=True, slots=True)
class Measure:
    """Something that is sampled: what it may grow by and still be flat, as a share and absolutely."""

    name: str
    unit: str
    share: float
    least: float


# The tolerances: an allocator and a page cache breathe; a leak grows with every message, and an hour has many.
MEASURES: tuple[Measure, ...] = (
    Measure("rss", "MiB", 0.10, 16.0),
    Measure("files", "handles", 0.10, 8.0),
    Measure("threads", "threads", 0.10, 2.0),
    Measure("p50", "ms", 0.50, 1.0),
    Measure("p99", "ms", 1.00, 10.0),
    Measure("journal", "MiB", 0.50, 256.0),  # segments come and go by 64 MiB
    Measure("tier_lag", "messages", 0.50, 500_000.0),  # what fills an object or a minute waits for it
)


@dataclass(slots=True)
class Report:
    """What was seen."""

    minutes: float
    peak: float = 0.0
    rate: float = 0.0
    times: list[float] = field(default_factory=list)
    samples: dict[str, list[float]] = field(default_factory=lambda: {measure.name: [] for measure in MEASURES})
    sent: int = 0
    wrong: list[str] = field(default_factory=list)


def quarters(values: Sequence[float]) -> tuple[float, float]:
    """Return the medians of the second and of the last quarter."""
    quarter = max(1, len(values) // 4)
    return median(values[quarter : 2 * quarter] or values), median(values[-quarter:])


def grown(measure: Measure, values: Sequence[float]) -> str | None:
    """Say how a measure grew beyond what it may; None if it is flat."""
    before, after = quarters(values)
    if after <= before + max(measure.least, before * measure.share):
        return None
    return f"{measure.name} grew from {before:.1f} to {after:.1f} {measure.unit}"


class Load:
    """One process of the load, and what it said last."""

    def __init__(self, *arguments: str):
        command = [sys.executable, "-m", "cordwood.drills.soak_load", *arguments]
        self.said: dict[str, Any] = {}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said = json.loads(line)

    def check(self) -> None:
        """Raise RuntimeError if it ended by itself."""
        if self._process.poll() is not None:
            raise RuntimeError(
                f"a process of the load ended with code {self._process.returncode}; it said {self.said}"
            )

    def end(self) -> dict[str, Any]:
        """Have it finish; return what it said last."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join(5)
        return self.said


def sample(pid: int, journal: Path) -> dict[str, float]:
    """Return what a broker's process has now."""
    at = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (at / "status").read_text().splitlines() if ":" in line)
    return {
        "rss": int(status["VmRSS"].split()[0]) / 1024,
        "threads": float(status["Threads"]),
        "files": float(len(os.listdir(at / "fd"))),
        "journal": sum(path.stat().st_size for path in journal.iterdir()) / (1 << 20),
    }


def run(minutes: float, tell: Any = print) -> Report:
    """Soak for so many minutes; return what was seen, and what was wrong."""
    report = Report(minutes)
    directory = Path(tempfile.mkdtemp(prefix="cordwood-soak-"))
    broker = Serving(directory, "--set", f"cache_bytes={CACHE_BYTES}")
    try:
        broker.start()
        with Client(broker.endpoint) as client:
            client.create_topic("peak", PRODUCERS, retention_bytes=64 << 20)
            report.peak = _peak(broker.endpoint)
            client.delete_topic("peak")
            report.rate = report.peak / 2
            tell(f"  peak {report.peak:,.0f} messages/s, so {report.rate:,.0f}/s for {minutes:g} minutes")
            # What was read goes, and with it its objects: else an hour would fill the disk, and prove nothing more.
            client.create_topic(TOPIC, PRODUCERS, discard="acked", retention_bytes=256 << 20)
            client.set_group(TOPIC, GROUP, mode="ordered", lease_ms=120_000)
            _soak(report, broker, directory / "data" / "journal", client, tell)
            report.wrong += [
                found for measure in MEASURES if (found := grown(measure, report.samples[measure.name])) is not None
            ]
    finally:
        broker.stop()
        shutil.rmtree(directory, ignore_errors=True)
    return report


def _peak(endpoint: str) -> float:
    loads = [Load("produce", endpoint, "peak", str(number), "0") for number in range(PRODUCERS)]
    while not all(load.said for load in loads):
        for load in loads:
            load.check()
        time.sleep(0.1)
    before, begun = [load.said["sent"] for load in loads], time.monotonic()
    while time.monotonic() - begun < PEAK_S or any(
        load.said["sent"] == at for load, at in zip(loads, before, strict=True)
    ):
        time.sleep(0.05)
    rate: float = (sum(load.said["sent"] for load in loads) - sum(before)) / (time.monotonic() - begun)
    for load in loads:
        load.end()
    return rate


def _soak(report: Report, broker: Serving, journal: Path, client: Client, tell: Any) -> None:
    consumer = Load("consume", broker.endpoint, TOPIC)
    each = str(report.rate / PRODUCERS)
    producers = [Load("produce", broker.endpoint, TOPIC, str(number), each) for number in range(PRODUCERS)]
    begun = time.monotonic()
    period = max(min(2.0, report.minutes * 60 / 8), report.minutes * 60 / SAMPLES)
    told = begun
    while time.monotonic() - begun < report.minutes * 60 or not report.times:
        time.sleep(period)
        for load in (consumer, *producers):
            load.check()
        said = [load.said for load in producers if "p50_ms" in load.said]
        if not said:
            continue
        now = sample(broker.pid, journal)
        now["p50"] = max(one["p50_ms"] for one in said)
        now["p99"] = max(one["p99_ms"] for one in said)
        partitions = client.topic(TOPIC)["partitions"]
        now["tier_lag"] = float(sum(one["end_offset"] - one["tiered_offset"] for one in partitions))
        report.times.append(time.monotonic() - begun)
        for name, value in now.items():
            report.samples[name].append(value)
        if time.monotonic() - told >= 60:
            told = time.monotonic()
            text = ", ".join(f"{name} {value:.1f}" for name, value in now.items())
            tell(f"  … {(told - begun) / 60:.0f} min: {text}, consumed {consumer.said.get('got', 0):,}")
    sent = [load.end() for load in producers]
    got = consumer.end()
    report.sent = sum(one.get("sent", 0) for one in sent)
    if not all(one.get("end") for one in (*sent, got)):
        report.wrong.append(f"a producer or the consumer did not finish: {[*sent, got]}")
    if got.get("wrong"):
        report.wrong.append(f"{got['wrong']} messages were missing, doubled or out of order")
    for number, one in enumerate(sent):
        came = got.get("ends", {}).get(str(number))
        if came != one["sent"]:
            report.wrong.append(f"partition {number}: {one['sent']} were acknowledged, and {came} came")
    ends = [one["end_offset"] for one in client.topic(TOPIC)["partitions"]]
    if ends != [one["sent"] for one in sent]:
        report.wrong.append(f"the partitions end at {ends}")


def table(report: Report) -> str:
    """Return what was seen, for people."""
    lines = [f"  {'':10}{'2nd quarter':>14}{'last quarter':>14}  unit       may grow by"]
    for measure in MEASURES:
        before, after = quarters(report.samples[measure.name])
        bound = f"{measure.share:.0%}, or {measure.least:g}"
        lines.append(f"  {measure.name:10}{before:14.1f}{after:14.1f}  {measure.unit:9}  {bound}")
    return "\n".join(lines)


def main(minutes: float, out: str) -> int:
    """Soak, print, write `out`.json and `out`.svg; return 1 if something grew or is wrong."""
    if minutes < SHORTEST_MINUTES:
        print(f"a soak has quarters to compare: give it {SHORTEST_MINUTES} minutes at least", file=sys.stderr)
        return 2
    print(f"soak: {minutes:g} minutes", flush=True)
    report = run(minutes, tell=lambda line: print(line, flush=True))
    print(table(report))
    print(f"  {report.sent:,} messages sent, consumed in order and counted, {len(report.times)} samples")
    facts = {
        "minutes": report.minutes,
        "peak_per_s": round(report.peak),
        "rate_per_s": round(report.rate),
        "messages": report.sent,
        "seconds": [round(when, 1) for when in report.times],
        "samples": report.samples,
        "wrong": report.wrong,
        "verdict": "failed" if report.wrong else "passed",
    }
    Path(f"{out}.json").write_text(json.dumps(facts, indent=1) + "\n")
    Path(f"{out}.svg").write_text(chart(report.times, {one.name: report.samples[one.name] for one in MEASURES}))
    for line in report.wrong:
        print(f"  WRONG {line}")
    print(f"soak: {facts['verdict']}; {out}.json and {out}.svg")
    return 1 if report.wrong else 0
