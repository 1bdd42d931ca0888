"""Tokens for the tests of a locked broker."""

import time
from pathlib import Path

from cordwood.auth import token
from cordwood.auth.right import Grant, Right
from cordwood.auth.token_file import TokenFile


def grants(*texts: str) -> tuple[Grant, ...]:
    """Return the rights that these say: `produce:orders`."""
    return tuple(Grant(Right(right), prefix) for right, _, prefix in (text.partition(":") for text in texts))


def token_of(data: Path, name: str, *rights: str, expires_at: int | None = None) -> dict[str, str]:
    """Make a token in a data directory and return the header that shows it."""
    now_ms = 1 if expires_at is not None else int(time.time() * 1000)
    made, text = token.make(name, grants(*rights), now_ms, expires_at)
    TokenFile(data / "tokens.json").add(made)
    return {"Authorization": f"Bearer {text}"}
