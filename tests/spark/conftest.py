"""One Spark for all tests, and brokers with and without a busy tier."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cordwood
from cordwood import Client
from tests.conftest import skip_for_want_of
from tests.real.served import until


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session on two cores, where a task may fail twice."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        skip_for_want_of("pyspark")
    from cordwood.spark import session

    trouble = session.java_home(os.environ)[1]
    if trouble is not None:
        skip_for_want_of(f"Java ({trouble})")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "FATAL",
    }
    found = session.start("local[2,3]", "cordwood tests", settings)
    yield found
    found.stop()


class Kept:
    """A broker in this process, with what tests do to it."""

    def __init__(self, endpoint: str, data: Path):
        self.endpoint = endpoint
        self.data = data
        self.client = Client(endpoint)

    def topic(self, name: str, partitions: int = 1, **settings: Any) -> str:
        self.client.create_topic(name, partitions, **settings)
        return name

    def send(self, topic: str, table: Any) -> None:
        with cordwood.Producer(self.endpoint, topic) as producer:
            producer.send_table(table)

    def tiered(self, topic: str) -> None:
        """Return when all messages of a topic are in the tier."""
        until(
            lambda: all(one["tiered_offset"] == one["end_offset"] for one in self.client.topic(topic)["partitions"]),
            f"{topic} is tiered",
        )

    def values(self, topic: str) -> list[Any]:
        """Return the values of a topic, partition after partition."""
        return [message.value for message in self.client.read(topic)]

    def reader(self, spark: Any, topic: str, **options: Any) -> Any:
        reader = spark.read.format("cordwood").option("endpoint", self.endpoint).option("subscribe", topic)
        for name, value in options.items():
            reader = reader.option(name, value)
        return reader.load()

    def stream(self, spark: Any, **options: Any) -> Any:
        reader = spark.readStream.format("cordwood").option("endpoint", self.endpoint)
        for name, value in options.items():
            reader = reader.option(name, value)
        return reader.load()

    def sink(self, frame: Any, topic: str, checkpoint: Path, **options: Any) -> Any:
        writer = frame.writeStream.format("cordwood").option("endpoint", self.endpoint).option("topic", topic)
        for name, value in options.items():
            writer = writer.option(name, value)
        return writer.option("checkpointLocation", str(checkpoint))


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """A broker that ships after a second, in small objects, and lets go of what is over at once."""
    data = tmp_path_factory.mktemp("kept")
    patch = pytest.MonkeyPatch()
    patch.setattr("cordwood.broker.broker.MAINTAIN_MS", 0)
    with cordwood.embedded(data, tier_interval_s=1, tier_object_bytes=1 << 20) as broker:
        yield Kept(broker.endpoint, data)
    patch.undo()


@pytest.fixture(scope="session")
def hot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """A broker that ships nothing below a mebibyte."""
    data = tmp_path_factory.mktemp("hot")
    with cordwood.embedded(data, tier_interval_s=86_400, tier_object_bytes=1 << 20) as broker:
        yield Kept(broker.endpoint, data)
