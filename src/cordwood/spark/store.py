"""Where a broker's history is, and how a reader beside the broker opens it."""

import logging
import os
from functools import lru_cache
from typing import Any

from cordwood.errors import Refused, Unavailable
from cordwood.machine.objects.opening import open_objects
from cordwood.machine.objects.store import Objects

log = logging.getLogger("cordwood.spark")

_CLOUDS = ("s3://", "gs://", "az://")
_said: set[str] = set()


def store_of(config: dict[str, Any]) -> str | None:
    """Return the store that a broker's settings name: a path or a cloud's URL; None where nobody else can open it.

    A broker says it as `tier_url`. One that does not may have been started with a path below its own directory, which
    only that broker knows.
    """
    if "tier_url" in config:
        told = str(config["tier_url"] or "")
        return told.removeprefix("file://") or None  # as it is: a path in a store's own URL is not quoted
    tier = str(config.get("tier") or "")
    if tier == "none" or config.get("memory"):
        return None
    if tier.startswith(_CLOUDS):
        return tier
    path = tier or os.path.join(str(config.get("data") or ""), "tier")
    return path if path.startswith("/") else None


def is_directory(store: str) -> bool:
    """Say whether a store is a directory, and its name a path."""
    return store.startswith("/")


@lru_cache(maxsize=8)
def opened(url: str) -> Objects | None:
    """Return the store, None where this computer cannot open it; that is said once."""
    if is_directory(url) and not os.access(f"{url}/topics", os.R_OK | os.X_OK):
        # Not opened to find out: that would make an empty directory where there is none.
        say_once(f"{url} cannot be read on this computer; history is read through the broker")
        return None
    try:
        return open_objects(url)
    except (Refused, Unavailable) as error:
        say_once(f"history is read through the broker: {error}")
        return None


def say_once(text: str) -> None:
    """Warn, if this process did not say the same before."""
    if text not in _said:
        _said.add(text)
        log.warning("%s", text)


def literally(path: str) -> str:
    """Return a path in which nothing means "any file like this"."""
    return "".join(f"\\{one}" if one in "*?[]{}\\" else one for one in path)
