"""Archives of outboxes as a table: each event once, every bit of it checked, and no broker."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from cordwood import Outbox
from cordwood.spark import archives

EVENTS = [b"%d" % number for number in range(1_000)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two executions that were sent and archived, one of them with all that an event can have."""
    root = tmp_path_factory.mktemp("worker") / "outbox"
    with Outbox(root, execution="job/1", send=lambda events: None) as outbox:
        outbox.append_many(EVENTS)
    with Outbox(root, execution="job/2", send=lambda events: None) as outbox:
        outbox.append({"a": 1}, key="own", headers={"h": b"\xff", "empty": None}, timestamp=1_700_000_000_000)
    assert len(archives.found(root)) == 2
    return root


def read(spark: Any, path: Path, **options: str) -> Any:
    return spark.read.format("cordwood").option("archive", str(path)).options(**options).load()


def test_every_event_is_a_row(spark: Any, root: Path) -> None:
    rows = read(spark, root).where("key = 'job/1'").orderBy("offset").collect()
    assert [bytes(row.value) for row in rows] == EVENTS
    assert [row.offset for row in rows] == list(range(len(EVENTS)))
    assert {(row.topic, row.partition) for row in rows} == {(None, None)}
    (row,) = read(spark, root, includeHeaders="true").where("key = 'own'").collect()
    assert (bytes(row.value), row.offset) == (b'{"a":1}', 0)
    assert [(one.key, one.value and bytes(one.value)) for one in row.headers] == [("h", b"\xff"), ("empty", None)]
    assert row.timestamp.timestamp() == 1_700_000_000
    assert read(spark, root / "archive", columns="value,offset").columns == ["value", "offset"]
    assert read(spark, root / "archive").count() == len(EVENTS) + 1


def test_what_two_archives_have_comes_once(spark: Any, root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "outbox")
    first = tmp_path / "outbox" / "archive" / "job%2F1.wal.zst"
    shutil.copy(first, first.with_name("job%2F1.2.wal.zst"))
    assert read(spark, tmp_path / "outbox").count() == len(EVENTS) + 1
    assert read(spark, first).count() == len(EVENTS), "one file is enough"


def test_a_damaged_archive_is_named_or_passed_over(spark: Any, root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "outbox")
    first = tmp_path / "outbox" / "archive" / "job%2F1.wal.zst"
    bytes_ = bytearray(first.read_bytes())
    bytes_[len(bytes_) // 2] ^= 1
    first.write_bytes(bytes_)
    with pytest.raises(Exception, match=r"job%2F1\.wal\.zst"):
        read(spark, tmp_path / "outbox").collect()
    assert read(spark, tmp_path / "outbox", failOnDataLoss="false").count() == 1


def test_what_cannot_be_is_refused(spark: Any, root: Path, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="means nothing where archives are read"):
        read(spark, root, subscribe="clicks").count()
    with pytest.raises(Exception, match="is not there"):
        read(spark, tmp_path / "nowhere").count()
    with pytest.raises(Exception, match="batch queries"):
        spark.readStream.format("cordwood").option("archive", str(root)).load().writeStream.format("noop").option(
            "checkpointLocation", str(tmp_path / "c")
        ).start().awaitTermination(60)
    (tmp_path / "empty").mkdir()
    assert read(spark, tmp_path / "empty").count() == 0
