"""The log read as Arrow batches while it comes, from one long answer."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from cordwood.errors import Unavailable
from cordwood.record import ARROW_ERRORS, FULL, Batch, one_line

_NUMBERS = (("partition", pa.int32()), ("offset", pa.int64()), ("attempts", pa.int32()))
_COLUMNS = frozenset((*_NUMBERS, *zip(FULL.names, FULL.types, strict=True)))


def batches(pieces: Iterator[Any]) -> Iterator[Batch]:
    """Yield the batches of an Arrow stream as soon as each is whole.

    Raises Unavailable when the stream is cut: its end was not said. Raises OSError when the connection breaks.
    """
    body = _Body(pieces)
    try:
        stream = ipc.open_stream(pa.PythonFile(body, mode="r"))
        while True:
            try:
                batch = stream.read_next_batch()
            except StopIteration:
                break
            if batch.num_rows:
                yield whole(batch)
    except OSError:
        raise
    except ARROW_ERRORS as error:
        raise Unavailable(f"the answer is no Arrow stream: {one_line(error)}") from None
    if not body.ended and body.read(1):
        raise Unavailable("something follows the end of the Arrow stream")
    if not body.marked:
        raise Unavailable("the stream was cut; it may go on later")


def whole(batch: Batch) -> Batch:
    """Return a batch of messages whose every row can be read; raise ValueError for any other.

    Arrow reads what it is told to: an offset that points outside would be followed.
    """
    if not set(zip(batch.schema.names, batch.schema.types, strict=True)) >= _COLUMNS:
        raise ValueError("its columns are not those of messages")
    batch.validate(full=True)
    return batch


class _Body:
    """The pieces of a body as a file that Arrow can read; nothing is copied that comes in one piece."""

    def __init__(self, pieces: Iterator[Any]):
        self._pieces = pieces
        self._piece = memoryview(b"")
        self._last = b""
        self.closed = False
        self.ended = False

    @property
    def marked(self) -> bool:
        """Whether the last bytes were those that end a stream which was not cut."""
        return self._last == b"\xff\xff\xff\xff\0\0\0\0"

    def read(self, count: int) -> Any:
        """Return so many bytes, fewer only at the end."""
        found = []
        while count > 0:
            if not len(self._piece):
                try:
                    self._piece = memoryview(next(self._pieces)).cast("B")
                except StopIteration:
                    self.ended = True
                    break
            part, self._piece = self._piece[:count], self._piece[count:]
            found.append(part)
            count -= len(part)
        whole = found[0] if len(found) == 1 else b"".join(found)
        self._last = (self._last + bytes(whole[-8:]))[-8:]
        return whole

    def readable(self) -> bool:
        """It is."""
        return True

    def close(self) -> None:
        """Nothing is held."""
        self.closed = True
