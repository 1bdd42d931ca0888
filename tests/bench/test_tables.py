"""Reading back: what was acknowledged is there, whole, and once."""

from collections import Counter

import pyarrow as pa
import pytest

from cordwood.bench.load import Load, make_messages
from cordwood.bench.tables import check_read, tables

SENT = tables(Load(make_messages(100, 300), seconds=1), 100)


def test_tables_in_any_order_and_in_any_pieces_are_accepted() -> None:
    read = pa.concat_tables([SENT[2], SENT[0], SENT[2]]).combine_chunks().to_batches(max_chunksize=70)
    check_read(read, SENT, Counter({0: 1, 2: 2}))


def test_a_missing_table_is_found() -> None:
    with pytest.raises(AssertionError, match="every acknowledged batch"):
        check_read(SENT[0].to_batches(), SENT, Counter({0: 1, 1: 1}))


def test_a_table_that_is_there_twice_is_found() -> None:
    read = pa.concat_tables([SENT[0], SENT[0]]).to_batches()
    with pytest.raises(AssertionError, match="and once"):
        check_read(read, SENT, Counter({0: 1}))


def test_half_a_table_is_found() -> None:
    with pytest.raises(AssertionError, match="no part"):
        check_read(SENT[0].slice(0, 50).to_batches(), SENT, Counter())


@pytest.mark.parametrize("column", ["value", "key", "headers", "timestamp"])
def test_a_change_in_any_column_is_found(column: str) -> None:
    place = SENT[0].column_names.index(column)
    changed = SENT[0].set_column(place, column, SENT[0][column].take([*range(99), 0]))
    if column == "headers":
        changed = SENT[0].set_column(place, column, pa.array([[]] * 100, SENT[0].schema.field(column).type))
    with pytest.raises(AssertionError, match="as it was sent"):
        check_read(changed.to_batches(), SENT, Counter({0: 1}))
