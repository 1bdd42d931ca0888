"""A run: neighbouring messages of one partition on their way out."""

from collections.abc import Sequence
from dataclasses import dataclass

from cordwood.record import Batch


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
