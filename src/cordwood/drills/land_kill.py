"""A real driver that lands a topic, killed with SIGKILL at every step of a batch, and started again.

    planned      Spark has the offsets of the batch, nothing is written
    staged       its files are written, and nobody knows them
    noted        it counts, and none of its files is in the table
    half moved   some of its files are
    moved        all of them are, and Spark does not know
    committed    Spark knows

Behind each kill no message may be in the table twice; in the end each is there once, in the table or among those
that do not fit. After every other kill the last file of the checkpoint's `commits/` is deleted, too.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.dataset as ds

from cordwood.client.client import Client

STEPS = ("planned", "staged", "half moved", "noted", "moved", "committed")
TOPIC, PARTITIONS = "drill", 3
ROUND = 100  # messages
CHILD_S = 600  # a process that hangs is a finding; a slow machine is none

Place = tuple[int, int]


@dataclass(slots=True)
class Report:
    kills: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    rejected: int = 0
    wrong: list[str] = field(default_factory=list)


def run(kills: int, steps: Sequence[str] = STEPS) -> Report:
    """Kill a driver so often at each of the steps; return what was found."""
    report = Report()
    with tempfile.TemporaryDirectory(prefix="cordwood-land-") as scratch:
        root = Path(scratch)
        with _broker(root / "data") as endpoint, Client(endpoint) as client:
            client.create_topic(TOPIC, PARTITIONS)
            sent: Counter[Place] = Counter()
            misfits: set[Place] = set()
            for number in range(kills):
                for step in steps:
                    _send(client, sent, misfits)
                    _killed(root, endpoint, step, report)
                    _check(root, sent, report, f"behind the kill at {step!r}, round {number}", all_of_it=False)
                    if report.kills.total() % 2:
                        _forget_last_commit(root / "table_checkpoint")
            _land(root, endpoint, "")
            _check(root, sent, report, "in the end", all_of_it=True)
            if set(_places(root / "table_rejected")) != misfits:
                report.wrong.append("those that do not fit are not those that are aside")
            report.messages, report.rejected = sent.total(), len(misfits)
    return report


def _send(client: Client, sent: Counter[Place], misfits: set[Place]) -> None:
    """Send messages that fit, that do not, and that have a field too many."""
    for number in range(sent.total(), sent.total() + ROUND):
        fits = number % 10 != 7  # so that each batch has files in both tables
        value = {"id": number, "name": f"n{number}"} | ({"late": 1} if number % 20 == 3 else {})
        done = client.produce(TOPIC, value if fits else "no JSON", partition=number % PARTITIONS)
        assert done.offset is not None, "it was not sent twice"
        sent[done.partition, done.offset] += 1
        if not fits:
            misfits.add((done.partition, done.offset))


def _killed(root: Path, endpoint: str, step: str, report: Report) -> None:
    hit = root / "hit"
    hit.unlink(missing_ok=True)
    code, said = _land(root, endpoint, step)
    if code == -signal.SIGKILL and hit.exists() and hit.read_text().startswith(step):
        report.kills[step] += 1
    else:
        report.wrong.append(f"it did not die at {step!r}, but ended with {code}: {said[-300:]}")


def _land(root: Path, endpoint: str, step: str) -> tuple[int, str]:
    """Run a driver to its end, and what it started as well."""
    command = [sys.executable, "-m", "cordwood.drills.land_driver", endpoint, TOPIC]
    with (root / "said").open("w+b") as said:
        driver = subprocess.Popen(
            [*command, str(root / "table"), step, str(root / "hit")], stderr=said, stdout=said, start_new_session=True
        )
        try:
            code = driver.wait(CHILD_S)
        finally:
            _end(driver.pid)
            driver.wait()
        said.seek(0)
        return code, said.read().decode(errors="replace")


def _end(group: int) -> None:
    """Kill what is left of a session; Spark's own process notices only after a while that its driver is gone."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _check(root: Path, sent: Counter[Place], report: Report, when: str, *, all_of_it: bool) -> None:
    found = _places(root / "table") + _places(root / "table_rejected")
    twice = [place for place, count in found.items() if count > 1]
    if twice:
        report.wrong.append(f"{when}: {len(twice)} messages are there twice, such as {twice[0]}")
    if found - sent:
        report.wrong.append(f"{when}: {(found - sent).total()} messages too many")
    if all_of_it and sent - found:
        report.wrong.append(f"{when}: {(sent - found).total()} messages are missing, such as {min(sent - found)}")


def _places(table: Path) -> Counter[Place]:
    """Return which messages a reader that knows nothing of us sees, and how often."""
    if not table.exists():
        return Counter()
    found = ds.dataset(table, format="parquet").to_table(columns=["partition", "offset"]).to_pylist()
    return Counter((row["partition"], row["offset"]) for row in found)


def _forget_last_commit(checkpoint: Path) -> None:
    commits = [one for one in (checkpoint / "commits").glob("*") if one.name.isdigit()]
    if commits:
        last = max(commits, key=lambda file: int(file.name))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


@contextmanager
def _broker(data: Path) -> Iterator[str]:
    """Yield the address of a broker with a process of its own."""
    command = [sys.executable, "-m", "cordwood", "serve", "--data", str(data), "--port", "0"]
    broker = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    try:
        assert broker.stderr is not None
        for line in broker.stderr:
            found = re.search(rb"listening on (http://127\.0\.0\.1:\d+)", line)
            if found:
                yield found[1].decode()
                return
        raise AssertionError(f"the broker ended with {broker.wait()}")
    finally:
        _end(broker.pid)
        broker.wait()


def main() -> int:
    """Run the drill by itself: python -m cordwood.drills.land_kill [KILLS]"""
    report = run(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    print(json.dumps({"kills": report.kills, "messages": report.messages, "wrong": report.wrong}))
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
