"""A token: what is kept of it, and the text that its holder shows.

    cordwood_3f9a01c2d4e5_k3Jq…                         shown once, when it is made; kept nowhere
             └── id ────┘ └ 256 random bits, base64url ┘

What is kept is the SHA-256 of the whole text. A slow hash, as for passwords, would protect nothing: nobody can try
2^256 secrets, however fast each try is; and it would be paid for by every request that brings a new connection.
"""

import base64
import hashlib
import re
import secrets
from collections.abc import Callable

from msgspec import Struct

from cordwood.auth.right import Grant
from cordwood.errors import Refused

SCHEME = "cordwood"
ID_BYTES, SECRET_BYTES = 6, 32
MOST_GRANTS = 100

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
ID = re.compile(r"[0-9a-f]{12}", re.ASCII)
HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
PREFIX = re.compile(r"[A-Za-z0-9._/-]{0,240}", re.ASCII)
_TEXT = re.compile(rb"cordwood_([0-9a-f]{12})_[A-Za-z0-9_-]{43}", re.ASCII)


class Token(Struct, frozen=True):
    """What is kept of a token. `hash` is of its text; without `expires_at` it holds until it is revoked."""

    id: str
    name: str
    hash: str
    rights: tuple[Grant, ...]
    created_at: int
    expires_at: int | None = None

    def expired(self, now_ms: int) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and now_ms >= self.expires_at


def make(
    name: str,
    rights: tuple[Grant, ...],
    now_ms: int,
    expires_at: int | None = None,
    random: Callable[[int], bytes] = secrets.token_bytes,
) -> tuple[Token, str]:
    """Return a new token, and its text, which is nowhere else."""
    id_ = random(ID_BYTES).hex()
    secret = base64.urlsafe_b64encode(random(SECRET_BYTES)).rstrip(b"=").decode()
    text = f"{SCHEME}_{id_}_{secret}"
    token = Token(id_, name, hash_of(text.encode()).hex(), rights, now_ms, expires_at)
    check(token)
    return token, text


def hash_of(text: bytes) -> bytes:
    """Return what is kept of a token's text."""
    return hashlib.sha256(text).digest()


def id_in(text: bytes) -> str | None:
    """Return the id that a token's text says, None if it is no such text."""
    found = _TEXT.fullmatch(text)
    return None if found is None else found[1].decode()


def check(token: Token) -> None:
    """Refuse a token that cannot be."""
    if not NAME.fullmatch(token.name) or ID.fullmatch(token.name):  # a name that looks like an id may be another's
        raise Refused(f"{token.name[:80]!r} is no name for a token: 1 to 64 letters, digits, '.', '_' and '-'")
    if not ID.fullmatch(token.id) or not HASH.fullmatch(token.hash):
        raise Refused(f"the id or the hash of the token {token.name!r} is not one")
    if not 0 < len(token.rights) <= MOST_GRANTS:
        raise Refused(f"the token {token.name!r} has {len(token.rights)} rights; 1 to {MOST_GRANTS} are accepted")
    for grant in token.rights:
        if not PREFIX.fullmatch(grant.prefix):
            raise Refused(f"{grant.prefix[:80]!r} is no beginning of a topic's name")
    if token.created_at < 0 or (token.expires_at is not None and token.expires_at <= token.created_at):
        raise Refused(f"the token {token.name!r} would be over before it begins")
