"""One partition's messages into the store: written, put, fetched back, and only then believed.

    step                          found after a power cut behind it
    put                           an object that nobody knows: a leftover
    fetched back, checksum holds  the same
    recorded in the catalogue     the same; with etcd, one that counts
    fact in the journal           an object

A leftover does no harm: the messages are still in the journal, and are shipped again under a higher epoch, which
counts. It is collected later (`leftovers`). When it is not known what became of a put of this very epoch, the object
may be there with another end than the next try would choose; so that is looked for first, and adopted.
"""

from collections.abc import Iterable
from typing import NamedTuple

from awscrt.checksums import crc64nvme

from cordwood.errors import Refused
from cordwood.machine.objects.store import Objects, StoreUnavailable
from cordwood.tier import contents, parquet
from cordwood.tier.catalogue import Catalogue
from cordwood.tier.descriptor import Descriptor, parse, partition_prefix
from cordwood.tier.rows import Rows
from cordwood.tier.verify import verify


class Freight(NamedTuple):
    """What is to be shipped: the messages of a partition from `first` to `end`, all of them."""

    topic: str
    topic_id: str
    partition: int
    first: int
    end: int
    epoch: int


class Shipped(NamedTuple):
    """An object that is in the store as it should be."""

    descriptor: Descriptor
    bytes: int
    group_rows: int


class NotAsPut(StoreUnavailable):
    """The store does not have what was put, or has something else."""


def ship(objects: Objects, catalogue: Catalogue, freight: Freight, rows: Iterable[Rows]) -> Shipped:
    """Put messages into the store, and make sure that they are there. Raises StoreUnavailable or ClaimLost."""
    data = parquet.write(rows)
    found = Descriptor(*freight[:5], freight.epoch, 0, freight.end - freight.first, crc64nvme(data))
    objects.put(found.name, data)  # a name that is taken has these very bytes, as its checksum says
    return accept(objects, catalogue, found)


def adopt(objects: Objects, catalogue: Catalogue, freight: Freight) -> Shipped | None:
    """Return the object that an earlier try left at this very place; None where there is none that is whole.

    Of several it is the one that reaches furthest, which counts; the others go.
    """
    prefix = partition_prefix(freight.topic, freight.topic_id, freight.partition)
    place = (freight.first, freight.epoch, 0)
    listed = [parse(entry.name) for entry in objects.list(prefix)]
    tries = [one for one in listed if one is not None and (one.first, one.epoch, one.generation) == place]
    found = None
    for one in sorted(tries, key=_end, reverse=True):
        if found is None and one.end <= freight.end and verify(objects, one) is None:
            found = one
        else:
            objects.delete([one.name])
    return None if found is None else accept(objects, catalogue, found)


def _end(descriptor: Descriptor) -> int:
    return descriptor.end


def accept(objects: Objects, catalogue: Catalogue, found: Descriptor) -> Shipped:
    """Return an object that was put, if it is there as it should be, and make it count.

    Raises `NotAsPut`. Raises Refused when its row groups are not as many rows each: then nobody could tell which
    message is in which.
    """
    damage = verify(objects, found)
    if damage is not None:
        objects.delete([found.name])
        raise NotAsPut(objects.url, f"what was put did not come back: {damage.reason}: {found.name}")
    groups = contents.fetch(objects, found).groups
    rows = groups[0].rows
    if any(group.rows != rows for group in groups[:-1]) or groups[-1].rows > rows:
        raise Refused(f"the row groups of {found.name} differ in size; write it with cordwood.tier.parquet")
    catalogue.record(found.name)
    return Shipped(found, objects.size(found.name), rows)
