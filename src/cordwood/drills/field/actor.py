"""Somebody who does the same thing again and again, in a thread of their own, until told to stop."""

import threading
from abc import abstractmethod
from collections.abc import Iterable

from cordwood.drills.field.stage import Failed

JOIN_S = 180.0  # longer than anything that one of them waits for


class Actor(threading.Thread):
    """Acts once started; what it raises is raised by `finish`."""

    def __init__(self, name: str):
        super().__init__(name=name, daemon=True)
        self.over = threading.Event()
        self._error: BaseException | None = None

    @abstractmethod
    def act(self) -> None:
        """Do it, until `over` is set."""

    def run(self) -> None:
        try:
            self.act()
        except BaseException as error:
            self._error = error

    def halt(self) -> None:
        """Have it stop, some time."""
        self.over.set()

    def finish(self) -> None:
        """Have it stop after what is under way, and return when it has."""
        self.over.set()
        self.join(JOIN_S)
        if self.is_alive():
            raise Failed(f"expected that {self.name} is answered; saw nothing for {JOIN_S:.0f} s")
        if self._error is not None:
            raise self._error


def finish(actors: Iterable[Actor]) -> None:
    """Have all of these stop."""
    for one in actors:
        one.finish()
