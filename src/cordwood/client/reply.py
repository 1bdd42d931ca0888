"""What came back, and which error it stands for.

2xx                             fine
404 → NotFound                  409 → Conflict, with what the broker expected        other 4xx → Refused
429 → Limited, with how long    507 → Full                    408, 5xx → Unavailable
"""

from typing import Any, NamedTuple

import msgspec

from cordwood.errors import Conflict, CordwoodError, Full, Limited, NotFound, Refused, Unavailable

STRANGER = "is that a Cordwood broker?"
LONGEST_WAIT_MS = 3_600_000  # nobody is told to wait for longer


class Reply(NamedTuple):
    """One whole answer; `body` is bytes or anything else with a buffer."""

    status: int
    headers: dict[bytes, bytes]
    body: Any

    @property
    def ok(self) -> bool:
        """Whether the broker did what it was asked."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """Return the body read as JSON; None when there is none. Raises Unavailable when it is something else."""
        data = memoryview(self.body)
        if not len(data):
            return None
        try:
            return msgspec.json.decode(data)
        except (ValueError, RecursionError):
            raise Unavailable(f"the answer ({self.status}) is not JSON; {STRANGER}") from None

    def facts(self) -> dict[str, Any]:
        """Return the body read as a JSON object. Raises Unavailable when it is something else."""
        found = self.json()
        if not isinstance(found, dict):
            raise Unavailable(f"the answer ({self.status}) is not an object; {STRANGER}")
        return found

    def checked(self) -> "Reply":
        """Return this if it is fine, else raise the error that it stands for."""
        if not self.ok:
            raise error_of(self)
        return self


def error_of(reply: Reply) -> CordwoodError:
    """Return the error that an answer stands for, with the broker's own words."""
    facts = _facts(reply)
    text = str(facts.pop("message", "") or f"the broker answered {reply.status}")
    facts.pop("error", None)
    status = reply.status
    if status == 404:
        return NotFound(text)
    if status == 409:
        return Conflict(text, **{name: fact for name, fact in facts.items() if isinstance(fact, int | str)})
    if status == 429:
        return Limited(text, str(facts.get("reason", "")), retry_after_ms(reply) or 1_000)
    if status == 507:
        return Full(text)
    if status == 408 or status >= 500 or status < 400:
        return Unavailable(text)
    return Refused(text)


def retry_after_ms(reply: Reply) -> int | None:
    """Return how long the broker asks to wait, None when it does not say."""
    exact = _facts(reply).get("retry_after_ms")
    if isinstance(exact, int) and exact >= 0:
        return min(exact, LONGEST_WAIT_MS)
    seconds = reply.headers.get(b"retry-after", b"")
    return min(int(seconds[:9]) * 1000, LONGEST_WAIT_MS) if seconds.isdigit() else None


def _facts(reply: Reply) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(memoryview(reply.body))
    except (ValueError, RecursionError):
        return {}
    return dict(found) if isinstance(found, dict) else {}
