"""One request on its way: what it still has to write, and what it must be answered.

A request is a plan, a generator: it raises what the request must be refused with, yields a judge for each frame that
it must write, and returns the answer. A judge is given what the broker wrote, and returns the facts with their
messages, or raises `Disagreement`.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cordwood.drills.broker_model.facts import Fact

Judge = Callable[[Sequence[Fact]], list[Fact]]
Plan = Generator[Judge, None, Any]

LATER = object()  # what a plan returns that is decided together with others


class Disagreement(BaseException):
    """Model and broker do not agree. The message says about what.

    It is no Exception, because the broker goes on after most of those.
    """


class AtOnce(NamedTuple):
    """An answer that promises nothing, so it need not wait for the disk."""

    answer: Any


@dataclass(slots=True, eq=False)
class Asked:
    """A request. `level`: how durable what its answer rests on must be, "replied" or "shown"; None: not at all."""

    name: str
    plan: Callable[[], Plan]
    level: str | None = "replied"
    waits: bool = True  # for room
    appends: bool = False  # messages, many at once: it waits behind others that wait
    stays: bool = False  # once it waits, it stays behind those that wait before it
    topic: str | None = None  # single messages that were gathered for this topic come before it
    silent: bool = False  # no answer comes by itself: a consumer's comes with its messages
    steps: Plan | None = None
    judge: Judge | None = None
    wrote: list[int] = field(default_factory=list)
    needs: int = 0  # the LSN behind the last frame that the answer rests on
    answer: Any = None
    ready: bool = False  # it was run, and only its answer is missing
    answered: bool = False
    cancelled: bool = False
    later: bool = False  # it was gathered with others
    disappointed: bool = False  # what it needed from elsewhere could not be fetched
    behind_gathered: bool = False  # it is not begun, because those come first
    unclear: bool = False  # nobody outside can know whether another owner holds what it is about: it may be refused
