"""Whatever is killed while a stream is written: every message of the source is in the target once."""

from collections import Counter
from typing import Any

import pytest

spark_sink_kill = pytest.importorskip("cordwood.drills.spark_sink_kill")


POINTS = ("driver published",)  # readers see it, and Spark does not know; `make drill` has all points, ten times


@pytest.mark.timeout(900)  # twice Spark's start, on a machine that others use, too
def test_a_driver_that_is_killed_leaves_every_message_once(spark: Any) -> None:
    assert set(POINTS) <= set(spark_sink_kill.POINTS)
    report = spark_sink_kill.run(kills=1, points=POINTS)
    assert report.wrong == []
    assert report.kills == Counter(POINTS)
    assert report.messages == 60 * len(POINTS)
