"""Frames of the real broker in the model's words."""

from collections.abc import Sequence

import msgspec

from cordwood.broker import ops
from cordwood.drills.broker_model import facts as f
from cordwood.drills.broker_model.facts import Fact
from cordwood.drills.broker_model.rows import messages_of
from cordwood.drills.broker_model.world import DEAD
from cordwood.machine.disk import Buffer
from cordwood.record import decode_parts


def claims_of(entries: Sequence[Buffer]) -> list[Fact]:
    """Return what a frame says. Messages are left out, but for dead letters: only they say why they were given up."""
    claims = [_claim(op) for op in ops.unpack(entries[0])]
    for at, claim in enumerate(claims):
        if isinstance(claim, f.Stored) and claim.topic.startswith(DEAD):
            letters = tuple(messages_of(decode_parts(bytes(entries[1]), bytes(entries[2]))))
            claims[at] = claim._replace(pieces=tuple(p._replace(messages=letters) for p in claim.pieces))
    return claims


def _claim(op: ops.Op) -> Fact:
    if isinstance(op, ops.Delivered):
        return f.Delivered(op.topic, op.group, op.partition, _offsets(op.ranges), op.at)
    if isinstance(op, ops.Done):
        return f.Done(op.topic, op.group, op.partition, _offsets(op.ranges), op.at)
    if isinstance(op, ops.Failed):
        return f.Failed(op.topic, op.group, op.partition, _offsets(op.ranges), op.until_ms, op.error)
    if isinstance(op, ops.GivenBack):
        return f.GivenBack(op.topic, op.group, op.partition, _offsets(op.ranges))
    if isinstance(op, ops.Redriven):
        return f.Redriven(op.topic, op.group, op.partition, _offsets(op.ranges))
    if isinstance(op, ops.Appended):
        number = f.Number(*msgspec.structs.astuple(op.number)) if op.number is not None else None
        keys = tuple(("", partition, offset) for _, partition, offset in op.key_hashes)
        return f.Stored(op.topic, _pieces(op.pieces), op.at, number, keys)
    if isinstance(op, ops.AppendedAcross):
        number = f.Number(op.producer, op.epoch, op.sequences[0])
        return f.Stored(op.topic, _pieces(op.pieces), op.at, number, (), tuple(op.sequences))
    if isinstance(op, ops.Staged):
        return f.Staged(op.topic, _pieces(op.pieces), op.at, op.writer, op.batch, op.task, op.attempt)
    if isinstance(op, ops.Published):
        placed = tuple((p.topic, p.piece.partition, p.piece.first, p.piece.count) for p in op.placed)
        return f.Published(op.writer, op.batch, placed, op.at)
    if isinstance(op, ops.TopicMade):
        return f.TopicMade(op.topic, op.id, op.partitions, msgspec.to_builtins(op.terms), op.at)
    if isinstance(op, ops.TopicSet):
        return f.TopicSet(op.topic, msgspec.to_builtins(op.terms))
    if isinstance(op, ops.TopicDeleted):
        return f.TopicDeleted(op.topic)
    if isinstance(op, ops.Trimmed):
        return f.Trimmed(op.topic, op.partition, op.start)
    if isinstance(op, ops.Forgotten):
        return f.Forgotten(op.producers_before, op.keys_before, op.stages_before)
    if isinstance(op, ops.GroupMade):
        return f.GroupMade(op.topic, op.group, tuple(op.starts), msgspec.to_builtins(op.terms), op.at)
    if isinstance(op, ops.GroupSet):
        return f.GroupSet(op.topic, op.group, msgspec.to_builtins(op.terms))
    if isinstance(op, ops.GroupDeleted):
        return f.GroupDeleted(op.topic, op.group)
    if isinstance(op, ops.Sought):
        return f.Sought(op.topic, op.group, tuple(op.to), op.at)
    if isinstance(op, ops.ReaderPut):
        return f.ReaderPut(op.topic, op.reader, tuple(op.offsets), op.at)
    if isinstance(op, ops.ReaderDeleted):
        return f.ReaderDeleted(op.topic, op.reader)
    if isinstance(op, ops.Stored):
        return f.Tiered(op.topic, op.partition, op.first, op.end)
    if isinstance(op, ops.Restored):
        kept = (
            f.Kept(one.topic, one.topic_id, one.partition, one.first, one.end, size, latest_us // 1000)
            for one, size, latest_us in op.objects
        )
        return f.Restored(tuple(kept), tuple(op.ends))
    return f.Noted()


def _offsets(ranges: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(offset for first, end in ranges for offset in range(first, end))


def _pieces(pieces: Sequence[ops.Piece]) -> tuple[f.Piece, ...]:
    return tuple(f.Piece(piece.partition, piece.first, piece.count) for piece in pieces)
