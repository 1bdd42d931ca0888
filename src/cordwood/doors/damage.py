"""A foreign log that is damaged."""

from collections.abc import Sequence

from cordwood.doors.record import Place
from cordwood.errors import CordwoodError, Damaged


class DamagedLog(Damaged):
    """Whole records of another system's log do not read as they were written; nothing was changed or imported."""

    def __init__(self, places: Sequence[Place], remedy: str):
        self.damages = ()
        self.places = tuple(places)
        named = "; ".join(str(place) for place in self.places[:3])
        more = f"; and {len(self.places) - 3} more place(s)" if len(self.places) > 3 else ""
        CordwoodError.__init__(self, f"damaged: {named}{more}. {remedy}")
