"""Key to partition: FNV-1a-32 of the key's bytes, modulo the number of partitions.

    hash = 2166136261; for each byte: hash = (hash xor byte) × 16777619 mod 2³²        user:1 of 3 → 1

The hash walks a key byte by byte, so numpy can go one of two ways: across many keys, one step for the n-th byte of
all of them; or along one key, because `hash xor byte` changes only the lowest eight bits. Those follow from
themselves alone, each bit from the bits below it (bit k is a running xor), and what they add is then one sum:

    hash = start × p^n + Σ ((low xor byte) - low) × p^(n - i)

Across costs 5 µs a step and 3 ns a byte, along 25 ns a byte, Python's own loop 140. So: across while many keys are
left, then along. A million-byte key must not hold up the event loop.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cordwood.errors import Refused
from cordwood.record import Batch, Column, Records

_START = 2166136261
_PRIME = 16777619
_MASK = 0xFFFFFFFF
_FEW = 24  # keys: fewer than this are hashed one by one
_SHORT = 128  # bytes: what Python's own loop hashes faster than numpy's calls
_CHUNK = 1 << 15  # bytes hashed along at once: the working set stays in the cache
NONE = -1  # where neither key nor partition is given: round robin by batch is the caller's


def of_key(key: bytes, count: int) -> int:
    """Return the partition, of `count`, of messages with this key."""
    return _along(_START, np.frombuffer(key, np.uint8)) % count


def of_keys(keys: Column, count: int) -> npt.NDArray[np.int32]:
    """Return the partition of each key of a binary column, NONE where the key is null."""
    rows = len(keys)
    if keys.null_count == rows:
        return np.full(rows, NONE, np.int32)
    _, offset_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, count=keys.offset + rows + 1)[keys.offset :].astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    found = (_hashes(data, offsets) % np.uint32(count)).astype(np.int32)
    if keys.null_count:
        found[keys.is_null().to_numpy(zero_copy_only=False)] = NONE
    return found


def assign(records: Records, count: int) -> npt.NDArray[np.int32]:
    """Return each message's partition: the one it asks for, else its key's, else NONE."""
    names = records.batch.schema.names
    rows = len(records)
    asked = records.partitions
    if isinstance(asked, int):
        check(asked, count)
        return np.full(rows, asked, np.int32)
    if asked is not None:
        numbers = asked.fill_null(NONE).to_numpy(zero_copy_only=False)
        if rows and numbers.max() >= count:
            row = int(np.argmax(numbers >= count))
            raise Refused(f"message {row} asks for partition {numbers[row]}; the topic has 0 to {count - 1}")
        if not asked.null_count:
            return np.asarray(numbers, np.int32)
    if count == 1:
        return np.zeros(rows, np.int32)
    found = of_keys(records.batch.column("key"), count) if "key" in names else np.full(rows, NONE, np.int32)
    return found if asked is None else np.where(numbers >= 0, numbers, found).astype(np.int32)


def check(partition: int, count: int) -> None:
    """Refuse a partition that a topic of `count` has not."""
    if not 0 <= partition < count:
        raise Refused(f"the messages ask for partition {partition}; the topic has 0 to {count - 1}")


def split(batch: Batch, assigned: npt.NDArray[np.int32]) -> list[tuple[int, Batch]]:
    """Return the messages of each partition, in the order given, lowest partition first."""
    assert len(assigned) == batch.num_rows, "one partition for each message"
    if not len(assigned):
        return []
    lowest, highest = int(assigned.min()), int(assigned.max())
    if lowest == highest:
        return [(lowest, batch)]
    order = np.argsort(assigned, kind="stable")
    grouped = batch.take(pa.array(order))
    ends = np.cumsum(np.bincount(assigned - lowest)).tolist()
    starts = [0, *ends[:-1]]
    return [
        (lowest + n, grouped.slice(start, end - start))
        for n, (start, end) in enumerate(zip(starts, ends, strict=True))
        if end > start
    ]


def _hashes(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")  # longest first: those with an n-th byte are a prefix
    starts, lengths = offsets[:-1][order], lengths[order]
    hashes = np.full(len(order), _START, np.uint32)
    step = 0
    while (left := int(np.searchsorted(-lengths, -step))) >= _FEW:
        hashes[:left] ^= data[starts[:left] + step]
        hashes[:left] *= np.uint32(_PRIME)
        step += 1
    for n in range(left):
        hashes[n] = _along(int(hashes[n]), data[starts[n] + step : starts[n] + lengths[n]])
    found = np.empty_like(hashes)
    found[order] = hashes
    return found


def _along(start: int, key: npt.NDArray[np.uint8]) -> int:
    if len(key) <= _SHORT:
        for byte in key.tobytes():
            start = ((start ^ byte) * _PRIME) & _MASK
        return start
    for at in range(0, len(key), _CHUNK):
        part = key[at : at + _CHUNK]
        mixed, low = _low_bytes(start & 0xFF, part)
        change = (mixed.astype(np.int32) - low).view(np.uint32)
        powers = _powers()[len(_powers()) - len(part) :]  # p^n … p^1
        start = (start * int(powers[0]) + int((change * powers).sum(dtype=np.uint64))) & _MASK
    return start


def _low_bytes(first: int, key: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return, for each byte, the hash's lowest byte after and before the xor with it."""
    low = np.zeros(len(key), np.uint8)
    mixed = np.zeros(len(key), np.uint8)  # right in its lowest k bits
    for k in range(8):
        bit = np.uint8(1 << k)
        # Bit k of (mixed × p) is mixed's own bit k (p is odd) xor this, which the bits below decide.
        below = mixed * np.uint8(_PRIME & 0xFF)
        after = np.bitwise_xor.accumulate((below ^ key) & bit)
        low[0] |= np.uint8(first) & bit
        low[1:] |= after[:-1] ^ (np.uint8(first) & bit)
        mixed |= (low ^ key) & bit
    return mixed, low


@lru_cache(maxsize=1)
def _powers() -> npt.NDArray[np.uint32]:
    return np.multiply.accumulate(np.full(_CHUNK, _PRIME, np.uint32))[::-1].copy()
