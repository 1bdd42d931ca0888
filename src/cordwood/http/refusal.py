"""An answer that is an error, raised where it is found out.

status  code                     status  code
400     INVALID_ARGUMENT         429     RESOURCE_EXHAUSTED
401     UNAUTHENTICATED          500     INTERNAL
403     PERMISSION_DENIED        503     UNAVAILABLE
404     NOT_FOUND                507     INSUFFICIENT_STORAGE
405     METHOD_NOT_ALLOWED
408     UNAVAILABLE              the client was too slow; the same request may succeed later
409     FAILED_PRECONDITION
413     PAYLOAD_TOO_LARGE
"""

import json
from collections.abc import Mapping

from cordwood.http.response import Headers, Response

CODES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    408: "UNAVAILABLE",
    409: "FAILED_PRECONDITION",
    413: "PAYLOAD_TOO_LARGE",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    507: "INSUFFICIENT_STORAGE",
}


class Refusal(Exception):
    """The client gets `status` and `{"error": CODE, "message": …}`; `facts` are further fields beside those.

    Raised by a handler it answers that request, and the connection goes on.
    """

    def __init__(
        self, status: int, message: str, *, facts: Mapping[str, object] | None = None, headers: Headers = ()
    ):
        super().__init__(message)
        self.status = status
        self.code = CODES[status]
        self.message = message
        self.facts = dict(facts or {})
        self.headers = headers

    def response(self) -> Response:
        """Return the error as the client gets it."""
        body = {"error": self.code, "message": self.message, **self.facts}
        return Response(self.status, json.dumps(body).encode(), headers=self.headers)


def busy(message: str) -> Refusal:
    """Return a 429 that says when to come again."""
    facts = {"reason": "pending_bytes_full", "retry_after_ms": 1000}
    return Refusal(429, message, facts=facts, headers=(("Retry-After", "1"),))
