"""Numbered requests: is this the next one, was it here before, or is something missing?

rows         partition 7: sequence 40 41 42 · partition 9: sequence 5       each partition has its own numbers
runs         (7, 40, 3) (9, 5, 1)
repeats      9 was stored before: where it is. 7 is new, and is stored, all or nothing
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cordwood.broker import ops
from cordwood.broker.numbers import Numbers
from cordwood.broker.state import Partition, Topic
from cordwood.errors import Conflict, Refused
from cordwood.record import Batch, Records


class Run(NamedTuple):
    """Neighbouring numbers of one partition."""

    partition: int
    sequence: int
    length: int


class Fresh(NamedTuple):
    """What of a request is new: rows, their partitions, their numbers; and where the others are."""

    batch: Batch
    assigned: npt.NDArray[np.int32] | int
    runs: list[Run]
    again: list[tuple[int, int | None, int]]


def fresh(topic: Topic, number: ops.Numbered, records: Records, assigned: npt.NDArray[np.int32] | int) -> Fresh:
    """Return what of a numbered request is to be stored; refuse all of it where numbers do not fit."""
    runs = runs_of(assigned, number.sequence, records.sequences, len(records))
    found = repeats(topic, number, runs)
    if not found:
        return Fresh(records.batch, assigned, runs, [])
    again = [(run.partition, found[run.partition], run.length) for run in runs if run.partition in found]
    runs = [run for run in runs if run.partition not in found]
    if not runs or isinstance(assigned, int):
        return Fresh(records.batch.slice(0, 0), assigned, [], again)
    new = ~np.isin(assigned, list(found))
    return Fresh(records.batch.filter(pa.array(new)), assigned[new], runs, again)


def runs_of(
    assigned: npt.NDArray[np.int32] | int, sequence: int, sequences: npt.NDArray[np.int64] | None, count: int
) -> list[Run]:
    """Return the numbers of a request's rows, partition by partition; refuse those with a gap or out of order.

    `sequence` is that of the first message where not every one has its own: then all are in one partition.
    """
    if sequences is None:
        first_place = assigned if isinstance(assigned, int) else int(assigned[0])
        if not isinstance(assigned, int) and (assigned != first_place).any():
            raise Refused("a request with one sequence has one partition; name it, or number every message")
        return [Run(first_place, sequence, count)]
    each = np.full(count, assigned, np.int32) if isinstance(assigned, int) else assigned
    order = np.argsort(each, kind="stable")
    sequences = sequences[order]
    numbers, starts, counts = np.unique(each[order], return_index=True, return_counts=True)
    first = sequences[starts]
    wrong = np.flatnonzero(sequences - (np.arange(count) - np.repeat(starts, counts)) != np.repeat(first, counts))
    if len(wrong):
        place = int(numbers[np.searchsorted(starts, wrong[0], side="right") - 1])
        raise Refused(f"the sequences of partition {place} do not rise by 1, message after message")
    return [Run(*run) for run in zip(numbers.tolist(), first.tolist(), counts.tolist(), strict=True)]


def repeats(topic: Topic, number: ops.Numbered, runs: list[Run]) -> dict[int, int | None]:
    """Return where those runs are that were stored before: partition → offset. Refuse what comes too early."""
    found = {}
    for run in runs:
        known = repeat(topic.partitions[run.partition], number.producer, number.epoch, run.sequence, run.length)
        if known is not None:
            found[run.partition] = known.offset(run.sequence)
    return found


def repeat(partition: Partition, producer: str, epoch: int, sequence: int, count: int) -> Numbers | None:
    """Return the producer's numbers when all of this is stored, None when it is to be; refuse all else.

    What went with a lost disk is stored again: nobody would believe an answer that names an offset in a hole.
    """
    known = partition.producers.get(producer)
    if known is not None and epoch < known.epoch:
        raise Conflict(f"producer {producer!r} is at epoch {known.epoch}; {epoch} is over", epoch=known.epoch)
    expected = known.next if known is not None and known.epoch == epoch else 0
    if sequence == expected:
        return None
    if known is not None and sequence + count <= expected:
        lost = partition.lost(known.offset(sequence)) and partition.lost(known.offset(sequence + count - 1))
        return None if lost else known
    raise Conflict(
        f"producer {producer!r} sent sequence {sequence}, {count} message(s); {expected} comes next",
        expected_sequence=expected,
        epoch=epoch if known is None else known.epoch,
    )
