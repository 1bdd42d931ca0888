"""What comes to be by the way: a topic by producing to it, a group by asking for its messages, a reader by reading.

    before the broker is asked    is it there?
    with the answer               it is there now: told, with who did it, and by which route

It is told of like what is made on purpose, but for what was sent: that is messages, or said again and again.
"""

from collections.abc import Callable

from cordwood.http.later import Later, Outcome
from cordwood.http.request import Request
from cordwood.server.desk import Desk
from cordwood.server.visit import NOBODY

Tell = Callable[[], None]


def made_topic(desk: Desk, request: Request, topic: str) -> Tell | None:
    """Return what tells of a topic that this request may make; None where it makes none."""
    if not desk.settings.auto_create_topics or topic in desk.broker.state.topics:
        return None
    return _made(desk, request, lambda: topic in desk.broker.state.topics, "topic create", topic=topic)


def made_group(desk: Desk, request: Request, topic: str, group: str) -> Tell | None:
    """The same for a group."""

    def there() -> bool:
        found = desk.broker.state.topics.get(topic)
        return found is not None and group in found.groups

    return None if there() else _made(desk, request, there, "group create", topic=topic, group=group)


def made_reader(desk: Desk, request: Request, topic: str, reader: str) -> Tell | None:
    """The same for a named reader."""

    def there() -> bool:
        found = desk.broker.state.topics.get(topic)
        return found is not None and reader in found.readers

    return None if there() else _made(desk, request, there, "reader create", topic=topic, reader=reader)


def telling(answer: Later, tell: Tell | None) -> Later:
    """Return the same answer; what it made is told of when it is there."""
    if tell is None:
        return answer
    told = Later()

    def given(outcome: Outcome) -> None:
        tell()
        told.give(outcome)

    if answer.outcome is not None:
        given(answer.outcome)
    else:
        answer.then(given)
    return told


def _made(desk: Desk, request: Request, there: Callable[[], bool], action: str, **names: str) -> Tell:
    visit = request.visit

    def tell() -> None:
        if there():
            who = NOBODY if visit is None else visit.who
            by = f"{request.method} {request.path}"
            desk.door.audit.event(action, action=action, who=who, peer=request.peer, **names, by=by)

    return tell
