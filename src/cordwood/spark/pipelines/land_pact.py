"""What a table and its checkpoint agreed on when they began; later runs keep to it.

id             eight bytes; every file of the table begins with it, and so does the reader's name in the broker
topic          its name, and its id: one made later under the same name is another
schema         the columns of the JSON, given or inferred once; none for a raw table
partition_by   the column that directories are named after
headers        whether a raw table has them
"""

from dataclasses import asdict, dataclass, replace
from json import dumps, loads
from secrets import token_hex

from cordwood.errors import Conflict
from cordwood.spark.pipelines.land_files import Files, local
from cordwood.spark.pipelines.land_ledger import Places

VERSION = 1


@dataclass(frozen=True, slots=True)
class Pact:
    """What was agreed. `schema` is Spark's JSON."""

    id: str
    topic: str
    topic_id: str
    table: str
    schema: str | None
    partition_by: str | None
    headers: bool

    @property
    def reader(self) -> str:
        """The name under which the broker knows how far the table is."""
        return f"land-{self.id}"


def new_id() -> str:
    """Return an id that no other table has."""
    return token_hex(8)


def read(files: Files, places: Places) -> Pact | None:
    """Return what was agreed. Raises Conflict where the checkpoint is of something else."""
    data = files.read(places.pact)
    if data is None:
        if files.exists(f"{places.checkpoint}/metadata") or files.exists(f"{places.checkpoint}/offsets"):
            raise Conflict(
                f"{local(places.checkpoint)} is the checkpoint of another query; give --checkpoint another"
            )
        return None
    found = loads(data)
    if found.pop("version") != VERSION:
        raise Conflict(f"{local(places.pact)} is of another version of Cordwood; use that one")
    return Pact(**found)


def write(files: Files, places: Places, pact: Pact) -> None:
    """Agree. Raises Conflict if somebody did meanwhile."""
    files.create(places.pact, dumps({"version": VERSION, **asdict(pact)}, indent=1).encode())


def check(agreed: Pact, asked: Pact, places: Places) -> None:
    """Refuse what was not agreed, naming it. `asked.schema` is the agreed one where it was to be inferred."""
    if agreed == replace(asked, id=agreed.id):
        return
    where = local(places.checkpoint)
    if agreed.table != asked.table:
        raise Conflict(f"{where} is the checkpoint of {local(agreed.table)}; give --checkpoint another")
    if agreed.topic != asked.topic:
        raise Conflict(f"{local(agreed.table)} has the topic {agreed.topic!r}; land {asked.topic!r} somewhere else")
    if agreed.topic_id != asked.topic_id:
        raise Conflict(
            f"the topic {agreed.topic!r} was deleted and made again since then; land the new one somewhere else"
        )
    for name in ("schema", "partition_by", "headers"):
        old, new = getattr(agreed, name), getattr(asked, name)
        if old != new:
            what = name.replace("_by", "ing")
            raise Conflict(
                f"{local(agreed.table)} began with another {what}, which is in {local(places.pact)}; "
                "keep to it, or land somewhere else"
            )


def check_table(files: Files, places: Places, id: str | None) -> None:
    """Refuse a directory with files that were not landed under this id; None where nothing was landed yet."""
    for place in (places.table, places.rejected):
        for file in files.below(place, most=1)[:1]:
            if id is None or not file.path.rpartition("/")[2].startswith(f"{id}-"):
                raise Conflict(
                    f"{local(place)} has files that were not landed with {local(places.checkpoint)}: "
                    "choose an empty directory, or give the --checkpoint that they were landed with"
                )
