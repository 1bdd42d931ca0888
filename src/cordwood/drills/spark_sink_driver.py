"""A process that copies a topic into another, each message once, with a trap on the way; see `spark_sink_kill`.

python -m cordwood.drills.spark_sink_driver MASTER ENDPOINT SOURCE TARGET TRAP
"""

import sys

from cordwood.drills.spark_cluster import SETTINGS
from cordwood.drills.spark_sink_trap import OPTION, Trap, TrappedSource
from cordwood.spark import session

BATCH_ROWS = 60
# A second attempt soon, though the stages here are short. The first that is done shows how long a task takes.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
}


def main(master: str, endpoint: str, source: str, target: str, trap: str) -> None:
    """Copy what there is now; a message says which one of the source it is."""
    settings = SETTINGS if master.startswith("local") else SETTINGS | SPECULATION
    spark = session.start(master, "sink drill", settings)
    spark.dataSource.register(TrappedSource)
    frame = (
        spark.readStream.format(TrappedSource.name())
        .option("endpoint", endpoint)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(BATCH_ROWS))
        .option("minPartitions", "3")
        .option(OPTION, trap)
        .load()
        .selectExpr("concat(partition, ':', offset) as value")
    )
    query = (
        frame.writeStream.format(TrappedSource.name())
        .option("endpoint", endpoint)
        .option("topic", target)
        .option("checkpointLocation", Trap.of(trap).checkpoint)
        .option(OPTION, trap)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
