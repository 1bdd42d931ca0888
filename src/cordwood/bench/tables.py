"""The load as Arrow tables with all columns, and the proof that what was acknowledged can be read back.

sent       table 0, table 1, …, round and round
read       every table as often as it was sent, whole and contiguous: a request is one atomic append
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow as pa

from cordwood.bench.load import Load, Message

_FIRST_TIMESTAMP = 1_700_000_000_000_000
_HEADERS = [("source", b"bench")]


def tables(load: Load, batch: int) -> list[pa.Table]:
    """Return the load's messages in tables of `batch` rows: value, key, headers and timestamp."""
    return [
        _table(load.messages[start : start + batch], _FIRST_TIMESTAMP + start)
        for start in range(0, len(load.messages), batch)
    ]


def check_read(read: Iterable[pa.RecordBatch], sent: Sequence[pa.Table], times: Counter[int]) -> None:
    """Fail unless what was read is every table of `sent` as often as `times` says, in any order, and nothing else."""
    by_value = {table["value"][0].as_py(): place for place, table in enumerate(sent)}
    names, size = sent[0].column_names, sent[0].num_rows
    schema = sent[0].schema
    found: Counter[int] = Counter()
    rest = schema.empty_table()
    for batch in read:
        rest = pa.concat_tables([rest, pa.table(batch).select(names).cast(schema)])
        while rest.num_rows >= size:
            head, rest = rest.slice(0, size), rest.slice(size)
            place = by_value[head["value"][0].as_py()]
            assert head.equals(sent[place]), "a batch came back as it was sent"
            found[place] += 1
    assert rest.num_rows == 0, "no part of a batch is there"
    assert found == times, "every acknowledged batch is there, and once"


def _table(messages: Sequence[Message], first: int) -> pa.Table:
    values, keys = zip(*messages, strict=True)
    return pa.table(
        {
            "value": pa.array(values, pa.binary()),
            "key": pa.array(keys, pa.binary()),
            "headers": pa.array([_HEADERS] * len(values), pa.map_(pa.string(), pa.binary())),
            "timestamp": pa.array(range(first, first + len(values)), pa.timestamp("us", "UTC")),
        }
    )
