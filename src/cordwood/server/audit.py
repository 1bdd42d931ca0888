"""Who did what: one line in the log for everything that changes more than messages, and for who was not let in.

    logger cordwood.audit    action, who (the token's name, or -), peer, topic, what was asked, and the status

It is logged at every log_level. Refused tries are many when somebody tries tokens, and each would cost a line: after
`MOST` of them in `WINDOW_MS` the rest is counted, and told with the next one.
"""

import logging
from typing import Any

from cordwood.http.later import Later
from cordwood.http.refusal import Refusal
from cordwood.http.request import Request
from cordwood.http.response import Response
from cordwood.http.stream import Stream
from cordwood.machine.clock import Clock
from cordwood.server.visit import Visit

log = logging.getLogger("cordwood.audit")

MOST = 20
WINDOW_MS = 60_000
MOST_ASKED = 300  # characters of a request that are told


class Audit:
    """Tells the log; refusals sparingly."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self._window_ms = -WINDOW_MS
        self._told = 0
        self._untold = 0

    def event(self, message: str, **facts: Any) -> None:
        """Tell of something that is no request."""
        log.info(message, extra=facts)

    def refused(self, reason: str, who: str, peer: str, **facts: Any) -> None:
        """Tell of somebody who was not let in, unless that was told too often in this minute."""
        now = self._clock.monotonic_ms()
        if now - self._window_ms >= WINDOW_MS:
            if self._untold:
                log.warning("refused, and not told one by one", extra={"action": "refused", "count": self._untold})
            self._window_ms, self._told, self._untold = now, 0, 0
        if self._told >= MOST:
            self._untold += 1
            return
        self._told += 1
        given = {name: value for name, value in facts.items() if value is not None}
        log.warning("refused", extra={"action": "refused", "reason": reason, "who": who, "peer": peer, **given})

    def done(self, action: str, request: Request, visit: Visit, names: dict[str, str], outcome: object) -> None:
        """Tell of a request that was let in, and what came of it."""
        status = outcome.status if isinstance(outcome, Response | Stream | Refusal) else 500
        facts = {"action": action, "who": visit.who, "peer": visit.peer, "topic": visit.topic, **names}
        asked = b" ".join(
            part for part in (request.target.partition(b"?")[2], bytes(request.body[:MOST_ASKED])) if part
        )
        if asked:
            facts["asked"] = asked[:MOST_ASKED].decode("utf-8", "replace")
        log.info(action, extra={**facts, "status": status})

    def follow(self, action: str, request: Request, visit: Visit, names: dict[str, str], answer: Later) -> Later:
        """Return the same answer, told of when it is there."""
        told = Later()

        def given(outcome: Response | BaseException) -> None:
            self.done(action, request, visit, names, outcome)
            told.give(outcome)

        if answer.outcome is not None:
            given(answer.outcome)
        else:
            answer.then(given)
        return told
