"""Names of topics, groups and readers: what they may be."""

import re
from collections.abc import Container

from cordwood.errors import Refused

MAX_CHARACTERS = 240
DEAD = "dlq."  # the topic of another's dead letters

_PARTS = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*", re.ASCII)


def check_topic(name: str) -> str:
    """Return a name that a topic may have, or refuse it."""
    return _check(name, "topic")


def check_group(name: str, what: str = "group") -> str:
    """Return a name that a group, or a named reader, may have, or refuse it."""
    return _check(name, what)


def dead_letters_of(topic: str) -> str:
    """Return the topic where this one's dead letters go."""
    return DEAD + topic


def is_dead_letters(name: str, topics: Container[str]) -> bool:
    """Whether a topic holds the dead letters of another that is there."""
    source = name.removeprefix(DEAD)
    return source != name and not source.startswith(DEAD) and source in topics


def _check(name: str, what: str) -> str:
    if not name:
        raise Refused(f"the {what} needs a name")
    if len(name) > MAX_CHARACTERS:
        raise Refused(f"the {what}'s name has {len(name)} characters, at most {MAX_CHARACTERS} are accepted")
    if not _PARTS.fullmatch(name) or any(part in (".", "..") for part in name.split("/")):
        raise Refused(
            f"{name[:80]!r} is no {what} name: letters, digits, '.', '_' and '-', with '/' between parts"
            " that are not empty, '.' or '..'"
        )
    return name
