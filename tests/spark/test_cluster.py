"""On a real cluster of two workers, with the history in a real S3: everything that works on one computer."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from cordwood import Client
from cordwood.drills.spark_cluster import processes
from cordwood.spark import java, session
from tests.conftest import skip_for_want_of
from tests.real.served import until
from tests.real.stores import KEYS, s3_store
from tests.real.tier_broker import TierBroker
from tests.spark.cluster import Cluster, Driver

pytestmark = pytest.mark.timeout(600)  # Java starts six times, on a machine that others use, too

MESSAGES, HOT, PARTITIONS = 400, 50, 2  # in each partition
SECRET = KEYS["AWS_SECRET_ACCESS_KEY"]


class Site:
    """A broker with its history in S3, a cluster that knows nothing of S3, and a driver that does."""

    def __init__(self, broker: TierBroker, cluster: Cluster, driver: Driver, directory: Path):
        self.endpoint = f"http://127.0.0.1:{broker.port}"
        self.client = Client(self.endpoint, tries=20)
        self.broker = broker
        self.cluster = cluster
        self.driver = driver
        self.directory = directory

    def said(self) -> str:
        """Return what executors said."""
        return "".join(path.read_text(errors="replace") for path in (self.directory / "cluster/work").rglob("stderr"))

    def event_log(self, word: str) -> str:
        """Return what Spark keeps of its events, nothing until it has a word."""
        files = [path for path in (self.directory / "events").rglob("*") if path.is_file()]
        found = "".join(path.read_text(errors="replace") for path in files)
        return found if word in found else ""

    def topic(self, name: str, partitions: int = PARTITIONS) -> str:
        self.broker.create(name, partitions)
        return name

    def places(self, topic: str) -> Counter[bytes]:
        return Counter(f"{one.partition}:{one.offset}".encode() for one in self.client.read(topic))

    def values(self, topic: str) -> Counter[bytes | None]:
        return Counter(one.value for one in self.client.read(topic))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    pytest.importorskip("pyspark")
    trouble = java.java_home(os.environ)[1]
    if trouble is not None:
        skip_for_want_of(f"Java ({trouble})")
    directory = tmp_path_factory.mktemp("cluster")
    (directory / "events").mkdir()
    logged = {"enabled": "true", "dir": f"file://{directory}/events", "compress": "false"}
    log = {f"spark.eventLog.{name}": value for name, value in logged.items()}
    without = {name: value for name, value in os.environ.items() if not session.CLOUDS.fullmatch(name)}
    store = s3_store()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in store.env.items():
            patch.setenv(name, value)
        with (
            TierBroker(directory / "data", tier=store.url) as broker,
            Cluster(directory / "cluster", environment=without) as cluster,
            Driver(cluster.url, directory / "driver.log", store.env, log) as driver,
        ):
            yield Site(broker, cluster, driver, directory)


@pytest.fixture(scope="module")
def history(site: Site) -> str:
    """A topic of which most is in S3, in several objects, and the rest is in the journal."""
    topic = site.topic("orders")
    for at in range(0, MESSAGES, MESSAGES // 4):
        for partition in range(PARTITIONS):
            site.broker.send_numbered(topic, at, at + MESSAGES // 4, partition=partition)
        site.broker.rest(topic)
    return topic


@pytest.fixture(scope="module")
def longer(site: Site, history: str) -> str:
    """The same, with some that is not in S3 when it is sent."""
    for partition in range(PARTITIONS):
        site.broker.send_numbered(history, MESSAGES, MESSAGES + HOT, partition=partition)
    return history


def test_keys_for_the_store_reach_executors_and_nobody_else(site: Site, history: str) -> None:
    assert site.driver.ask("hosts") == ["127.0.0.1", "127.0.0.2"]
    assert [one for one in processes() if SECRET in one.command] == []
    log = until(lambda: site.event_log("executorEnv.AWS_SECRET_ACCESS_KEY"), "Spark says what it was given")
    assert SECRET not in log
    assert f'{KEYS["AWS_ACCESS_KEY_ID"]}"' not in log
    # Executors read from S3 themselves: a scrub has no other way.
    found = site.driver.ask("scrubbed", endpoint=site.endpoint, topic=history)
    assert (found["clean"], found["messages"]) == (True, MESSAGES * PARTITIONS)
    assert found["objects"] >= 4 * PARTITIONS


def wanted(site: Site, topic: str) -> list[list[object]]:
    return sorted([m.partition, m.offset, (m.value or b"").decode()] for m in site.client.read(topic))


def test_a_batch_and_a_table_have_every_message_once_before_and_after_compaction(site: Site, longer: str) -> None:
    rows = wanted(site, longer)
    assert len(rows) == (MESSAGES + HOT) * PARTITIONS
    for when in ("before", "after"):
        assert site.driver.ask("batch", endpoint=site.endpoint, topic=longer) == rows, when
        assert site.driver.ask("whole", endpoint=site.endpoint, topic=longer) == rows, when
        if when == "before":
            found = site.driver.ask("compacted", endpoint=site.endpoint, topic=longer)
            assert found["objects_before"] > found["objects_after"] == PARTITIONS
    assert "through the broker" not in site.said()
    assert site.driver.ask("scrubbed", endpoint=site.endpoint, topic=longer)["clean"]


def test_a_topic_goes_into_another_exactly_once_though_executors_are_killed(
    site: Site, longer: str, tmp_path: Path
) -> None:
    target = site.topic("copy", 3)
    site.driver.ask(
        "copy", endpoint=site.endpoint, source=longer, target=target, checkpoint=str(tmp_path / "c"), rows=60
    )
    killed: set[int] = set()
    for part in (1, 2):
        until(lambda least=part * 120: sum(site.values(target).values()) >= least, "some of it is written")
        one = until(lambda: [one for one in site.cluster.executors() if one.pid not in killed], "an executor runs")[0]
        os.kill(one.pid, signal.SIGKILL)
        killed.add(one.pid)
        assert sum(site.values(target).values()) < (MESSAGES + HOT) * PARTITIONS
    site.driver.ask("copied")
    assert len(killed) == 2
    assert site.values(target) == site.places(longer)
    assert site.places(longer).total() == (MESSAGES + HOT) * PARTITIONS


def test_a_part_is_published_again_and_all_of_it_lands_in_a_table(site: Site, longer: str, tmp_path: Path) -> None:
    target = site.topic("again", 1)
    asked = {"endpoint": site.endpoint, "source": longer, "target": target, "where": "offset < 30"}
    assert [site.driver.ask("replayed", **asked)["state"] for _ in (1, 2)] == ["published", "published before"]
    assert site.values(target).total() == 30 * PARTITIONS
    found = site.driver.ask("landed", endpoint=site.endpoint, topic=longer, directory=str(tmp_path / "lake"))
    assert found["rows"] == (MESSAGES + HOT) * PARTITIONS
    table = ds.dataset(tmp_path / "lake", format="parquet").to_table(columns=["partition", "offset"])
    there = Counter(f"{row['partition']}:{row['offset']}".encode() for row in table.to_pylist())
    assert there == site.places(longer)
