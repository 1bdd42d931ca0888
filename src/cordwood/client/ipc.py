"""A batch as an Arrow stream, without copying it: small heads, and between them the batch's own buffers.

    schema │ head of the batch │ offsets │ padding │ bytes │ padding │ … │ end

A copy would cost little, but the fresh memory for it costs as much as all the rest.
"""

from typing import Any

from pyarrow import ipc

from cordwood.record import Batch

SMALL_BYTES = 4096  # pieces up to this are joined: each one costs in the kernel


class _Pieces:
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


def ipc_pieces(batch: Batch) -> list[Any]:
    """Return the bytes of an Arrow stream that holds this batch, as pieces to be sent one after the other."""
    sink = _Pieces()
    with ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    joined: list[Any] = []
    small: list[bytes] = []
    for piece in sink.pieces:
        if len(piece) <= SMALL_BYTES:
            small.append(bytes(piece))
        elif len(piece):
            joined += [b"".join(small), piece] if small else [piece]
            small = []
    return [*joined, b"".join(small)] if small else joined
