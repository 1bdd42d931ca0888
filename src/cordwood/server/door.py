"""The broker's door: whether it is locked, who is let in, and who has to go.

    auth        locked
    auto        as soon as there is a file of tokens, and from then on
    required    always; without tokens nobody comes in
    off         never

Once locked it stays so for as long as the broker runs. A file that cannot be read, or is gone, leaves the tokens
that were in it: an accident with a file neither opens the door nor shuts everybody out.
"""

import logging
from functools import partial
from pathlib import Path

from cordwood.auth.keyring import Bearer, Keyring, Unknown
from cordwood.auth.right import Right
from cordwood.auth.token_file import NAME, TokenFile
from cordwood.broker.counts import Counts
from cordwood.errors import CordwoodError, Refused
from cordwood.http.refusal import Refusal
from cordwood.http.request import Request
from cordwood.http.stream import Stream
from cordwood.machine.clock import Clock
from cordwood.server.audit import Audit
from cordwood.server.need import OPEN, Need, Of
from cordwood.server.origin import Origins
from cordwood.server.visit import NOBODY, Visit
from cordwood.settings import Settings

log = logging.getLogger("cordwood.door")

_SHOW_ONE = (("WWW-Authenticate", 'Bearer realm="cordwood"'),)


def token_file(settings: Settings, *, memory: bool = False) -> TokenFile | None:
    """Return where a broker's tokens are; None where it has none: in memory there is no directory, unless told."""
    if settings.token_file:
        return TokenFile(Path(settings.token_file))
    return None if memory else TokenFile(Path(settings.data) / NAME)


class Door:
    """Lets requests in. Make it with the broker; call `look` now and then."""

    def __init__(self, settings: Settings, file: TokenFile | None, clock: Clock, counts: Counts):
        """Raises Refused for a file of tokens that cannot be read."""
        if settings.auth == "required" and file is None:
            raise Refused("auth is required, and a broker in memory has no tokens; say where they are: token_file")
        self.locked = settings.auth == "required"
        self.keyring = Keyring()
        self.audit = Audit(clock)
        self._file = None if settings.auth == "off" else file
        self._stamp: tuple[int, ...] | None = None
        self._clock = clock
        self._counts = counts
        self._origins = Origins(settings.host, settings.allowed_hosts)
        self._staying: dict[Stream, Visit | None] = {}
        if self._file is not None:
            self._stamp = self._file.stamp()
            self._take(self._file)

    # Who comes

    def admit(self, request: Request, need: Need, known: bool = False) -> Visit | None:
        """Let a request in, or raise Refusal; None where nobody is asked, unless they must be `known`."""
        headers = request.headers
        if not self.locked:
            if not self._origins.plain(headers):
                self._check_origin(request, need)
            return Visit(self, None, need.right, request.peer) if known else None
        if need is OPEN:
            return None
        bearer = self.keyring.remembered.get(headers.get(b"authorization"))
        if bearer is None or bearer.expires_at is not None:
            bearer = self._bearer(headers, request.peer)
        visit = Visit(self, bearer, need.right, request.peer)
        if need.of is Of.BROKER:
            assert need.right is not None, "a right for everything is a right"
            if not visit.may_everywhere(need.right):
                visit.refuse(need.right, None)
        return visit

    def _check_origin(self, request: Request, need: Need) -> None:
        try:
            self._origins.check(request, need)
        except Refusal:
            self.refused("origin", None, peer=request.peer)
            raise

    def screen(self, headers: dict[bytes, bytes], peer: str) -> None:
        """Raise Refusal before a large body is received from somebody without a token."""
        if self.locked:
            self._bearer(headers, peer)

    def _bearer(self, headers: dict[bytes, bytes], peer: str) -> Bearer:
        try:
            return self.keyring.find(headers.get(b"authorization"), self._clock.now_ms())
        except Unknown as error:
            self.refused("unauthenticated", None, peer=peer)
            raise Refusal(401, f"{error}", headers=_SHOW_ONE) from None

    def refused(
        self, reason: str, visit: Visit | None, *, peer: str = "", right: str | None = None, topic: str | None = None
    ) -> None:
        """Take notice of somebody who was not let in."""
        self._counts.rejected(reason)
        who, where = (NOBODY, peer) if visit is None else (visit.who, visit.peer)
        self.audit.refused(reason, who, where, right=right, topic=topic)

    # Who stays

    def holds(self, visit: Visit | None) -> bool:
        """Whether somebody who was let in would be let in now."""
        if visit is None or visit.bearer is None:
            return not self.locked
        return self.keyring.holds(visit.bearer, self._clock.now_ms())

    def stay(self, visit: Visit | None, stream: Stream) -> None:
        """End a stream when whoever opened it would not be let in any more."""
        self._staying[stream] = visit
        stream.when_closed(partial(self._left, stream))

    def _left(self, stream: Stream) -> None:
        self._staying.pop(stream, None)

    def look(self) -> None:
        """Take notice of a changed file and of the time; whoever may not stay has to go."""
        if self._file is not None:
            stamp = self._file.stamp()
            if stamp != self._stamp:
                self._stamp = stamp
                try:
                    self._take(self._file)
                except CordwoodError as error:
                    log.error("the tokens stay as they were: %s", error)
        for stream, visit in list(self._staying.items()):
            if not self.holds(visit):
                stream.bar()

    def _take(self, file: TokenFile) -> None:
        tokens = file.read()
        if tokens is None:
            if self.keyring.tokens:
                log.error("the tokens stay as they were: %s is gone", file.path)
            return
        before, after = ({token.name for token in found} for found in (self.keyring.tokens, tokens))
        self.locked = True
        self.keyring = Keyring(tokens)
        self.audit.event(
            "tokens read",
            action="tokens",
            count=len(tokens),
            new=",".join(sorted(after - before)),
            gone=",".join(sorted(before - after)),
        )


def everything_of(visit: Visit | None) -> bool:
    """Whether all topics may be produced to, so that none of them need be looked at."""
    return visit is None or visit.may_everywhere(Right.PRODUCE)
