"""Where a group or a reader begins, as parameters say it."""

from typing import Annotated

from msgspec import Meta

from cordwood.broker import starts
from cordwood.broker.starts import Start
from cordwood.errors import Refused
from cordwood.wire.message import Time

Offset = Annotated[int, Meta(ge=0)]
Place = Annotated[str | int, Meta(description=starts.HELP)]


def place(text: str | int | None, timestamp: Time | None, name: str = "start") -> Start | None:
    """Return the place that a parameter, or else a timestamp in milliseconds, means; None when neither is given."""
    if timestamp is not None:
        if text is not None:
            raise Refused(f"only one of {name} and timestamp is accepted")
        return Start(time_ms=timestamp)
    return None if text is None else starts.parse(text)
