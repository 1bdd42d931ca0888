"""What a request asks, from its query and its JSON body together, read as one value.

    POST /v1/ack?topic=clicks&group=mailer        {"partition": 0, "offset": 7}

In the query a list or an object is JSON text: `ranges=[[0,5]]`. A parameter may come in either place; when it is in
both, they must agree. One that is not known is refused, and the refusal names those that are: a misspelt limit must
not be taken for none.
"""

import re
from collections.abc import Iterable
from types import UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct, UnsetType

from cordwood.errors import Refused
from cordwood.http.request import Request
from cordwood.wire.intake import TooLarge

T = TypeVar("T", bound=Struct)

MOST_BYTES = 4 << 20  # of a JSON body; the most ranges that one request may name fit well
MOST_COMMAS = 250_000  # a publish of 100,000 tasks fits; 4 MiB of [],[],… would keep everybody waiting for a second
_AT = re.compile(r" - at `(?:key` in `)?\$\.?(?P<place>[^`]*)`$")


class Parameters(Generic[T]):
    """Reads the parameters of one kind of request."""

    def __init__(self, kind: type[T], topic: str = "topic"):
        """`topic` is the parameter that names one, if there is such: whoever asks needs the route's right for it."""
        self.kind = kind
        fields = msgspec.structs.fields(kind)
        self.names = tuple(found.encode_name for found in fields)
        self.topic = topic if topic in self.names else None
        self._types = {found.encode_name: _plain(found.type) for found in fields}
        self._nested = frozenset(name for name, type_ in self._types.items() if _is_nested(type_))
        self._decoder = msgspec.json.Decoder(kind)

    def read(self, request: Request) -> T:
        """Return what the request asks; raise Refused if something is unknown, missing, or not what it must be.

        Raises Refusal, 403, where whoever asks lacks the right for the topic.
        """
        if b"?" not in request.target and request.body:
            found = self._read_body(request.body)
        else:
            found = self.convert(request.query, request.body)
        if self.topic is not None and request.visit is not None:
            request.visit.allow(getattr(found, self.topic))
        return found

    def _read_body(self, body: bytes | memoryview) -> T:
        _check_size(body)
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self._refused(error) from None

    def convert(self, query: dict[str, str], body: bytes | memoryview = b"") -> T:
        """Return what query and body ask together."""
        try:
            given: Any = {}
            if body:
                _check_size(body)
                given = msgspec.json.decode(body)
                if not isinstance(given, dict):
                    raise Refused("the body is not a JSON object of parameters")
            for name, text in query.items():
                value = self._value(name, text)
                if name in given and given[name] != value:
                    raise Refused(f"{name} is {text[:80]!r} in the query and another in the body")
                given[name] = value
            return msgspec.convert(given, self.kind, str_keys=True)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self._refused(error) from None

    def check_names(self, names: Iterable[str]) -> None:
        """Raise Refused if one of these names no parameter."""
        for name in names:
            if name not in self._types:
                raise self._unknown(name)

    def _value(self, name: str, text: str) -> Any:
        self.check_names((name,))
        try:
            if name in self._nested:
                return msgspec.json.decode(text)
            return msgspec.convert(text, self._types[name], strict=False)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise Refused(f"{name}: {_sentence(error)}") from None

    def _unknown(self, name: str) -> Refused:
        known = f"known are {', '.join(self.names)}" if self.names else "there are none here"
        return Refused(f"there is no parameter {name[:80]!r}; {known}")

    def _refused(self, error: Exception) -> Refused:
        text = str(error)
        unknown = re.search(r"Object contains unknown field `(.*?)`", text, re.DOTALL)
        return self._unknown(unknown[1]) if unknown else Refused(_sentence(error))


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters at all."""


def _check_size(body: bytes | memoryview) -> None:
    if len(body) > MOST_BYTES:
        raise TooLarge(f"the body has {len(body)} bytes, at most {MOST_BYTES} are accepted here")
    if len(body) > MOST_COMMAS and bytes(body).count(b",") > MOST_COMMAS:
        raise TooLarge(f"the body has more than {MOST_COMMAS} values; that is more than anything here is about")


def _sentence(error: Exception) -> str:
    """Return what is wrong, beginning with the parameter that it concerns."""
    if isinstance(error, RecursionError):
        return "the JSON is nested too deeply"
    text = " ".join(str(error).split())
    missing = re.fullmatch(r"Object missing required field `(.*)`", text)
    if missing:
        return f"{missing[1]} is missing"
    at = _AT.search(text)
    if at is None:
        return text[:1].lower() + text[1:300].replace("`", "")
    text = text[: at.start()].replace("`", "")
    return f"{at['place'] or 'the body'}: {text[:1].lower()}{text[1:300]}"


def _plain(type_: Any) -> Any:
    """Return a field's type without UNSET, which only a field may be."""
    if get_origin(type_) in (Union, UnionType):
        return Union[tuple(arg for arg in get_args(type_) if arg is not UnsetType)]  # noqa: UP007
    return type_


def _is_nested(type_: Any) -> bool:
    return get_origin(type_) in (list, dict, tuple) or any(_is_nested(arg) for arg in get_args(type_))
