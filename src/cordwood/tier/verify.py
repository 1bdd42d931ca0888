"""Verifying: an object is fetched back, and is what its name says, before anything else lets go of its messages."""

from awscrt.checksums import crc64nvme

from cordwood.errors import Damage
from cordwood.machine.objects.store import ObjectMissing, Objects
from cordwood.tier.damage import damage
from cordwood.tier.descriptor import Descriptor

PIECE_BYTES = 8 << 20  # in memory at a time


def verify(objects: Objects, descriptor: Descriptor) -> Damage | None:
    """Return what is wrong with an object, None where each of its bytes is as it was when it got its name."""
    checksum = position = 0
    try:
        size = objects.size(descriptor.name)
        while position < size:
            data = objects.get(descriptor.name, position, min(size, position + PIECE_BYTES))
            if not len(data):
                return damage(descriptor, position, f"it ends there, of {size} bytes")
            checksum = crc64nvme(data, checksum)
            position += len(data)
    except ObjectMissing:
        return damage(descriptor, 0, "it is not there")
    if checksum != descriptor.checksum:
        return damage(descriptor, 0, f"the checksum of its {size} bytes is {checksum:016x}, not as its name says")
    return None
