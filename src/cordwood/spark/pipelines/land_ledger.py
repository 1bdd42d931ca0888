"""Which batches a table has: one small file for each, written before any of the batch's files is seen.

    <checkpoint>/land/batches/00000012.json     the batch, and which staged file becomes which file of the table
    <table>_landing/12-5f0c…/rows/…             what Spark staged for it
    <table>/date=2024-02-29/<id>-00000012-00000.parquet

A batch that is noted will be in the table, whole; one that is not noted has nothing there. So whoever finds a note
moves what is not moved yet, and whoever finds none stages the batch again under another name. A note is made once:
a second driver that stages the same batch is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from json import dumps, loads
from secrets import token_hex

from cordwood.errors import Conflict, Refused
from cordwood.spark.pipelines.land_files import Files, local

VERSION = 1
KEPT = 1_000  # notes; Spark itself goes back 100 batches at most (`minBatchesToRetain`)


@dataclass(frozen=True, slots=True)
class Places:
    """Where everything of one table is; the three beside the table are named after it."""

    table: str
    checkpoint: str

    @property
    def rejected(self) -> str:
        """The table of the rows that do not fit."""
        return f"{self.table}_rejected"

    @property
    def landing(self) -> str:
        """Where batches are staged; there only while something is."""
        return f"{self.table}_landing"

    @property
    def pact(self) -> str:
        """What was agreed when the table began."""
        return f"{self.checkpoint}/land/pact.json"

    @property
    def lock(self) -> str:
        """Who lands."""
        return f"{self.checkpoint}/land/lock"

    @property
    def notes(self) -> str:
        """Which batches there are."""
        return f"{self.checkpoint}/land/batches"

    def tree(self, name: str) -> str:
        """Return where files of the staged directory `name` go: "rows" or "rejected"."""
        return {"rows": self.table, "rejected": self.rejected}[name]


@dataclass(frozen=True, slots=True)
class Batch:
    """What a batch puts into the table. `plan` is what Spark had planned: the offsets of the batch."""

    number: int
    plan: str
    staged: str
    rows: int
    rejected: int
    late_rows: int
    late_columns: Mapping[str, int]
    file_bytes: int
    files: Sequence[tuple[str, str, str]] = field(default=())  # rows or rejected, staged path, path in the table

    def to_json(self) -> bytes:
        """Return it as it is kept."""
        return dumps({"version": VERSION, **asdict(self)}, indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "Batch":
        """Return what was kept."""
        found = loads(data)
        version = found.pop("version")
        if version != VERSION:
            raise Refused(f"this batch was noted by another version of Cordwood ({version}); use that one")
        return cls(**{**found, "files": tuple((tree, source, target) for tree, source, target in found["files"])})


class Ledger:
    """Notes batches of one table and moves their files into it."""

    def __init__(self, checkpoint: Files, table: Files, places: Places, id: str):
        self._checkpoint = checkpoint
        self._table = table
        self._places = places
        self._id = id

    def find(self, number: int) -> Batch | None:
        """Return a batch that was noted."""
        data = self._checkpoint.read(self._name(number))
        return None if data is None else Batch.from_json(data)

    def last(self) -> Batch | None:
        """Return the last batch that was noted."""
        numbers = [int(name[:-5]) for name in self._checkpoint.names(self._places.notes) if name[:-5].isdigit()]
        return self.find(max(numbers)) if numbers else None

    def staged(self, number: int) -> str:
        """Return a name to stage a batch under that nobody had."""
        return f"{number}-{token_hex(8)}"

    def target(self, number: int, place: int, source: str) -> str:
        """Return what a staged file is called in the table: the same whenever it is asked."""
        folder = source.rpartition("/")[0]
        return f"{folder}{'/' if folder else ''}{self._id}-{number:08}-{place:05}.parquet"

    def note(self, batch: Batch) -> None:
        """Make the batch part of the table; from now on it is moved, and never staged again. Raises Conflict."""
        try:
            self._checkpoint.create(self._name(batch.number), batch.to_json())
        except Conflict:
            raise Conflict(
                f"another process landed batch {batch.number} of {self._places.table}: run only one at a time"
            ) from None
        if batch.number >= KEPT:
            self._checkpoint.remove(self._name(batch.number - KEPT))

    def settle(self, batch: Batch) -> None:
        """Have every file of a noted batch in the table, durably, however far somebody came before.

        What was staged is removed last: a batch without it was settled, and its files may have left the table again.
        """
        places = self._places
        root = f"{places.landing}/{batch.staged}"
        if not self._table.exists(root):
            self._check_settled(batch)
            return
        for tree in ("rows", "rejected"):
            targets = []
            for kind, source, target in batch.files:
                if kind == tree:
                    targets.append(f"{places.tree(tree)}/{target}")
                    self._table.move(f"{root}/{tree}/{source}", targets[-1])
            self._table.sync_names(targets, places.tree(tree))
        self._table.remove(root)

    def _check_settled(self, batch: Batch) -> None:
        if self._checkpoint.exists(f"{self._places.checkpoint}/commits/{batch.number}"):
            return
        for tree, _, target in batch.files:
            if not self._table.exists(f"{self._places.tree(tree)}/{target}"):
                raise Conflict(
                    f"{local(self._places.landing)} had files of batch {batch.number}, and was removed by hand; "
                    "put it back, or land everything again somewhere else"
                )

    def clear(self) -> None:
        """Remove what was staged and is not needed: all of it, since noted batches are settled."""
        self._table.remove(self._places.landing)

    def _name(self, number: int) -> str:
        return f"{self._places.notes}/{number:08}.json"
