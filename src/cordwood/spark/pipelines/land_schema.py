"""The schema of a typed table: given as DDL, as Spark's JSON or as a type, or inferred from the first messages."""

from json import loads
from typing import TYPE_CHECKING, Any

from cordwood.client.client import Client
from cordwood.errors import Refused
from cordwood.spark.columns import COLUMNS, DEFAULT_COLUMNS, SPARK_TYPES
from cordwood.spark.pipelines.land_shape import DATE, OURS, WHOLE, Shape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

INFER = "infer"
SAMPLE = 10_000  # messages, the same share from each partition; what comes later with other fields is late
_DIRECTORIES = ("string", "tinyint", "smallint", "int", "bigint", "boolean", "date")


def parsed(given: "StructType | str") -> "StructType":
    """Return the schema that is meant. Raises Refused in one line."""
    from pyspark.sql.types import StructType

    if isinstance(given, StructType):
        return given
    try:
        if given.lstrip().startswith("{"):
            return StructType.fromJson(loads(given))
        found = StructType.fromDDL(given)
    except Exception as error:  # Spark's parser, or what is no JSON
        said = " ".join(str(error).split("\n\n")[0].split())
        raise Refused(f'the schema cannot be read, such as "id BIGINT NOT NULL, name STRING": {said[:200]}') from None
    if not isinstance(found, StructType):
        raise Refused(f'the schema is columns with types, such as "id BIGINT NOT NULL, name STRING", not {given!r}')
    return found


def inferred(spark: "SparkSession", client: Client, topic: str) -> "StructType":
    """Return the schema of a topic's first messages. Raises Refused where they tell none."""
    from pyspark.sql.types import StructType

    partitions = len(client.topic(topic)["partitions"])
    sample: list[str] = []
    for number in range(partitions):
        for batch in client.read_batches(topic, number, limit=max(1, SAMPLE // partitions)):
            sample += [value.decode("utf-8", "replace") for value in batch.column("value").to_pylist() if value]
    if not sample:
        raise Refused(f"the topic {topic!r} has no values to infer a schema from; produce some, or give one")
    texts = spark.sparkContext.parallelize(sample, 1)
    found = spark.read.option("mode", "DROPMALFORMED").json(texts).schema
    fields = {one.name.lower(): one for one in reversed(found.fields) if one.name}
    if not fields:
        raise Refused(
            f"the first {len(sample)} messages of {topic!r} are no JSON objects; give a schema, or land it raw"
        )
    return StructType([one for one in found.fields if fields.get(one.name.lower()) is one])


def shape(schema: "StructType | None", partition_by: str | None, *, headers: bool) -> Shape:
    """Return what the rows look like. Raises Refused where that cannot be a table."""
    if schema is None:
        kinds = {name: SPARK_TYPES[name] for name in (COLUMNS if headers else DEFAULT_COLUMNS)}
        names = {name: name for name in OURS}
    else:
        if headers:
            raise Refused("headers are for a raw table; a typed one has the columns of its schema")
        kinds = {one.name: one.dataType.simpleString() for one in schema.fields}
        names = _names(kinds)
        kinds |= {names[name]: SPARK_TYPES[name] for name in OURS}
    if partition_by is not None and not (partition_by == DATE and DATE not in kinds):
        kind: Any = kinds.get(partition_by)
        if kind not in _DIRECTORIES:
            fitting = ", ".join(
                [DATE, *(name for name, one in kinds.items() if one in _DIRECTORIES and name != DATE)]
            )
            what = "there is none" if kind is None else f"it is {kind}"
            raise Refused(
                f"the table cannot be partitioned by the column {partition_by!r}: {what}; choose of {fitting}"
            )
    return Shape(schema, partition_by, headers, names)


def _names(fields: dict[str, str]) -> dict[str, str]:
    """Return what our columns are called beside these fields."""
    lower = [name.lower() for name in fields]
    twice = next((name for name in lower if lower.count(name) > 1), None)
    if twice is not None or not lower:
        raise Refused(
            f"the schema has the column {twice!r} twice; case does not count" if twice else "the schema is empty"
        )
    names = {name: name if name not in lower else f"message_{name.lstrip('_')}" for name in (*OURS, WHOLE)}
    taken = next((name for name in names.values() if name in lower), None)
    if taken is not None:
        raise Refused(
            f"the schema has the column {taken!r}, which is needed for the message's own; call it otherwise"
        )
    return names
