"""What Spark raised, in one line."""

import re
import sys

_OURS = re.compile(r"cordwood\.\w[\w.]*\.(\w+): (.+)")
_PYTHONS = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Interrupt|Exit|Warning)): (.+)$", re.MULTILINE)
MOST = 500  # of Spark's own words; it prints whole plans


def of_spark(error: BaseException) -> str | None:
    """Return what went wrong in Spark, None if the error is not Spark's.

    Its errors carry the traceback of the task that failed, on whichever computer, and Java's around it. What we
    raised there says what to do; else the end of the first traceback says most. Spark is not loaded to find out.
    """
    kinds = [
        getattr(sys.modules.get(module), name, None)
        for module, name in (("pyspark.errors", "PySparkException"), ("py4j.protocol", "Py4JError"))
    ]
    if not any(isinstance(kind, type) and isinstance(error, kind) for kind in kinds):
        return None
    text = str(error)
    ours = _OURS.search(text)
    if ours is not None:
        return ours[2].strip()
    behind = text.partition("Traceback (most recent call last)")[2]
    found = _PYTHONS.search(behind)
    line = f"{found[1]}: {found[2]}" if found is not None else " ".join(text.split())
    return f"Spark: {line[:MOST].strip()}"
