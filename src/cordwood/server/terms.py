"""The settings that a topic or a group may have of its own, as parameters; described by the broker's settings."""

from dataclasses import fields
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from cordwood.settings import Settings

_SETTINGS = {found.name: found.metadata for found in fields(Settings)}


def about(name: str) -> Meta:
    """Return what the description of a setting says. Its bounds are checked where it is set, not here."""
    known = _SETTINGS[name]
    bounds = {"minimum": known["least"], "maximum": known["most"], "enum": list(known["among"])}
    schema = {word: bound for word, bound in bounds.items() if bound not in (None, [])}
    return Meta(description=known["why"], extra_json_schema=schema)


# Of a lease, where it is asked for: refused before anything comes of it.
LeaseMs = Annotated[
    int,
    Meta(
        ge=_SETTINGS["lease_ms"]["least"], le=_SETTINGS["lease_ms"]["most"], description=_SETTINGS["lease_ms"]["why"]
    ),
]


class TopicSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of one topic; null takes one back to the broker's."""

    max_buffered_messages: Annotated[int, about("max_buffered_messages")] | UnsetType | None = UNSET
    max_buffered_bytes: Annotated[int, about("max_buffered_bytes")] | UnsetType | None = UNSET
    retention_ms: Annotated[int, about("retention_ms")] | UnsetType | None = UNSET
    retention_bytes: Annotated[int, about("retention_bytes")] | UnsetType | None = UNSET
    discard: Annotated[str, about("discard")] | UnsetType | None = UNSET
    hold_max_ms: Annotated[int, about("hold_max_ms")] | UnsetType | None = UNSET


class GroupSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of one group; null takes one back to the broker's."""

    max_in_flight: Annotated[int, about("max_in_flight")] | UnsetType | None = UNSET
    lease_ms: Annotated[int, about("lease_ms")] | UnsetType | None = UNSET
    max_attempts: Annotated[int, about("max_attempts")] | UnsetType | None = UNSET
    backoff_ms: Annotated[int, about("backoff_ms")] | UnsetType | None = UNSET
    max_backoff_ms: Annotated[int, about("max_backoff_ms")] | UnsetType | None = UNSET
    on_exhausted: Annotated[str, about("on_exhausted")] | UnsetType | None = UNSET
    mode: Annotated[str, about("mode")] | UnsetType | None = UNSET


def given(asked: Struct, *others: str) -> dict[str, Any]:
    """Return the settings that were given, without the parameters named in `others`."""
    return {name: value for name, value in structs.asdict(asked).items() if value is not UNSET and name not in others}
