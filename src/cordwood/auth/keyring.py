"""Finds the token that a request shows.

    Authorization: Bearer cordwood_<id>_<secret>

    id ──▶ the token that is kept ──▶ SHA-256 of the whole text, compared in constant time

The id is no secret. How long a refusal takes says nothing about the rest: all of the text goes through the hash, and
the two hashes are compared by `compare_digest`. What was found right is remembered by its bytes; a lookup in a dict
compares bytes only where their 64-bit hash, which is keyed anew in every process, is the same already.
"""

from collections.abc import Iterable
from hmac import compare_digest

from cordwood.auth.right import Access
from cordwood.auth.token import Token, hash_of, id_in

MOST_REMEMBERED = 1_000  # spellings of headers that were found right; each token has one, as a rule
_NO_HASH = bytes(32)


class Unknown(Exception):
    """Nobody whom we know; the message says why, and may be shown."""


class Bearer:
    """Somebody who showed a token that is kept."""

    __slots__ = ("access", "expires_at", "token")

    def __init__(self, token: Token):
        self.token = token
        self.access = Access(token.rights)
        self.expires_at = token.expires_at


class Keyring:
    """The tokens at one moment; when the file changes, another one takes its place, and nothing is remembered."""

    def __init__(self, tokens: Iterable[Token] = ()):
        self._bearers = {token.id: (Bearer(token), bytes.fromhex(token.hash)) for token in tokens}
        self.remembered: dict[bytes | None, Bearer] = {}  # by the whole header; the time is not looked at

    @property
    def tokens(self) -> tuple[Token, ...]:
        """All tokens."""
        return tuple(bearer.token for bearer, _ in self._bearers.values())

    def find(self, authorization: bytes | None, now_ms: int) -> Bearer:
        """Return who shows this header; raise Unknown for nobody, and for one whose time is over."""
        if authorization is None:
            raise Unknown("this needs a token: Authorization: Bearer …")
        bearer = self.remembered.get(authorization)
        if bearer is None:
            bearer = self._prove(authorization)
            if len(self.remembered) >= MOST_REMEMBERED:
                self.remembered.clear()
            self.remembered[authorization] = bearer
        if bearer.expires_at is not None and now_ms >= bearer.expires_at:
            raise Unknown("the token has expired; ask for another one")
        return bearer

    def holds(self, bearer: Bearer, now_ms: int) -> bool:
        """Whether somebody who was found before, perhaps by an earlier keyring, would be found again."""
        found = self._bearers.get(bearer.token.id)
        return found is not None and found[0].token == bearer.token and not bearer.token.expired(now_ms)

    def _prove(self, authorization: bytes) -> Bearer:
        scheme, _, text = authorization.partition(b" ")
        if scheme.lower() != b"bearer":
            raise Unknown("the only scheme that is known here is Bearer: Authorization: Bearer …")
        text = text.strip()
        bearer, kept = self._bearers.get(id_in(text) or "", (None, _NO_HASH))
        if not compare_digest(hash_of(text), kept) or bearer is None:
            raise Unknown("the token is not one of this broker, or it was revoked")
        return bearer
