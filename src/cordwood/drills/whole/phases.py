"""What a process was doing when it died: read from its stack, at that moment only."""

import sys

# (end of the file's name, function or "" for any) → phase; the innermost frame that is known decides, but for the
# beginnings, which decide from the outside.
_OUTSIDE = (
    ("broker/running.py", "open_broker", "recovery"),
    ("drills/whole/worker.py", "_open", "outbox recovery"),
    ("edge/archive.py", "", "outbox archive"),
    ("drills/whole/worker.py", "_put_away", "outbox archive"),
    ("edge/log.py", "append", "outbox append"),
    ("edge/log.py", "maintain", "outbox room"),
    ("edge/log.py", "release", "outbox room"),
    ("edge/log.py", "record", "outbox progress"),
    ("edge/log.py", "mark", "outbox progress"),
    ("tier/claims_in_store.py", "take", "claim taking"),
    ("tier/claim.py", "renew", "claim renewal"),
    ("tier/claim.py", "release", "close"),
    ("tier/leftovers.py", "bury", "tombstone"),
    ("tier/state.py", "", "tier snapshot"),
    ("tier/verify.py", "", "tier read back"),
    ("tier/ship.py", "", "tier put"),
    ("broker/running.py", "_stop", "close"),
)
_INSIDE = (
    ("journal/room.py", "_let_one_go", "release"),
    ("journal/journal.py", "maintain", "prepare"),
    ("journal/writer.py", "write_snapshot", "snapshot"),
    ("journal/journal.py", "_rotate", "rotate"),
)


def phase(operation: str) -> str:
    """Return the phase of whoever calls this, just before a disk or store operation of that kind."""
    frame = sys._getframe(1)
    names: list[tuple[str, str]] = []
    while frame is not None:
        names.append((frame.f_code.co_filename, frame.f_code.co_name))
        frame = frame.f_back  # type: ignore[assignment]
    for end, function, found in _OUTSIDE:
        if any(name.endswith(end) and function in ("", at) for name, at in names):
            return found
    for end, function, found in _INSIDE:
        if any(name.endswith(end) and at == function for name, at in names):
            return found
    if operation == "sync":
        return "sync"
    return "append" if operation == "write" else "other"
