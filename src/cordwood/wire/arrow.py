"""Arrow IPC streams: a schema, then record batches, without dictionaries.

In: the contract's schemas, plain or compressed (lz4, zstd), within limits that are checked before Arrow takes memory.
Out: always all columns, so that one schema holds for a stream that never ends:

    partition int32, offset int64, attempts int32, timestamp, key, value, headers, deliver_at, expires_at

An answer that is whole has `last_error string` behind them, where a message failed before.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from cordwood.errors import Refused
from cordwood.record import ARROW_ERRORS, FULL, Batch, at_rest_schema, numbers_column, one_line, widen
from cordwood.wire.intake import Limits, TooLarge, check_schema, normalise
from cordwood.wire.metadata import check_schema_head, decoded_bytes
from cordwood.wire.pieces import batch_pieces, stream_pieces
from cordwood.wire.produce import Produce
from cordwood.wire.run import Run

MAX_SCHEMA_BYTES = 64 << 10  # seven columns take one; the rest may be metadata of the sender's
CONTENT_TYPE = "application/vnd.apache.arrow.stream"
_NUMBERS = [
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("attempts", pa.int32(), nullable=False),
]
OUT = pa.schema([*_NUMBERS, *FULL])
_FAILED = OUT.append(pa.field("last_error", pa.string()))
_MANY = 1 << 14
HEAD = OUT.serialize().to_pybytes()  # opens every stream out, before the first message is there
END = b"\xff\xff\xff\xff\0\0\0\0"  # says that the stream was not cut


def read(body: bytes | memoryview, now_ms: int, limits: Limits) -> Produce:
    """Return the messages of a whole stream; raise Refused for anything else."""
    if len(body) > limits.max_request_bytes:
        raise TooLarge(f"the body has {len(body)} bytes, at most {limits.max_request_bytes} are accepted")
    try:
        schema, batches, message = _read(body, limits)
    except ARROW_ERRORS as error:
        raise Refused(f"the body is not an Arrow stream: {one_line(error)}") from None
    if len(batches) == 1:
        return Produce(normalise(batches[0], now_ms, limits, message))
    return Produce(normalise(pa.Table.from_batches(batches, schema=schema), now_ms, limits))


@lru_cache(maxsize=64)
def _schema(message: bytes) -> tuple[Any, bool]:
    """Return the schema that a message says, if the contract accepts it, and whether batches rest in it as they are.

    A producer says the same again and again.
    """
    first = ipc.read_message(message)
    check_schema_head(first.metadata)
    schema = ipc.read_schema(first)
    check_schema(schema)
    resting = at_rest_schema(schema)
    return (schema, False) if resting is None else (resting, True)


def _read(body: bytes | memoryview, limits: Limits) -> tuple[Any, list[Batch], Any | None]:
    """Return the schema, the batches, and the only batch's message where it can be stored as it came."""
    buffer = pa.py_buffer(body)
    source = pa.BufferReader(buffer)
    batches: list[Batch] = []
    rows = size = 0
    try:
        first = ipc.read_message(source)
    except EOFError:
        raise Refused("the body is empty; an Arrow stream begins with its schema") from None
    if first.metadata.size > MAX_SCHEMA_BYTES:
        raise Refused(f"the schema takes {first.metadata.size} bytes, at most {MAX_SCHEMA_BYTES} are accepted")
    if first.body is not None and first.body.size:  # it would be kept with the schema
        check_schema_head(first.metadata)
        raise Refused("the schema's message has a body, which no schema has")
    schema, resting = _schema(first.serialize().to_pybytes())
    whole = None
    while True:
        start = source.tell()
        try:
            message = ipc.read_message(source)
        except EOFError:
            return schema, batches, whole
        needed, compressed = decoded_bytes(message.metadata, message.body)
        size += needed
        if size > limits.max_request_bytes:
            raise TooLarge(f"the batches decompress to more than the {limits.max_request_bytes} bytes accepted")
        if len(batches) == limits.max_batches:
            raise TooLarge(f"more than {limits.max_batches} batches in one request")
        batch = ipc.read_record_batch(message, schema)
        rows += batch.num_rows
        if rows > limits.max_messages:
            raise TooLarge(f"more than {limits.max_messages} messages in one request")
        alone = resting and not compressed and not batches
        whole = buffer.slice(start, source.tell() - start) if alone else None
        batches.append(batch)


def write(run: Run) -> list[Any]:
    """Return the bytes of one run, to be sent after `HEAD` and before `END`, as pieces."""
    return batch_pieces(out_batch(run), len(HEAD))


def pieces(runs: Sequence[Run]) -> list[Any]:
    """Return a whole stream of these runs, `HEAD` and `END` included, as pieces to be sent one after the other."""
    if all(run.last_errors is None for run in runs):
        return stream_pieces(OUT, map(out_batch, runs))
    return stream_pieces(_FAILED, map(_with_errors, runs))


def _with_errors(run: Run) -> Batch:
    errors = pa.nulls(run.batch.num_rows, pa.string()) if run.last_errors is None else pa.array(run.last_errors)
    return pa.RecordBatch.from_arrays([*out_batch(run).columns, errors.cast(pa.string())], schema=_FAILED)


def out_batch(run: Run) -> Batch:
    """Return a run with its numbers as columns, in the schema `OUT`."""
    rows = run.batch.num_rows
    offsets = np.arange(run.first_offset, run.first_offset + rows, dtype=np.int64)
    attempts = run.attempts
    numbers = [
        _same(run.partition, rows),
        numbers_column(pa.int64(), offsets),
        _same(attempts, rows)
        if isinstance(attempts, int)
        else numbers_column(pa.int32(), np.array(attempts, np.int32)),
    ]
    return pa.RecordBatch.from_arrays([*numbers, *widen(run.batch).columns], schema=OUT)


def _same(number: int, rows: int) -> Any:
    """Return a column with one number in every row; most are asked for again and again."""
    if rows <= _MANY:
        return _many(number).slice(0, rows)
    return numbers_column(pa.int32(), np.full(rows, number, np.int32))


@lru_cache(maxsize=256)
def _many(number: int) -> Any:
    return numbers_column(pa.int32(), np.full(_MANY, number, np.int32))
