"""Named readers: where a program that reads the log stands, so that retention waits for it."""

from typing import Any

from msgspec import Struct

from cordwood.broker.reads import ReaderInfo
from cordwood.http.request import Request
from cordwood.server.desk import Desk, nothing
from cordwood.server.making import made_reader, telling
from cordwood.server.need import CONSUME_IN_PATH
from cordwood.server.parameters import Parameters
from cordwood.server.places import Offset
from cordwood.server.route import Answer, Route, json, only_names


class Stand(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a reader stands: partition → the offset that it reads next."""

    offsets: dict[Offset, Offset]


_stand = Parameters(Stand)


def show(desk: Desk, request: Request, topic: str, reader: str) -> Answer:
    """Answer with where a reader stands."""
    only_names(request)
    return desk.ask(lambda then: desk.broker.reader(topic, reader, then))


def put(desk: Desk, request: Request, topic: str, reader: str) -> Answer:
    """Note where a reader stands; it is made if it is not there."""
    offsets = _stand.read(request).offsets
    tell = made_reader(desk, request, topic, reader)
    return telling(desk.ask(lambda then: desk.broker.put_reader(topic, reader, offsets, then)), tell)


def delete(desk: Desk, request: Request, topic: str, reader: str) -> Answer:
    """Forget a reader."""
    only_names(request)
    return desk.ask(lambda then: desk.broker.delete_reader(topic, reader, then), nothing)


_PATH = "/v1/readers/{topic}/{reader}"
_SHOWN: dict[int, Any] = {200: json(ReaderInfo)}
ROUTES: tuple[Route, ...] = (
    Route("GET", _PATH, "Where a named reader stands", CONSUME_IN_PATH, show, _SHOWN, refusals=(404,)),
    Route(
        "PUT", _PATH, "Note where a named reader stands", CONSUME_IN_PATH, put, _SHOWN, _stand, refusals=(404, 507)
    ),
    Route(
        "DELETE",
        _PATH,
        "Forget a named reader",
        CONSUME_IN_PATH,
        delete,
        {204: {}},
        refusals=(404, 507),
        audit="reader delete",
    ),
)
