"""What becomes of a message: a row of the table, or one that does not fit.

    raw      topic, partition, offset, timestamp, key, value, headers if asked for; everything fits
    typed    the columns of the schema, then partition, offset, timestamp, and _json

A column of the schema keeps its name; ours of the same name is then called `message_…`. `_json` is the value as it
was, where it has fields that the schema lacks; null where it has none. So nothing of an object is lost.

Spark reads the first JSON value of a text and passes over what follows it, and takes the first object of a list for
the list. So the object must be all there is. Where the only `}` is the last character, that is so; else the text is
read once more as a list of one.
"""

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from cordwood.spark.columns import COLUMNS, DEFAULT_COLUMNS
from cordwood.spark.pipelines.land_unknown import has_fields, unknown

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

OURS = ("partition", "offset", "timestamp")
WHOLE = "_json"
DATE = "date"
DAY_US = 86_400_000_000
KEPT = (*OURS, "key", "value")  # of a message that does not fit
WRONG = " wrong"  # the text, where Spark could not make the record of it
_STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}  # on by default, and no JSON
_JSON = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": WRONG, "timeZone": "UTC", **_STRICT}


class Shape(NamedTuple):
    """What the rows of a table look like. `names` says what our columns are called here."""

    schema: "StructType | None"
    partition_by: str | None
    headers: bool
    names: dict[str, str]

    @property
    def columns(self) -> tuple[str, ...]:
        """What of a message is needed."""
        if self.schema is not None:
            return (*OURS, "value")
        return COLUMNS if self.headers else DEFAULT_COLUMNS

    def rows(self, messages: "DataFrame") -> "DataFrame":
        """Return the messages that fit as rows of the table."""
        from pyspark.sql import functions as F

        if self.schema is None:
            rows = messages.select(*self.columns)
        else:
            # Without something in between, Spark would move the condition ahead of the parser, and parse twice.
            read = _read(messages, self.schema).observe("read", F.count(F.lit(1))).where(_fits(self.schema))
            rows = read.select(
                *(F.col("record")[name].alias(name) for name in self.schema.names),
                *(F.col(name).alias(self.names[name]) for name in OURS),
                F.when(_late(self.schema), F.col("text")).alias(self.names[WHOLE]),
            )
        if self.dated:
            day = F.floor(F.unix_micros(F.col(self.names["timestamp"])) / DAY_US).cast("int")
            rows = rows.withColumn(DATE, F.date_from_unix_date(day))
        return rows

    @property
    def dated(self) -> bool:
        """Whether rows lie by the day of their timestamp, in UTC; a field that is called `date` counts before."""
        return self.partition_by == DATE and (self.schema is None or DATE not in self.schema.names)

    def rejected(self, messages: "DataFrame") -> "DataFrame":
        """Return the messages that do not fit, each with the reason."""
        assert self.schema is not None, "everything fits into a raw table"

        read = _read(messages, self.schema, "key", "value").where(~_fits(self.schema))
        return read.select(*KEPT, _reason(self.schema).alias("reason"))

    def late_columns(self, rows: "DataFrame") -> "Column":
        """Return the fields that the schema lacks of each row, as paths such as `user.cars[].seats`."""
        assert self.schema is not None, "a raw table lacks none"
        return unknown(rows[self.names[WHOLE]], self.schema)


def _read(messages: "DataFrame", schema: "StructType", *more: str) -> "DataFrame":
    """Return messages as text, and as the record that Spark makes of it."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    text = F.col("value").cast("string")
    record = F.from_json(text, StructType([*schema.fields, StructField(WRONG, StringType())]), _JSON)
    return messages.select(*OURS, *more, text.alias("text"), record.alias("record"))


def _fits(schema: "StructType") -> "Column":
    """Return whether the record is all that the text says."""
    from pyspark.sql import functions as F

    text, record = F.col("text"), F.col("record")
    ahead = F.octet_length(F.substring_index(text, "}", 1))  # bytes: to count characters takes as long as the rest
    simple = F.startswith(text, F.lit("{")) & (ahead + 1 == F.octet_length(text))
    fits = [
        record.isNotNull(),
        record[WRONG].isNull(),
        F.is_valid_utf8(text),
        F.when(simple, True).otherwise(_alone(text)),  # not `|`: Spark would work out both sides for each row
        *(~missing for _, missing in _missing(record, schema)),
    ]
    return F.coalesce(reduce(lambda one, other: one & other, fits), F.lit(False))


def _late(schema: "StructType") -> "Column":
    """Return whether the text has fields that the record lacks.

    A text with as many names as the record has values has none; only others are looked at name by name.
    """
    from pyspark.sql import functions as F

    text, record = F.col("text"), F.col("record")
    unknown_too = F.size(unknown(text, schema)) > 0
    if any(has_fields(one.dataType) for one in schema.fields):
        return unknown_too
    values = reduce(lambda one, other: one + other, (record[name].isNotNull().cast("int") for name in schema.names))
    return F.when(F.size(F.json_object_keys(text)) == values, False).otherwise(unknown_too)


def _alone(text: "Column") -> "Column":
    """Return whether a text is one object, and nothing before or behind it."""
    from pyspark.sql import functions as F

    members = F.from_json(F.concat(F.lit("["), text, F.lit("]")), "array<string>", _STRICT)
    return F.coalesce((F.size(members) == 1) & F.startswith(F.get(members, F.lit(0)), F.lit("{")), F.lit(False))


def _missing(record: "Column", schema: "StructType", path: str = "") -> list[tuple[str, "Column"]]:
    """Return what is required, with when it is missing: where what it is in is there, and it is not."""
    from pyspark.sql.types import StructType

    found = []
    for field in schema.fields:
        here = record[field.name]
        if not field.nullable:
            found.append((path + field.name, record.isNotNull() & here.isNull()))
        if isinstance(field.dataType, StructType):
            found += _missing(here, field.dataType, f"{path}{field.name}.")
    return found


def _reason(schema: "StructType") -> "Column":
    """Return why a row does not fit."""
    from pyspark.sql import functions as F

    text, record = F.col("text"), F.col("record")
    wrong = [
        F.when(record[name].isNull() & F.get_json_object(text, f"$['{name}']").isNotNull(), F.lit(name))
        for name in schema.names
        if "'" not in name
    ]
    missing = [F.when(gone, F.lit(path)) for path, gone in _missing(record, schema)]
    wrongs, gone = (F.array_compact(F.array(*some, F.lit(None).cast("string"))) for some in (wrong, missing))
    return (
        F.when(text.isNull(), "no value")
        .when(~F.is_valid_utf8(text), "not UTF-8")
        .when(F.json_object_keys(text).isNull(), "not a JSON object")
        .when(record.isNull() | ~_alone(text), "not one JSON object")
        .when(F.size(wrongs) > 0, F.concat(F.lit("wrong type: "), F.array_join(wrongs, ", ")))
        .when(F.size(gone) > 0, F.concat(F.lit("missing or null: "), F.array_join(gone, ", ")))
        .otherwise("wrong type: somewhere inside a field")
    )
