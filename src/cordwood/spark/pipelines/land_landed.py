"""What a run of `land` did, for its summary."""

from dataclasses import asdict, dataclass, field
from typing import Any

from cordwood.spark.pipelines.land_ledger import Batch


@dataclass(slots=True)
class Landed:
    """What a run landed. `recovered` are batches of an earlier run that this one brought to an end."""

    topic: str
    table: str
    rejected_table: str
    checkpoint: str
    reader: str
    schema: str | None
    partition_by: str | None
    batches: int = 0
    recovered: int = 0
    rows: int = 0
    rejected: int = 0
    late_rows: int = 0
    late_columns: dict[str, int] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0
    stopped: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)

    def add(self, batch: Batch) -> None:
        """Count a batch."""
        self.batches += 1
        self.rows += batch.rows
        self.rejected += batch.rejected
        self.late_rows += batch.late_rows
        for name, rows in batch.late_columns.items():
            self.late_columns[name] = self.late_columns.get(name, 0) + rows
        self.files += len(batch.files)
        self.bytes += batch.file_bytes
