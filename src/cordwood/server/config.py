"""The settings in force, as they may be shown: secrets masked, and what the sync mode means for what is seen."""

import re
from dataclasses import fields
from typing import Any

from cordwood.broker.running import Running
from cordwood.settings import Settings

MASK = "***"

_SECRET = re.compile(r"token|secret|password|credential|(?:^|_)key(?:$|_)", re.IGNORECASE)
_USER = re.compile(r"(?<=://)[^/?#]*@")
_VALUE = re.compile(r"(?<==)[^&#]*")

# What concerns the computer and not the messages: for whom the whole broker is.
_OF_THE_COMPUTER = frozenset(
    (
        *("data", "host", "port", "log_level", "log_format", "auth", "token_file", "tls_cert", "tls_key"),
        *("metrics_public", "allowed_hosts", "tier", "metadata"),
    )
)

# What a reply rests on, and what a consumer or reader may see.
_SHOWS = {"always": "synced", "interval": "synced", "never": "written"}


def in_force(running: Running, *, whole: bool = True) -> dict[str, Any]:
    """Return every setting with its value, and what follows from them; or only those that concern messages."""
    settings = running.settings
    shown = {found.name: masked(found.name, getattr(settings, found.name)) for found in fields(Settings)}
    if not whole:
        shown = {name: value for name, value in shown.items() if name not in _OF_THE_COMPUTER}
    tiering = running.tiering
    return {
        **shown,
        "tier_url": None if tiering is None else tiering.objects.url,
        "memory": running.memory,
        "durability": running.durability,
        "shows": "accepted" if running.memory else _SHOWS[settings.sync],
    }


def masked(name: str, value: Any) -> Any:
    """Return a setting's value without what is secret in it: a user in a URL, and whatever its query says."""
    if not isinstance(value, str) or not value:
        return value
    if _SECRET.search(name):
        return MASK
    value = _USER.sub(f"{MASK}@", value)
    address, mark, query = value.partition("?")
    return address + mark + _VALUE.sub(MASK, query)
