"""The request that is being answered, if there is one.

what the handler returns        what it costs           what happens when the client goes away
Response                        nothing more            (it was answered)
a future of one                 a callback              the future is the handler's: left alone
a coroutine of one              a task                  the task is ours: cancelled
Stream, or either with one      a task for its `run`    see `stream`
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from cordwood.http.occupancy import Occupancy
from cordwood.http.refusal import Refusal
from cordwood.http.request import Request
from cordwood.http.response import CLOSES, STAYS, STAYS_1_0, Response, encode_head, encode_stream_head
from cordwood.http.stream import Gone, Stream

log = logging.getLogger("cordwood.http")

Answer = Response | Stream
Handle = Callable[[Request], Answer | Awaitable[Answer]]

COPIED_BYTES = 64 << 10  # one write of a joined copy is cheaper than two writes, up to about this


class Exchange:
    """Has one request at a time handled, and writes its answer.

    `start` either answers at once, or leaves something in `under_way` and calls `ended` when that is over.
    `stays` says whether the connection may be used again after the last answer. `transport` is set before the
    first `start`.
    """

    transport: asyncio.Transport

    def __init__(self, handle: Handle, occupancy: Occupancy, ended: Callable[[], None]):
        self.under_way: asyncio.Future[Answer] | asyncio.Future[None] | None = None
        self.ours = False  # `under_way` is a task made here
        self.stream: Stream | None = None
        self.stays = True
        self._handle = handle
        self._occupancy = occupancy
        self._ended = ended
        self._gone = False

    def start(self, request: Request) -> None:
        """Have a request handled; whatever the handler does, the client gets an answer."""
        assert self.under_way is None, "one at a time"
        try:
            answer = self._handle(request)
            if isinstance(answer, Response):
                self._write(request, answer)
            elif isinstance(answer, Stream):
                self._open(request, answer)
            else:
                future = asyncio.ensure_future(answer)
                self.ours = future is not answer
                self.under_way = future
                future.add_done_callback(partial(self._arrived, request))
        except Exception as error:
            self._write(request, _excuse(request, error))

    def abandon(self) -> None:
        """Stop what is under way for a client that went away."""
        self._gone = True
        sending = self.stream is not None and self.stream.close()
        if self.under_way is not None and self.ours and not sending:
            self.under_way.cancel()

    def _arrived(self, request: Request, future: asyncio.Future[Answer]) -> None:
        self.under_way = None
        if self._gone:
            _retire(request, future)
        else:
            try:
                answer = future.result()
                if isinstance(answer, Stream):
                    self._open(request, answer)
                else:
                    self._write(request, answer)
            except (Exception, asyncio.CancelledError) as error:  # also a cancelled one has a client that waits
                self._write(request, _excuse(request, error))
        if self.under_way is None:
            self._ended()

    def _write(self, request: Request, response: Response) -> None:
        stays = request.keep_alive and not self._occupancy.stopping
        head = encode_head(response, CLOSES if not stays else STAYS if request.version == "1.1" else STAYS_1_0)
        self.stays = stays
        body = response.body
        if request.method == "HEAD" or not body:
            self.transport.write(head)
        elif len(body) <= COPIED_BYTES:
            self.transport.write(b"".join((head, body)))
        else:
            self.transport.writelines((head, body))

    def _open(self, request: Request, stream: Stream) -> None:
        chunked = request.version == "1.1"
        stays = chunked and request.keep_alive and not self._occupancy.stopping
        connection = STAYS if stays else CLOSES
        try:
            head = encode_stream_head(stream.status, stream.content_type, stream.headers, connection, chunked=chunked)
            stream.open(self.transport, chunked=chunked)
            task = None if request.method == "HEAD" else asyncio.ensure_future(stream.run(stream))
        except BaseException:
            stream.close()  # whoever waits for it to close has something to give back
            raise
        self.stays = stays
        if task is None:
            self.transport.write(head)
            stream.close()
            return
        if self._occupancy.stopping:
            stream.ending.set()
        self.stream = stream  # before the head is written, which may already be too much for the reader
        self.ours = True
        self.under_way = task
        self.transport.write(head)  # and that before the task runs for the first time
        task.add_done_callback(partial(self._streamed, request, stream))

    def _streamed(self, request: Request, stream: Stream, task: asyncio.Future[None]) -> None:
        self.under_way = self.stream = None
        stream.close()
        if self._gone:
            _retire(request, task)
        elif task.cancelled() or task.exception() is not None:
            log.error("the stream of %r failed", request, exc_info=None if task.cancelled() else task.exception())
            self.stays = False  # and no last chunk, so that the client sees that something is missing
        else:
            if request.version == "1.1":
                self.transport.write(b"0\r\n\r\n")
            self.stays = self.stays and not self._occupancy.stopping
        self._ended()


def _excuse(request: Request, error: BaseException) -> Response:
    """Return what the client is told about an error of the handler; all that it need not know is logged."""
    if isinstance(error, Refusal):
        return error.response()
    log.error("%r failed", request, exc_info=error)
    return Refusal(500, "The request failed; the server's log says why.").response()


def _retire(request: Request, future: asyncio.Future[Answer] | asyncio.Future[None]) -> None:
    """Take notice of how something ended that nobody waits for any more."""
    if future.cancelled():
        return
    error = future.exception()
    if error is None:
        answer = future.result()
        if isinstance(answer, Stream):
            answer.close()
    elif not isinstance(error, Gone | Refusal):
        log.error("%r failed after its client went away", request, exc_info=error)
