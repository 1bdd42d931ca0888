"""Every option of `format("cordwood")`."""

from collections.abc import Mapping

from cordwood.spark.known import ARCHIVE_OPTIONS, READ_OPTIONS, WRITE_OPTIONS, Option
from tools.reference.markdown import code, page, table


def written() -> str:
    """Return the page."""
    archives = ", ".join(code(name) for name in ARCHIVE_OPTIONS)
    return page(
        "Spark options",
        'Of `spark.read.format("cordwood")`, `readStream`, `write` and `writeStream`. Names, defaults and meanings'
        " are those of"
        " Spark's Kafka source where that has them; Spark does not mind upper and lower case. An option that is"
        " unknown is an"
        " error that lists these. More in [Spark](../spark.md).\n",
        "## Reading\n",
        _table(READ_OPTIONS),
        f"Where `archive` is given, only {archives} mean something.\n",
        "## Writing\n",
        _table(WRITE_OPTIONS),
        "A streaming query has Spark's own `checkpointLocation`, `queryName` and `outputMode` beside them.\n",
    )


def _table(options: Mapping[str, Option]) -> str:
    rows = [(code(name), found.default, found.meaning) for name, found in options.items()]
    return table(("option", "default", "meaning"), rows)
