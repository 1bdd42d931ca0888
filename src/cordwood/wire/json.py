"""A JSON body: one message."""

from typing import TypeVar

import msgspec

from cordwood.errors import Refused
from cordwood.record import one_line
from cordwood.wire.intake import Limits, TooLarge
from cordwood.wire.message import REPEATED, Fault, Message, check, names_repeat, produce, records
from cordwood.wire.produce import Produce

CONTENT_TYPE = "application/json"
M = TypeVar("M", bound=Message)
_decoder = msgspec.json.Decoder(Message)


def read(body: bytes | memoryview, now_ms: int, limits: Limits) -> Produce:
    """Return the one message of the body as a request; raise Refused for anything else."""
    return produce([decode(body, limits)], now_ms, limits)


def decode(body: bytes | memoryview, limits: Limits) -> Message:
    """Return the one message of the body, which `records` will accept; raise Refused for anything else."""
    return decode_as(_decoder, body, limits)


def decode_as(decoder: "msgspec.json.Decoder[M]", body: bytes | memoryview, limits: Limits) -> M:
    """Return the one message of the body, of a kind that may say more than others.

    A batch of one costs twenty times what this does, so messages that wait for the same commit are kept like this and
    become one batch then.
    """
    check_text(body, limits)
    try:
        message = decoder.decode(body)
        if names_repeat(bytes(body), [message]):
            raise Fault(0, REPEATED)
        check(message)
    except Fault as fault:
        raise Refused(f"the message is not accepted: {fault.reason}") from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Refused(f"the message is not accepted: {reason(error)}") from None
    if len(body) > limits.max_message_bytes:  # no text is smaller than what it stands for
        records([message], 0, limits)
    return message


def check_text(body: bytes | memoryview, limits: Limits) -> None:
    """Raise Refused unless the body is small enough and UTF-8 throughout; msgspec does not look inside raw values."""
    if len(body) > limits.max_text_bytes:
        raise TooLarge(f"the body has {len(body)} bytes, at most {limits.max_text_bytes} are accepted")
    try:
        str(body, "utf-8")
    except UnicodeDecodeError as error:
        raise Refused(f"byte {error.start} of the body is not UTF-8; other bytes go into value_base64") from None


def reason(error: Exception) -> str:
    """Return what is wrong, in a word that a sender understands."""
    if isinstance(error, RecursionError):
        return "the JSON is nested too deeply"
    return one_line(error)
