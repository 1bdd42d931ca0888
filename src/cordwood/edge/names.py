"""Names: an execution as one part of a path, and what a directory's name says.

    job-42%2F1                a run that lives, or that was left where it died
    job-42%2F1@3              a left-over that a sender has taken, the third of this execution
    job-42%2F1@new-5f…        being made: nothing in it was acknowledged
    job-42%2F1@gone-5f…       archived: being removed

Quoting leaves no `@`, so the execution in front of it is never in doubt.
"""

import re
from urllib.parse import quote, unquote

from cordwood.errors import Refused

ARCHIVE = "archive"  # where the archives are, beside the outboxes
MOST_BYTES = 200  # of a quoted name: the archive's suffixes and a file system's 255 leave no more
NEW, GONE = "new-", "gone-"
_TOPIC = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_MOST_TOPIC = 240


def quoted(execution: str) -> str:
    """Return the name as one part of a path, which `execution_of` turns back. Refuses what cannot be one."""
    try:
        name = quote(execution, safe="")
    except UnicodeEncodeError:
        raise Refused("an execution's name is text that can be written as UTF-8") from None
    if not name or len(name) > MOST_BYTES:
        raise Refused(f"an execution's name has 1 to {MOST_BYTES} bytes when quoted, not {len(name)}")
    if name in (".", "..", ARCHIVE):
        return f"%{ord(name[0]):02X}{name[1:]}"
    return name


def execution_of(directory: str) -> str:
    """Return the execution whose log a directory of this name holds."""
    return unquote(directory.partition("@")[0])


def is_log(directory: str) -> bool:
    """Say whether a directory of this name may hold a log with acknowledged events."""
    stem, at, rest = directory.partition("@")
    return bool(stem) and directory != ARCHIVE and (not at or rest.isdecimal())


def taken_name(directory: str, others: list[str]) -> str:
    """Return the name that a left-over gets when a sender takes it: behind all earlier ones of its execution."""
    stem = directory.partition("@")[0]
    numbers = [int(other[len(stem) + 1 :]) for other in others if is_log(other) and other.startswith(f"{stem}@")]
    return f"{stem}@{max(numbers, default=0) + 1}"


def run_of(directory: str) -> int | None:
    """Return which left-over of its execution this is; None for a run that has not been taken."""
    rest = directory.partition("@")[2]
    return int(rest) if rest.isdecimal() else None


def check_topic(topic: str) -> str:
    """Return a topic's name, or refuse what the broker would refuse: that must not be learnt event by event."""
    parts = topic.split("/")
    if not _TOPIC.fullmatch(topic) or len(topic) > _MOST_TOPIC or "." in parts or ".." in parts:
        raise Refused(f"{topic!r} is no name of a topic: letters, digits and ._- in parts with / between them")
    return topic
