"""What a route asks of whoever comes: a right, and for what. Every route says it; there is no default.

    of          the topic is            checked by
    PATH        {topic} in the path     the guard, before the route is asked
    ASKED       a parameter             whoever reads the parameters, before the route sees them
    MESSAGES    with the messages       the route, before the broker is asked
    LISTED      none in particular      the route: any token is let in, and shown what it may see
    BROKER      all of them             the guard: the right must be for everything

PATH without a right means any right for that topic: a producer must see how many partitions there are.
"""

from enum import StrEnum
from typing import NamedTuple

from cordwood.auth.right import Right


class Of(StrEnum):
    """Where it is said which topics are concerned."""

    PATH = "path"
    ASKED = "asked"
    MESSAGES = "messages"
    LISTED = "listed"
    BROKER = "broker"


class Need(NamedTuple):
    """What it takes to be let in; `OPEN` takes nothing."""

    right: Right | None
    of: Of | None

    @property
    def words(self) -> str:
        """The need as people read it."""
        if self.of is None:
            return "open"
        if self.of is Of.LISTED:
            return "any token; the answer has what it may see"
        right = "any right" if self.right is None else self.right.value
        return f"{right} for everything" if self.of is Of.BROKER else f"{right} for the topic"


OPEN = Need(None, None)
SEEN = Need(None, Of.PATH)
LISTED = Need(None, Of.LISTED)
PRODUCE = Need(Right.PRODUCE, Of.MESSAGES)
CONSUME = Need(Right.CONSUME, Of.ASKED)
CONSUME_IN_PATH = Need(Right.CONSUME, Of.PATH)
ADMIN = Need(Right.ADMIN, Of.ASKED)
ADMIN_IN_PATH = Need(Right.ADMIN, Of.PATH)
ADMIN_OF_ALL = Need(Right.ADMIN, Of.BROKER)
