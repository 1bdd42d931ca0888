"""A process that lands a topic and kills itself at a step that it is told; see `land_kill`.

python -m cordwood.drills.land_driver ENDPOINT TOPIC TABLE STEP HIT
"""

import os
import signal
import sys
from pathlib import Path

from cordwood.spark import session
from cordwood.spark.pipelines.land import land
from cordwood.spark.pipelines.land_files import Files

DDL = "id BIGINT NOT NULL, name STRING"
TRIGGER_BYTES = 2_500  # two batches of what a round sends
# Small and soon over: no page to look at, no second compiler.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.log.level": "FATAL",
}


def main(endpoint: str, topic: str, table: str, step: str, hit: str) -> None:
    """Land; die at the step, in the first batch that gets there, and leave a file that says so."""
    planned: list[int] = []

    def die(number: int) -> None:
        Path(hit).write_text(f"{step} {number}")
        os.kill(os.getpid(), signal.SIGKILL)

    def at(reached: str, number: int) -> None:
        if reached == "planned":
            planned.append(number)
        if reached == step or (step == "committed" and len(planned) > 1):  # the next is planned behind the commit
            die(number)

    move = Files.move

    def move_one(files: Files, source: str, target: str) -> None:
        move(files, source, target)
        if target.endswith(".parquet"):
            die(planned[-1] if planned else -1)  # none where an earlier run's batch is brought to its end

    if step == "half moved":
        Files.move = move_one  # type: ignore[method-assign, assignment]
    spark = session.start("local[2]", "land drill", SETTINGS)
    land(spark, endpoint, topic, table, schema=DDL, trigger_bytes=TRIGGER_BYTES, at=at)


if __name__ == "__main__":
    main(*sys.argv[1:])
