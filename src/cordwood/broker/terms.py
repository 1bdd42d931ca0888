"""What was said about a topic or a group when it was made or set; what was not said follows the broker's settings."""

from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType, structs

from cordwood.errors import Refused
from cordwood.settings import Settings, check


class TopicTerms(Struct, frozen=True, omit_defaults=True):
    """The settings of one topic. UNSET: as the broker's."""

    max_buffered_messages: int | UnsetType = UNSET
    max_buffered_bytes: int | UnsetType = UNSET
    retention_ms: int | UnsetType = UNSET
    retention_bytes: int | UnsetType = UNSET
    discard: str | UnsetType = UNSET
    hold_max_ms: int | UnsetType = UNSET


class GroupTerms(Struct, frozen=True, omit_defaults=True):
    """The settings of one group. UNSET: as the broker's."""

    max_in_flight: int | UnsetType = UNSET
    lease_ms: int | UnsetType = UNSET
    max_attempts: int | UnsetType = UNSET
    backoff_ms: int | UnsetType = UNSET
    max_backoff_ms: int | UnsetType = UNSET
    on_exhausted: str | UnsetType = UNSET
    mode: str | UnsetType = UNSET


T = TypeVar("T", TopicTerms, GroupTerms)


def changed(terms: T, changes: dict[str, Any]) -> T:
    """Return the terms with some changed; None takes one back to the broker's. Refuses what cannot be."""
    known = terms.__struct_fields__
    values: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in known:
            raise Refused(f"there is no setting {name!r} here; known are {', '.join(known)}")
        values[name] = UNSET if value is None else check(name, value, name)
    return structs.replace(terms, **values)


def value_of(terms: T, name: str, settings: Settings) -> Any:
    """Return the value that counts of one setting."""
    value = getattr(terms, name)
    return getattr(settings, name) if value is UNSET else value


def in_force(terms: T, settings: Settings) -> dict[str, Any]:
    """Return every setting with the value that counts."""
    return {name: value_of(terms, name, settings) for name in terms.__struct_fields__}
