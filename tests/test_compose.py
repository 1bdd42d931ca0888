"""A few messages are composed to the very bytes that Arrow makes of them."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cordwood.compose import compose
from cordwood.record import TIME, assemble, encode

pairs = st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=20)), min_size=1, max_size=40)


@given(pairs, st.integers(0, 2**52), st.booleans())
def test_what_is_composed_is_what_arrow_writes(rows: list[tuple[bytes, bytes]], time_us: int, keyed: bool) -> None:
    values, keys = [value for value, _ in rows], [key for _, key in rows]
    columns = {"timestamp": pa.array([time_us] * len(rows), TIME), "value": pa.array(values, pa.binary())}
    if keyed:
        columns["key"] = pa.array(keys, pa.binary())
    batch = assemble(columns)
    head, body = encode(batch)
    composed = compose(values, keys if keyed else None, time_us)
    assert (composed.head, composed.body) == (head, body.to_pybytes())
    assert composed.batch.equals(batch)
