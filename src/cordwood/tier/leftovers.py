"""Objects that nobody reads from: put by a broker that died before it could say so, or that had lost the claim."""

from typing import NamedTuple

from cordwood.machine.objects.store import Objects
from cordwood.tier.catalogue import Catalogue
from cordwood.tier.descriptor import ROOT, Descriptor, parse, topic_prefix

TOMBSTONE = "deleted"  # in a topic's folder: whatever else is there, the topic is gone
AT_ONCE = 1000


class Found(NamedTuple):
    """What a store has."""

    objects: list[Descriptor]
    tombstones: set[tuple[str, str]]  # (topic, id)


def listed(objects: Objects, catalogue: Catalogue) -> Found:
    """Return all objects that the catalogue names, and all topics that have a tombstone."""
    descriptors = [found for name in catalogue.names(ROOT) if (found := parse(name)) is not None]
    stones = set()
    for entry in objects.list(ROOT):
        if entry.name.endswith(f"/{TOMBSTONE}"):
            _, topic, topic_id, _ = entry.name.split("/")
            stones.add((topic.replace("%2F", "/"), topic_id))
    return Found(descriptors, stones)


def before(objects: Objects, epoch: int) -> list[Descriptor]:
    """Return the objects of earlier epochs; those that nothing is read from are leftovers."""
    found = (parse(entry.name) for entry in objects.list(ROOT))
    return [one for one in found if one is not None and one.epoch < epoch]


def delete(objects: Objects, catalogue: Catalogue, names: list[str]) -> None:
    """Delete objects: they stop counting first."""
    catalogue.forget(names)
    objects.delete(names)


def bury(objects: Objects, catalogue: Catalogue, topic: str, topic_id: str) -> None:
    """Delete all objects of a topic. The tombstone comes first and goes last, so that no crash shows half a topic."""
    prefix = topic_prefix(topic, topic_id)
    stone = f"{prefix}{TOMBSTONE}"
    objects.put(stone, b"")
    names = [entry.name for entry in objects.list(prefix) if entry.name != stone]
    for start in range(0, len(names), AT_ONCE):
        delete(objects, catalogue, names[start : start + AT_ONCE])
    objects.delete([stone])
