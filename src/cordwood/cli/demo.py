"""`cordwood demo`: append, kill -9, recover, verify; counted by reading the log again."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from cordwood.cli.show import bytes_text
from cordwood.journal.fold import Blank
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.journal.survey import survey
from cordwood.journal.verdict import judge
from cordwood.machine.disk import RealDirectory, make_directory

KILLS = 5
LIMITS = Limits(segment_bytes=4 << 20)

# The child says a number only after that message is synced.
CHILD = """
import sys
from pathlib import Path
from cordwood.cli.demo import append_for_ever
append_for_ever(Path(sys.argv[1]))
"""


def append_for_ever(path: Path) -> None:
    """Append messages that hold their own LSN, saying on standard output which are durable, until killed."""
    journal = open_journal(RealDirectory(path), Blank(), LIMITS)
    print("open", flush=True)
    while True:
        print(journal.write([b"message %d " % journal.end + bytes(1000)]), flush=True)


@click.command(short_help="Watch a log survive kill -9.")
@click.option("--keep", is_flag=True, help="Leave the journal on disk and say where it is.")
def demo(keep: bool) -> None:
    """Watch a log survive kill -9: append, kill, recover, and count what is there.

    Example: cordwood demo --keep
    """
    scratch = tempfile.TemporaryDirectory(prefix="cordwood-demo-")
    path = Path(scratch.name) / "journal"
    make_directory(path)
    acknowledged: set[int] = set()
    for kill in range(1, KILLS + 1):
        acknowledged |= _append_and_kill(path, kill)
    found = _recover(path)
    lost = acknowledged - found.keys()
    doubled = [number for number, times in found.items() if times > 1]
    click.echo(
        f"\nread again from disk: {len(acknowledged)} acknowledged, {len(acknowledged & found.keys())} found, "
        f"lost {len(lost)}, duplicated {len(doubled)}"
    )
    directory = RealDirectory(path)
    report = survey(directory)
    directory.close()
    size = sum(segment.size for segment in report.segments)
    verdict = judge(report)
    click.echo(
        f"verified: {len(report.segments)} segments, {bytes_text(size)}, damaged places: {len(verdict.damages)}"
    )
    if keep:
        scratch._finalizer.detach()  # type: ignore[attr-defined]
        click.echo(f"\ntry next:\n  {_us()} wal inspect {path}\n  {_us()} wal verify {path} --json")
    else:
        scratch.cleanup()
        click.echo(f"\ntry next:\n  {_us()} demo --keep\n  {_us()} wal --help\n  make drill")
    if lost or doubled or verdict.damages:
        sys.exit(1)


def _append_and_kill(path: Path, kill: int) -> set[int]:
    """Run a child that appends, kill it with SIGKILL at a random moment, return what it said is durable."""
    command = [sys.executable, "-c", CHILD, str(path)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": _import_path()})
    assert child.stdout is not None
    if child.stdout.readline().strip() != b"open":
        raise click.ClickException("the appending process did not start")
    time.sleep(0.3 + random.random() * 0.5)
    os.kill(child.pid, signal.SIGKILL)
    lines = child.stdout.read().split(b"\n")
    child.wait()
    said = {int(line) for line in lines[:-1] if line}
    click.echo(f"kill -9 no. {kill}: {len(said)} messages had been acknowledged")
    return said


def _recover(path: Path) -> dict[int, int]:
    """Open what the kills left and count every message in it."""
    found: dict[int, int] = {}
    with open_journal(RealDirectory(path), Blank(), LIMITS) as journal:
        for _, entries in journal.frames(journal.first):
            number = int(bytes(entries[0][:40]).split()[1])
            found[number] = found.get(number, 0) + 1
        click.echo(f"recovered: the log goes on at LSN {journal.end}")
    return found


def _us() -> str:
    """Return how this command was called, so that the next one can be called the same way."""
    return sys.argv[0] if Path(sys.argv[0]).name == "cordwood" else "cordwood"


def _import_path() -> str:
    return os.pathsep.join(entry for entry in sys.path if entry)
