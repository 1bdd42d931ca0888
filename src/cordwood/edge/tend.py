"""What a person does with a left-over: put it away, or have it numbered anew.

Nothing here is done by itself: each is an explicit choice about events that a sender leaves alone.
"""

from enum import Enum
from pathlib import Path
from random import SystemRandom

from cordwood.edge.facts import Fact, Renewed, Sent
from cordwood.edge.leftovers import lock, put_away
from cordwood.edge.log import Log
from cordwood.edge.look import fold
from cordwood.edge.state import State
from cordwood.errors import Locked, Refused, Unavailable
from cordwood.machine.clock import SystemClock
from cordwood.machine.disk import RealDirectory


class Outcome(Enum):
    """What became of a left-over that should be put away."""

    ARCHIVED = "archived"
    PENDING = "pending"  # it has events to send, and stays
    PARKED = "parked"  # it has events that the broker refused for good, and stays to be looked at
    LIVING = "living"  # some process has it
    FAILED = "failed"  # the archive could not be written; it stays


def archive_left_over(path: Path, *, parked_too: bool) -> Outcome:
    """Archive a left-over of which nothing is pending, and remove it. Raises `Damaged`."""
    found = _locked(path)
    if found is None:
        return Outcome.LIVING
    directory, state = found
    if state.pending or (state.failed and not parked_too):
        directory.close()
        return Outcome.PENDING if state.pending else Outcome.PARKED
    done = put_away(_opened(directory), path, archives=True, parked_too=parked_too)
    return Outcome.ARCHIVED if done else Outcome.FAILED


def number_anew(path: Path, stored_below: int | None = None) -> int:
    """Have what may be stored or not sent again as if it were not; return how many events that is about.

    For batches whose answer was lost, and whose numbers the broker no longer knows: it cannot tell whether they are
    a repeat. Events below `stored_below` are taken for stored, and not sent again; others that are stored will be
    there twice. Raises `Locked` while some process has it, and `Refused` for a number that is not in doubt.
    """
    found = _locked(path)
    if found is None:
        raise Locked(f"{path} is in use; its own process sends it")
    directory, state = found
    doubtful = state.doubtful
    through = state.sent if stored_below is None else stored_below
    if not doubtful or not state.sent <= through <= state.sent + doubtful:
        directory.close()
        if stored_below is not None:
            raise Refused(f"{path} has {doubtful} events that may be stored, from event {state.sent} on")
        return 0
    opened = _opened(directory)
    try:
        known: list[Fact] = []
        if through > state.sent:
            size = sum(piece.size for piece in opened.read(state.sent, 0, 0, through))
            known.append(Sent(through, {}, size))
        opened.record([*known, Renewed(opened.state.epoch + 1)])
    finally:
        opened.close()
    return doubtful


def _locked(path: Path) -> tuple[RealDirectory, State] | None:
    directory = lock(path)
    if directory is None:
        return None
    try:
        state = fold(directory)
        if state.begun is None:
            raise Unavailable(f"{path} holds no outbox")
    except BaseException:
        directory.close()
        raise
    return directory, state


def _opened(directory: RealDirectory) -> Log:
    try:
        return Log(directory, SystemClock(), SystemRandom())
    except BaseException:
        directory.close()
        raise
