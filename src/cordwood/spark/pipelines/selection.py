"""Messages chosen and changed by SQL.

    topic, partition, offset, timestamp, key, value, headers        as everywhere
    text        string                    the value as text
    key_text    string                    the key as text
    header      map<string, string>       the headers by name, as text; of several with one name the last

What is not named is not computed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

from cordwood.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAMES = "array_distinct(transform(headers, h -> h.key))"
_LAST = "string(element_at(filter(headers, h -> h.key = name), -1).value)"
MORE = {
    "text": "string(value)",
    "key_text": "string(key)",
    "header": f"map_from_arrays({_NAMES}, transform({_NAMES}, name -> {_LAST}))",
}
DEAD = "dlq."  # what the topics of dead letters begin with
_ADDED = "cordwood-"  # what the headers begin with that a dead letter has beside its own
_OWN = f"filter(headers, h -> not startswith(h.key, '{_ADDED}'))"


def as_it_was(topic: str) -> str:
    """Return the SQL list that takes a message of a topic as its producer sent it: a dead letter as it lived."""
    headers = f"nullif({_OWN}, array()) as headers" if topic.startswith(DEAD) else "headers"
    return f"key, value, {headers}"


def selected(rows: "DataFrame", where: str | None, select: str) -> "DataFrame":
    """Return what an SQL condition and an SQL list make of messages; refuse SQL that Spark does not understand."""
    from pyspark.errors import AnalysisException

    view = f"messages_{uuid4().hex}"
    spark = rows.sparkSession
    rows.selectExpr("*", *(f"{sql} as {name}" for name, sql in MORE.items())).createOrReplaceTempView(view)
    try:
        condition = "" if where is None else f"\nwhere {where}"
        return spark.sql(f"select {select}\nfrom {view}{condition}")
    except AnalysisException as error:
        raise Refused(f"Spark does not understand this: {_said(error).replace(view, 'messages')}") from None
    finally:
        spark.catalog.dropTempView(view)


@contextmanager
def applying() -> Iterator[None]:
    """Refuse SQL that some message does not go with, such as a cast of what is no number."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if not (error.getSqlState() or "").startswith("22"):  # "data exception", as SQL calls it
            raise
        raise Refused(f"a message does not go with this SQL: {_said(error)}") from None


def _said(error: Exception) -> str:
    return str(error).split("\n== SQL", 1)[0].strip()
