"""The fields of a JSON text that a schema lacks, at any depth, as Spark expressions.

Spark passes over such fields without a word. The names of an object are read a second time, without their values;
what is inside a field is looked at only where the schema has fields there.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructField, StructType


def unknown(text: "Column", kind: "DataType", path: str = "") -> "Column":
    """Return the paths of the fields that a type lacks, such as `user.cars[].seats`; an empty array for none."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        own = _names(text, kind)
        if path:
            own = F.transform(own, lambda name: F.concat(F.lit(path), name))
        more = [one for field in kind.fields if (one := _inside(text, field, path)) is not None]
        return F.concat(own, *more) if more else own
    if isinstance(kind, ArrayType):
        members, inner = F.from_json(text, "array<string>"), kind.elementType
    else:
        assert isinstance(kind, MapType)
        members, inner = F.map_values(F.from_json(text, "map<string,string>")), kind.valueType
    deeper = f"{path.removesuffix('.')}[]."
    return F.coalesce(F.flatten(F.transform(members, lambda one: unknown(one, inner, deeper))), _none())


def _inside(text: "Column", field: "StructField", path: str) -> "Column | None":
    """Return what the type of one field lacks; None where it has no fields, so lacks none."""
    from pyspark.sql import functions as F

    if not has_fields(field.dataType) or "'" in field.name:
        return None
    inside = F.get_json_object(text, f"$['{field.name}']")
    return F.when(inside.isNull(), _none()).otherwise(unknown(inside, field.dataType, f"{path}{field.name}."))


def has_fields(kind: "DataType") -> bool:
    """Say whether there are fields somewhere in a type."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, ArrayType):
        return has_fields(kind.elementType)
    if isinstance(kind, MapType):
        return has_fields(kind.valueType)
    return isinstance(kind, StructType)


def _names(text: "Column", schema: "StructType") -> "Column":
    from pyspark.sql import functions as F

    known = F.array(*(F.lit(name) for name in schema.names))
    return F.coalesce(F.array_except(F.json_object_keys(text), known), _none())


def _none() -> "Column":
    from pyspark.sql import functions as F

    return F.array().cast("array<string>")
