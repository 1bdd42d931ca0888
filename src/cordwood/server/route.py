"""One method and path, what it takes and what it answers; and the table that finds it.

    /v1/groups/{topic}/{group}/seek    with and without /v1; %2F inside a name is a part of it

The hot routes have no names in their path and are found by its bytes; all others by their segments.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cordwood.http.refusal import Refusal
from cordwood.http.request import Request
from cordwood.http.response import Response
from cordwood.http.stream import Stream
from cordwood.server.desk import Desk
from cordwood.server.formats import JSON
from cordwood.server.guard import guarded
from cordwood.server.need import OPEN, Need, Of
from cordwood.server.parameters import Nothing, Parameters
from cordwood.wire.message import Message

Answer = Response | Stream | Awaitable[Response | Stream]
Act = Callable[..., Answer]  # (desk, request, *names in the path)

NO_PARAMETERS = Parameters(Nothing)


def only_names(request: Request) -> None:
    """Refuse parameters where the path says all there is to say."""
    if b"?" in request.target or request.body:
        NO_PARAMETERS.read(request)


@dataclass(frozen=True, slots=True)
class Route:
    """A route, as it is served and as it is described.

    `answers`: what each good status brings, by format. `refusals`: further statuses than those that any request may
    get. `messages`: the body is messages of this kind, so that parameters come in the query; those that it has as
    fields may be in a body of one message instead. `headers`: of its good answers. `need`: what it asks of whoever
    comes; `opened_by`: a setting that makes it open to all. `audit`: what it is called in the audit; empty for what
    changes nothing but messages.
    """

    method: str
    path: str
    summary: str
    need: Need
    act: Act
    answers: Mapping[int, Mapping[str, Any]]
    parameters: Parameters[Any] = field(default=NO_PARAMETERS)
    refusals: tuple[int, ...] = ()
    messages: type[Message] | None = None
    headers: tuple[str, ...] = ()
    audit: str = ""
    opened_by: str = ""

    def __post_init__(self) -> None:
        in_path, asked = "{topic}" in self.path, self.parameters.topic is not None
        assert in_path == (self.need.of is Of.PATH), f"{self.path}: whose topic is in its path needs a right for it"
        assert in_path or self.messages is not None or asked == (self.need.of is Of.ASKED), (
            f"{self.path}: it asks for a topic"
        )
        assert not (self.audit and self.need is OPEN), f"{self.path}: nobody would know who it was"

    @property
    def parts(self) -> tuple[str, ...]:
        """The segments of the path, without the version; none for `/`."""
        return tuple(part for part in self.path.split("/") if part not in ("", "v1"))


def json(answer: Any) -> dict[str, Any]:
    """Return what an answer in JSON brings."""
    return {JSON: answer}


class Table:
    """All routes, bound to one desk."""

    def __init__(self, routes: Iterable[Route], desk: Desk):
        self.hot: dict[tuple[str, bytes], Callable[[Request], Answer]] = {}
        self._shapes: dict[tuple[str, ...], dict[str, Callable[..., Answer]]] = {}
        for route in routes:
            need = OPEN if route.opened_by and getattr(desk.settings, route.opened_by) else route.need
            names = tuple(part[1:-1] for part in route.parts if part.startswith("{"))
            act = guarded(desk, route.act, need, route.audit, names)
            methods = ("GET", "HEAD") if route.method == "GET" else (route.method,)
            shape = tuple("" if part.startswith("{") else part for part in route.parts)
            for method in methods:
                assert method not in self._shapes.get(shape, {}), f"two routes for {method} {route.path}"
                self._shapes.setdefault(shape, {})[method] = act
                if "" not in shape:
                    path = "/".join(shape).encode()
                    self.hot[(method, b"/" + path)] = self.hot[(method, b"/v1/" + path)] = act

    def find(self, request: Request) -> Callable[[Request], Answer]:
        """Return what answers a request; raise Refusal, 404 or 405, when there is nothing."""
        segments = request.segments
        if segments[:1] == ("v1",) and len(segments) > 1:
            segments = segments[1:]
        acts, names = self._match(segments)
        if acts is None:
            raise Refusal(404, f"There is nothing at {request.path[:200]}; /docs shows what there is.")
        act = acts.get(request.method)
        if act is None:
            allowed = ", ".join(sorted(acts))
            raise Refusal(
                405, f"This path is for {allowed}, not for {request.method}.", headers=(("Allow", allowed),)
            )
        return (lambda request: act(request, *names)) if names else act

    def _match(self, segments: tuple[str, ...]) -> tuple[dict[str, Callable[..., Answer]] | None, tuple[str, ...]]:
        """Return the acts of a path by method, and the names in it."""
        for shape, acts in self._shapes.items():
            if len(shape) == len(segments) and all(
                not part or part == segment for part, segment in zip(shape, segments, strict=True)
            ):
                return acts, tuple(segment for part, segment in zip(shape, segments, strict=True) if not part)
        return None, ()
