"""The tier as a stranger reads it: Parquet objects in a directory, without asking the broker."""

from pathlib import Path

from pyarrow import parquet

from cordwood.drills.field.witness import Place, Reading, Seen
from cordwood.drills.field.writer import TOPIC, write_of
from cordwood.tier.descriptor import Descriptor, counting, parse


def look_at_objects(tier: Path, told: int, reader: str) -> Reading:
    """Return all messages in a directory's objects, partition after partition."""
    found: dict[int, list[Descriptor]] = {}
    for path in sorted(tier.glob("topics/**/*.parquet")):
        one = parse(str(path.relative_to(tier)))
        if one is not None and one.topic == TOPIC:
            found.setdefault(one.partition, []).append(one)
    seen = []
    for partition, objects in sorted(found.items()):
        spans, _ = counting(objects)
        for span in spans:
            table = parquet.read_table(tier / span.descriptor.name, columns=["offset", "value"], partitioning=None)
            for offset, value in zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True):
                if span.first <= offset < span.end:
                    seen.append(Seen(Place(partition, offset), write_of(value.decode(errors="replace"))))
    return Reading(reader, told, seen)
