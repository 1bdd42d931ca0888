"""A run: neighbouring messages of one partition on their way out."""

from collections.abc import Sequence
from dataclasses import dataclass

from cordwood.record import Batch, concat


@dataclass(frozen=True, slots=True)
class Run:
    """Rows of one batch with dense offsets from `first_offset`.

    `attempts` counts this delivery too and is one number for all rows or one for each; a plain read has 0.
    `last_errors` says why the delivery before failed, one for each row, None for all when nothing did.
    """

    batch: Batch
    partition: int
    first_offset: int
    attempts: int | Sequence[int] = 0
    last_errors: Sequence[str | None] | None = None

    def __post_init__(self) -> None:
        rows = self.batch.num_rows
        assert isinstance(self.attempts, int) or len(self.attempts) == rows, "one count for each row"
        assert self.last_errors is None or len(self.last_errors) == rows, "one error for each row"

    @property
    def end(self) -> int:
        """The offset behind the last row."""
        return self.first_offset + int(self.batch.num_rows)


SMALL_ROWS = 1_000  # a run of fewer is worth copying to have one instead of two


def coalesce(runs: Sequence[Run]) -> list[Run]:
    """Return the same messages in fewer runs, where small ones follow each other and have the same attempts."""
    found: list[Run] = []
    waiting: list[Run] = []
    rows = 0
    for run in runs:
        if waiting and (rows >= SMALL_ROWS or not _joins(waiting[-1], run)):
            found.append(_joined(waiting))
            waiting, rows = [], 0
        waiting.append(run)
        rows += run.batch.num_rows
    if waiting:
        found.append(_joined(waiting))
    return found


def _joins(one: Run, other: Run) -> bool:
    return (
        one.partition == other.partition
        and one.end == other.first_offset
        and isinstance(one.attempts, int)
        and one.attempts == other.attempts
        and one.last_errors is None
        and other.last_errors is None
        and other.batch.num_rows < SMALL_ROWS
    )


def _joined(runs: Sequence[Run]) -> Run:
    first = runs[0]
    if len(runs) == 1:
        return first
    return Run(concat([run.batch for run in runs]), first.partition, first.first_offset, first.attempts)
