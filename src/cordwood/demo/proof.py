"""Whether everything is there, and once. Pure.

acknowledged ⊆ log, each once          what the broker said yes to is stored, and not twice
acknowledged ⊆ delivered, lag 0        and somebody worked on it
log = history = table, each once       and the Parquet says the same as the log
the job's lines, in order              and so does what an outbox carried over the crash
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cordwood.demo.traffic import Order


@dataclass(frozen=True, slots=True)
class Seen:
    """What was claimed, and what was found by reading. `table` is None when there is no Spark to land one."""

    sent: int
    acknowledged: frozenset[Order]
    delivered: Counter[Order]
    lag: int
    log: Counter[Order]
    history: Counter[Order]
    table: Counter[Order] | None
    job: Sequence[str]
    job_wanted: Sequence[str]
    failures: Sequence[str]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the proof; `lost` and `twice` are None where the question makes no sense."""

    what: str
    count: int
    lost: int | None = None
    twice: int | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        return not self.lost and not self.twice


@dataclass(frozen=True, slots=True)
class Proof:
    """All lines; what else is wrong is said in `wrong`."""

    lines: tuple[Line, ...]
    wrong: tuple[str, ...]

    @property
    def lost(self) -> int:
        return sum(line.lost or 0 for line in self.lines)

    @property
    def twice(self) -> int:
        return sum(line.twice or 0 for line in self.lines)

    @property
    def holds(self) -> bool:
        return not self.wrong and all(line.holds for line in self.lines)


def prove(seen: Seen) -> Proof:
    """Compare what was claimed with what is there."""
    again = seen.delivered.total() - len(seen.delivered)
    lines = [
        Line("sent by producers", seen.sent),
        Line("acknowledged", len(seen.acknowledged)),
        _found("in the log", seen.log, seen.acknowledged, "read from the broker, offset 0 on"),
        Line(
            "delivered",
            len(seen.delivered),
            len(seen.acknowledged - seen.delivered.keys()),
            note=f"{again:,} came again: delivered before the crash, not yet acked",
        ),
        _found("in history", seen.history, seen.log.keys(), "the tier's Parquet, read with pyarrow"),
    ]
    if seen.table is not None:
        lines.append(_found("landed", seen.table, seen.log.keys(), "the table's Parquet, read with pyarrow"))
    lines.append(_job(seen))
    return Proof(tuple(lines), tuple(_wrong(seen)))


def _found(what: str, found: Counter[Order], wanted: Iterable[Order], note: str) -> Line:
    missing = set(wanted) - found.keys()
    return Line(what, found.total(), len(missing), found.total() - len(found), note)


def _job(seen: Seen) -> Line:
    got = Counter(seen.job)
    lost = len(Counter(seen.job_wanted) - got)
    return Line("the job's lines", len(seen.job), lost, got.total() - len(got), "through its outbox")


def _wrong(seen: Seen) -> list[str]:
    """Return what no line shows."""
    wrong = list(seen.failures)
    if not seen.acknowledged:
        wrong.append("nothing was acknowledged")
    if seen.lag:
        wrong.append(f"the group has {seen.lag} messages left that are not acked")
    if seen.table is not None and seen.table.keys() - seen.log.keys():
        wrong.append(f"the table has {len(seen.table.keys() - seen.log.keys())} rows that are not in the log")
    if Counter(seen.job) == Counter(seen.job_wanted) and list(seen.job) != list(seen.job_wanted):
        wrong.append("the job's lines are not in the order in which they were printed")
    return wrong
