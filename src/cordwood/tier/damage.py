"""Damage to an object: which one, where, and which offsets cannot be read for it."""

from dataclasses import dataclass

from cordwood.errors import Damage, Damaged
from cordwood.tier.descriptor import Descriptor

PROOF = "it was fetched back and found whole before it counted"
REMEDY = "Put the object back from a copy of the store; nothing was changed."


@dataclass(frozen=True, slots=True)
class ObjectDamage(Damage):
    """`file` is the object's name; `first` and `end` are offsets, not LSNs."""

    def __str__(self) -> str:
        return (
            f"{self.file}, byte {self.position}: {self.reason}"
            f" (offsets {self.first} to {self.end - 1} cannot be read; {self.proof})"
        )


def damage(descriptor: Descriptor, position: int, reason: str, first: int = -1, end: int = -1) -> ObjectDamage:
    """Say what is wrong at a byte of an object; where no offsets are given, none of it can be read."""
    first, end = (descriptor.first, descriptor.end) if first < 0 else (first, end)
    return ObjectDamage(descriptor.name, position, first, end, reason, PROOF, REMEDY)


def damaged(descriptor: Descriptor, position: int, reason: str, first: int = -1, end: int = -1) -> Damaged:
    """Return the error that says so."""
    return Damaged([damage(descriptor, position, reason, first, end)])
