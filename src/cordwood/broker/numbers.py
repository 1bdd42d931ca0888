"""The numbers of one producer in one partition: what it sent last, and where earlier batches went.

Sequences and offsets rise together while nobody else writes; a turn is where somebody did. From the turns follows the
offset of any sequence:

    turns (0, 10) (5, 40)      sequence 3 → offset 13      sequence 7 → offset 42

What was lost with a disk may come again: then its sequences, below `next`, get new offsets.
"""

from bisect import bisect_right

MOST_TURNS = 256


class Numbers:
    """What is stored of one producer's epoch: the sequences below `next`."""

    __slots__ = ("epoch", "next", "turns", "used_ms")

    def __init__(self, epoch: int, following: int = 0, turns: list[tuple[int, int]] | None = None, used_ms: int = 0):
        self.epoch = epoch
        self.next = following
        self.turns = turns if turns is not None else []
        self.used_ms = used_ms

    def stored(self, sequence: int, offset: int, count: int, at: int) -> None:
        """Take notice that `count` messages from `sequence` on are at `offset`."""
        assert sequence <= self.next, "sequences have no gap"
        self.used_ms = at
        if sequence < self.next:
            self._again(sequence, offset, sequence + count)
            return
        if not self.turns or self.turns[-1][1] + sequence - self.turns[-1][0] != offset:
            self.turns.append((sequence, offset))
            del self.turns[:-MOST_TURNS]
        self.next = sequence + count

    def _again(self, sequence: int, offset: int, end: int) -> None:
        """Take notice that what was lost is at `offset` now; what follows in the sequence stays where it was."""
        assert end <= self.next, "all of it was there before"
        behind = self.offset(end) if end < self.next else None
        turns = [turn for turn in self.turns if not sequence <= turn[0] <= end]
        turns.append((sequence, offset))
        if behind is not None:
            turns.append((end, behind))
        self.turns = sorted(turns)[-MOST_TURNS:]

    def offset(self, sequence: int) -> int | None:
        """Return where the message with this sequence is, None when that is no longer known."""
        at = bisect_right(self.turns, (sequence, 1 << 62)) - 1
        return None if at < 0 else self.turns[at][1] + sequence - self.turns[at][0]
