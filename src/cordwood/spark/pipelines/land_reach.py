"""Whether the executors of a cluster write to the directory that the driver reads."""

import os
from socket import gethostname
from typing import TYPE_CHECKING

from cordwood.errors import Refused
from cordwood.spark.pipelines.land_files import Files, local
from cordwood.spark.pipelines.land_ledger import Places

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_reach(spark: "SparkSession", files: Files, places: Places) -> None:
    """Refuse a directory that some executor does not see. Those that come later are caught by counting their rows."""
    context = spark.sparkContext
    if not files.local or str(context.master).startswith("local"):
        return
    probe = f"{places.landing}/probe"
    files.remove(probe)
    files.create(probe, b"")
    try:
        tasks = 2 * int(context.defaultParallelism)
        path = local(probe)
        seen = context.parallelize(range(tasks), tasks).map(lambda _: (gethostname(), os.path.exists(path))).collect()
    finally:
        files.remove(probe)
    blind = sorted({host for host, found in seen if not found})
    if blind:
        raise Refused(
            f"{local(places.table)} is not one directory for all: {', '.join(blind)} does not see what is written "
            "there here; mount a shared one on all of them, or give a URL such as hdfs:// or s3a://"
        )
