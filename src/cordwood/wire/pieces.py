"""Arrow streams without copying the batches: small heads, and between them the batches' own buffers.

    schema │ head of the batch │ offsets │ padding │ bytes │ padding │ … │ end

A copy would cost little, but the fresh memory for it costs as much as all the rest.
"""

from collections.abc import Iterable
from typing import Any

from pyarrow import ipc

from cordwood.record import Batch

SMALL_BYTES = 4096  # pieces up to this are joined: each one costs in the kernel


class _Sink:
    """A file that keeps what is written to it, as it is."""

    closed = False

    def __init__(self) -> None:
        self.pieces: list[Any] = []

    def write(self, piece: Any) -> int:
        """Keep a piece; Arrow hands over buffers without copying them."""
        self.pieces.append(piece)
        return len(piece)

    def writable(self) -> bool:
        """It is."""
        return True

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is open."""


def stream_pieces(schema: Any, batches: Iterable[Batch]) -> list[Any]:
    """Return the bytes of an Arrow stream that holds these batches, as pieces to be sent one after the other.

    They are parts of the batches' own memory, and keep it.
    """
    sink = _Sink()
    with ipc.new_stream(sink, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return _joined(sink.pieces)


def batch_pieces(batch: Batch, schema_bytes: int) -> list[Any]:
    """Return the same of one batch within a stream, whose schema takes so many bytes and was sent before."""
    sink = _Sink()
    with ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
        pieces = sink.pieces.copy()  # without the end
    at = 0
    while schema_bytes:
        schema_bytes -= len(pieces[at])
        at += 1
    return _joined(pieces[at:])


def _joined(pieces: Iterable[Any]) -> list[Any]:
    joined: list[Any] = []
    small: list[bytes] = []
    for piece in pieces:
        if len(piece) <= SMALL_BYTES:
            small.append(bytes(piece))
        elif len(piece):
            joined += [b"".join(small), piece] if small else [piece]
            small = []
    return [*joined, b"".join(small)] if small else joined
