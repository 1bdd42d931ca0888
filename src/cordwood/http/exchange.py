"""The requests of one connection that are being answered, in the order they came.

what the handler returns        what it costs           what happens when the client goes away
Response                        nothing more            (it was answered)
Later                           a call                  it is the handler's: left alone
a future of one                 a callback              the future is the handler's: left alone
a coroutine of one              a task                  the task is ours: cancelled
Stream, or either with one      a task for its `run`    see `stream`

Behind a future that the handler made the next request is begun before the answer is there, up to `UNDER_WAY` of them,
so that what a client sends without waiting is committed together. Answers keep the order. Behind anything else the
next request waits.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from cordwood.http.later import Later, Outcome
from cordwood.http.occupancy import Occupancy
from cordwood.http.refusal import Refusal
from cordwood.http.request import Request
from cordwood.http.response import CLOSES, STAYS, STAYS_1_0, Body, Response, encode_head, encode_stream_head
from cordwood.http.stream import Barred, Gone, Stream

log = logging.getLogger("cordwood.http")

Answer = Response | Stream
Handle = Callable[[Request], Answer | Later | Awaitable[Answer]]

COPIED_BYTES = 64 << 10  # one write of a joined copy is cheaper than two writes, up to about this


SLICE_BYTES = 256 << 10  # of a large answer over TLS, encrypted and handed over at once
UNDER_WAY = 64  # requests of one connection that may wait for their answers


class _Turn:
    """A request whose answer, or an earlier one, is not there yet."""

    __slots__ = ("answer", "future", "ours", "request")

    def __init__(self, request: Request, answer: Answer | None, future: "asyncio.Future[Answer] | None", ours: bool):
        self.request = request
        self.answer = answer
        self.future = future
        self.ours = ours


class Exchange:
    """Has requests handled, and writes their answers in order.

    `start` either answers at once, or leaves something under way and calls `ended` when some of that is over.
    `stays` says whether the connection may be used again after the last answer. `transport` is set before the
    first `start`.
    """

    transport: asyncio.Transport

    def __init__(self, handle: Handle, occupancy: Occupancy, ended: Callable[[], None]):
        self.stream: Stream | None = None
        self.stays = True
        self._handle = handle
        self._occupancy = occupancy
        self._ended = ended
        self._turns: deque[_Turn] = deque()
        self._streaming: asyncio.Future[None] | None = None
        self._exclusive = False  # nothing is begun behind what is under way
        self._gone = False
        self._ending = False  # `ended` is called at the end of this turn of the loop
        self._small: list[bytes] = []  # answers to be written at the end of this turn of the loop, together

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._turns and self.stream is None

    @property
    def full(self) -> bool:
        """Whether no further request may be begun now."""
        if not self._turns:
            return self.stream is not None
        return self._exclusive or self.stream is not None or len(self._turns) >= UNDER_WAY

    @property
    def runs_ours(self) -> bool:
        """Whether a task that was made here still runs."""
        return self._streaming is not None or any(turn.ours for turn in self._turns)

    def start(self, request: Request) -> None:
        """Have a request handled; whatever the handler does, the client gets an answer."""
        assert not self.full, "ask first"
        future: asyncio.Future[Answer] | None = None
        later: Later | None = None
        ours = False
        answer: Answer | None = None
        try:
            made = self._handle(request)
            if isinstance(made, Response | Stream):
                answer = made
            elif isinstance(made, Later):
                later = made
                if made.outcome is not None:
                    answer = _answer(request, made.outcome)
            else:
                future = asyncio.ensure_future(made)
                ours = future is not made
        except Exception as error:
            answer = _excuse(request, error)
        if not self._turns and answer is not None:
            self._give(request, answer)
            return
        self._exclusive = ours or isinstance(answer, Stream) or not request.keep_alive
        turn = _Turn(request.without_body(), answer, future, ours)
        self._turns.append(turn)
        if future is not None:
            future.add_done_callback(partial(self._arrived, turn))
        elif later is not None and answer is None:
            later.then(partial(self._given, turn))

    def abandon(self) -> None:
        """Stop what is under way for a client that went away."""
        self._gone = True
        sending = self.stream is not None and self.stream.close()
        if self._streaming is not None and not sending:
            self._streaming.cancel()
        for turn in self._turns:
            if turn.ours and turn.future is not None:
                turn.future.cancel()
            elif turn.answer is not None:
                _drop(turn.answer)

    def _arrived(self, turn: _Turn, future: "asyncio.Future[Answer]") -> None:
        turn.ours = False
        if self._gone:
            _retire(turn.request, future)
        else:
            try:
                turn.answer = future.result()
            except (Exception, asyncio.CancelledError) as error:  # also a cancelled one has a client that waits
                turn.answer = _excuse(turn.request, error)
        if self._answer_in_order(turn):
            self._ended()

    def _given(self, turn: _Turn, outcome: Outcome) -> None:
        """Write an answer in the middle of whatever the handler does; what follows from it waits for its end."""
        turn.answer = _answer(turn.request, outcome)
        if self._answer_in_order(turn) and not self._ending:
            self._ending = True
            asyncio.get_running_loop().call_soon(self._end_later)

    def _end_later(self) -> None:
        self._ending = False
        if self.stream is None or self._gone:
            self._ended()

    def _answer_in_order(self, turn: _Turn) -> bool:
        """Write all answers whose turn it is, now that this one is there; say whether something is over by that."""
        turns = self._turns
        if self._gone:
            with contextlib.suppress(ValueError):
                turns.remove(turn)
            return not self.runs_ours
        if turns[0] is not turn:
            return False  # its turn comes after another one
        while turns and turns[0].answer is not None and self.stream is None:
            first = turns.popleft()
            assert first.answer is not None
            self._give(first.request, first.answer)
            if not self.stays and self.stream is None:
                break  # nothing may follow it
        return self.stream is None

    def _give(self, request: Request, answer: Answer) -> None:
        """Write an answer whose turn it is."""
        try:
            if isinstance(answer, Stream):
                self._open(request, answer)
            else:
                self._write(request, answer)
        except Exception as error:
            self._write(request, _excuse(request, error))

    def _write(self, request: Request, response: Response) -> None:
        stays = request.keep_alive and not (self._occupancy.stopping and not self._turns)
        head = encode_head(response, CLOSES if not stays else STAYS if request.version == "1.1" else STAYS_1_0)
        self.stays = stays
        body = response.body
        if request.method == "HEAD" or not body:
            self._write_small(head)
        elif self._is_large(body) and self.transport.get_extra_info("sslcontext") is not None:
            self._write_slowly(request, head, body if isinstance(body, tuple) else (body,))
        elif isinstance(body, tuple):
            self._flush()
            self.transport.writelines((head, *body))
        elif len(body) <= COPIED_BYTES:
            self._write_small(b"".join((head, body)))
        else:
            self._flush()
            self.transport.writelines((head, body))

    def _is_large(self, body: Body | tuple[Body, ...]) -> bool:
        return (sum(map(len, body)) if isinstance(body, tuple) else len(body)) > SLICE_BYTES

    def _write_slowly(self, request: Request, head: bytes, body: tuple[Body, ...]) -> None:
        """Write a large answer slice by slice, as fast as the reader takes it.

        The loop's TLS takes all that it is given: it would encrypt everything at once, and then say that nothing
        waits for a reader who has not taken a byte.
        """

        async def run(stream: Stream) -> None:
            for piece in body:
                view = memoryview(piece)
                for first in range(0, len(view), SLICE_BYTES):
                    try:
                        async with asyncio.timeout(self._occupancy.send_s):
                            await stream.send(view[first : first + SLICE_BYTES])
                    except TimeoutError:
                        raise Barred("the reader took nothing for too long") from None

        self._flush()
        self._begin(request, Stream(run), head, chunked=False)

    def _write_small(self, answer: bytes) -> None:
        """Write a short answer; while others are awaited, together with those that come in the same turn of the loop.

        What was committed together is answered together, and each write costs as much as all else for an answer.
        """
        self._small.append(answer)
        if not self._turns or not self.stays:
            self._flush()
        elif len(self._small) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        if self._small:
            together, self._small = b"".join(self._small), []
            if not self._gone:
                self.transport.write(together)

    def _open(self, request: Request, stream: Stream) -> None:
        chunked = request.version == "1.1"
        stays = chunked and request.keep_alive and not self._occupancy.stopping
        connection = STAYS if stays else CLOSES
        try:
            head = encode_stream_head(stream.status, stream.content_type, stream.headers, connection, chunked=chunked)
        except BaseException:
            stream.close()  # whoever waits for it to close has something to give back
            raise
        self.stays = stays
        self._flush()
        self._begin(request, stream, head, chunked=chunked)

    def _begin(self, request: Request, stream: Stream, head: bytes, *, chunked: bool) -> None:
        """Write a head, and have the rest follow."""
        try:
            stream.open(self.transport, chunked=chunked)
            task = None if request.method == "HEAD" else asyncio.ensure_future(stream.run(stream))
        except BaseException:
            stream.close()
            raise
        if task is None:
            self.transport.write(head)
            stream.close()
            return
        if self._occupancy.stopping:
            stream.ending.set()
        self.stream = stream  # before the head is written, which may already be too much for the reader
        self._streaming = task
        self.transport.write(head)  # and that before the task runs for the first time
        task.add_done_callback(partial(self._streamed, request, stream))

    def _streamed(self, request: Request, stream: Stream, task: asyncio.Future[None]) -> None:
        self._streaming = self.stream = None
        stream.close()
        if self._gone:
            _retire(request, task)
        elif not task.cancelled() and isinstance(task.exception(), Barred):
            self.stays = False  # cut: whatever comes next is for somebody who may have it
        elif task.cancelled() or task.exception() is not None:
            log.error("the stream of %r failed", request, exc_info=None if task.cancelled() else task.exception())
            self.stays = False  # and no last chunk, so that the client sees that something is missing
        else:
            if stream.chunked:
                self.transport.write(b"0\r\n\r\n")
            self.stays = self.stays and not self._occupancy.stopping
        self._ended()


def _answer(request: Request, outcome: Outcome) -> Response:
    return outcome if isinstance(outcome, Response) else _excuse(request, outcome)


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
        if answer is not None:
            _drop(answer)
    elif not isinstance(error, Gone | Barred | Refusal):
        log.error("%r failed after its client went away", request, exc_info=error)


def _drop(answer: Answer) -> None:
    """Let those who made an answer know that nobody will see it."""
    if isinstance(answer, Stream):
        answer.close()
    elif answer.unsent is not None:
        answer.unsent()
