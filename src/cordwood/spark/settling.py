"""A Python process of Spark's, settled: what it has loaded is not looked through again and again.

After each task Spark's workers have Python collect its garbage. With pyarrow and what comes along loaded that took
50 ms here, a quarter of all that reading history took. Modules are no garbage, so they are taken out of it, once.
"""

import gc
import sys

_settled = False


def settle() -> None:
    """Take everything that is loaded out of what is collected, if this is a worker of Spark's, and the first time.

    To be called when all modules are there, and nothing large is.
    """
    global _settled
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if not _settled and spec is not None and spec.name == "pyspark.daemon":
        gc.freeze()
        _settled = True
