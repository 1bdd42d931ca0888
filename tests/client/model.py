"""A broker that numbers, as the contract says it, and nothing else: what lanes are tested against."""

from dataclasses import dataclass, field

from cordwood.client.parcel import Parcel
from cordwood.client.retry import CONFLICT, REFUSED
from cordwood.errors import Conflict, Refused

POISON = b"poison"


@dataclass
class Numbering:
    """The log of one partition, and what one producer has stored there."""

    log: list[bytes] = field(default_factory=list)
    epoch: int = -1
    next: int = 0
    offsets: dict[int, int] = field(default_factory=dict)  # sequence → offset, of this epoch

    def produce(self, epoch: int, sequence: int, values: list[bytes]) -> "tuple[int, bool] | tuple[str, Refused]":
        """Return (offset, whether it was here before), or what it means and why."""
        if POISON in values:
            return REFUSED, Refused("a message is too large")
        if epoch < self.epoch:
            return CONFLICT, Conflict("over", epoch=self.epoch)
        expected = self.next if epoch == self.epoch else 0
        if sequence != expected:
            if epoch == self.epoch and sequence + len(values) <= expected:
                return self.offsets[sequence], True
            return CONFLICT, Conflict("gap", expected_sequence=expected, epoch=max(epoch, self.epoch))
        if epoch > self.epoch:
            self.epoch, self.offsets = epoch, {}
        first = len(self.log)
        for place, value in enumerate(values):
            self.offsets[sequence + place] = first + place
            self.log.append(value)
        self.next = sequence + len(values)
        return first, False


def values_of(parcel: Parcel) -> list[bytes]:
    """Return the values that a parcel carries."""
    return [value for batch in parcel.batches for value in batch.column("value").to_pylist()]
