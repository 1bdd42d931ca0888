"""One request and who makes it: what it may do is asked here, by the guard, by parameters, and by routes."""

from typing import TYPE_CHECKING, NoReturn

from cordwood.auth.keyring import Bearer
from cordwood.auth.right import Right
from cordwood.http.refusal import Refusal

if TYPE_CHECKING:
    from cordwood.server.door import Door

NOBODY = "-"  # who it is where nobody is asked


class Visit:
    """A request that was let in. Without a bearer the door is not locked, and everything is allowed."""

    __slots__ = ("_door", "bearer", "peer", "right", "topic")

    def __init__(self, door: "Door", bearer: Bearer | None, right: Right | None, peer: str):
        self._door = door
        self.bearer = bearer
        self.right = right
        self.peer = peer
        self.topic = ""  # the last that was asked about

    @property
    def who(self) -> str:
        """The name of the token."""
        return NOBODY if self.bearer is None else self.bearer.token.name

    def allow(self, topic: str) -> None:
        """Return if the route's right holds for this topic; raise Refusal, 403, if it does not."""
        self.topic = topic
        if self.bearer is not None and not self.bearer.access.may(self.right, topic):
            self.refuse(self.right, topic)

    def allow_also(self, right: Right, topic: str) -> None:
        """The same for another right."""
        if not self.may(right, topic):
            self.refuse(right, topic)

    def allow_somewhere(self, right: Right) -> None:
        """The same where no topic is named: it must hold for one at least."""
        if self.bearer is not None and right not in self.bearer.access.somewhere:
            self.refuse(right, None, "any topic")

    def may(self, right: Right | None, topic: str) -> bool:
        """Say whether this is allowed; None asks whether anything is."""
        return self.bearer is None or self.bearer.access.may(right, topic)

    def may_everywhere(self, right: Right) -> bool:
        """Say whether this is allowed with every topic."""
        return self.bearer is None or right in self.bearer.access.everywhere

    def refuse(self, right: Right | None, topic: str | None, of: str = "everything") -> NoReturn:
        """Raise the Refusal that names what is lacking; `of` says for what where that is no one topic."""
        lacking = "any right" if right is None else f"the right to {right}" if right is not Right.ADMIN else "admin"
        what = of if topic is None else f"the topic {topic[:250]!r}"
        self._door.refused("permission_denied", self, right=lacking, topic=topic)
        raise Refusal(403, f"the token {self.who!r} lacks {lacking} for {what}")
