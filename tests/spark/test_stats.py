"""What `stats` says is what a plain count says; the page says the same and needs nothing else."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cordwood
from cordwood.errors import NotFound, Refused
from cordwood.record import TIME
from cordwood.spark.pipelines import buckets, chart
from cordwood.spark.pipelines.counting import Bucket, Keys, KeyStats
from cordwood.spark.pipelines.lags import delay
from cordwood.spark.pipelines.stats import Stats, stats
from cordwood.spark.pipelines.stats_page import page, shown
from tests.spark.conftest import Kept

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
STRANGE = [b"user:1", b"user:2", b"<b>&\"'", b"\xff\x00", None]


def sent(count: int, first: int = 0) -> Any:
    """Return messages over some hours, most of them under few keys, of many sizes."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "value": pa.array([None if n % 97 == 0 else b"x" * (n * n % 501) for n in numbers], pa.binary()),
            "key": pa.array([STRANGE[(n * n + n // 7) % 5] for n in numbers], pa.binary()),
            "timestamp": pa.array([BEGIN + timedelta(seconds=20 * n) for n in numbers], TIME),
        }
    )


# With Spark


def check(found: Stats, rows: list[dict[str, Any]]) -> None:
    """Compare with a count of the messages one by one."""
    for row in rows:
        row["size"] = len(row["key"] or b"") + len(row["value"] or b"")
        row["ms"] = int(row["timestamp"].timestamp() * 1000)
    step = found.bucket_ms

    def by(name: Any) -> tuple[Counter[Any], Counter[Any]]:
        counts: Counter[Any] = Counter()
        sizes: Counter[Any] = Counter()
        for row in rows:
            counts[name(row)] += 1
            sizes[name(row)] += row["size"]
        return counts, sizes

    counts, sizes = by(lambda row: row["ms"] // step * step)
    assert [(one.time_ms, one.messages, one.bytes) for one in found.over_time] == [
        (at, counts[at], sizes[at]) for at in sorted(counts)
    ]
    counts, sizes = by(lambda row: row["partition"])
    assert {one.partition: (one.messages, one.bytes) for one in found.partitions if one.messages} == {
        number: (counts[number], sizes[number]) for number in counts
    }
    counts, sizes = by(lambda row: row["key"])
    assert (found.keys.distinct, found.keys.without) == (len(set(counts) - {None}), counts[None])
    named = {one.key: (one.messages, one.bytes) for one in found.keys.top}
    assert named == {key: (counts[key], sizes[key]) for key in named}
    assert sorted(dict(named).values(), reverse=True) == list(dict(named).values()), "the most comes first"
    ordered = [row["size"] for row in rows]
    assert found.sizes is not None
    assert (found.sizes.p50, found.sizes.p90, found.sizes.p99) == pytest.approx(
        tuple(np.percentile(ordered, [50, 90, 99]))
    )
    assert (found.sizes.max, found.messages, found.bytes) == (max(ordered), len(rows), sum(ordered))
    assert (found.first_ms, found.last_ms) == (min(row["ms"] for row in rows), max(row["ms"] for row in rows))


def rows_of(kept: Kept, topic: str) -> list[dict[str, Any]]:
    return [row for batch in kept.client.read_batches(topic) for row in batch.to_pylist()]


def test_everything_is_counted_as_one_by_one_in_the_tier_and_before_it(spark: Any, kept: Kept) -> None:
    topic = kept.topic("stats/all", 3)
    kept.send(topic, sent(700))
    kept.tiered(topic)
    kept.send(topic, sent(300, 700))
    found = stats(spark, kept.endpoint, topic)
    check(found, rows_of(kept, topic))
    assert found.bucket_ms == 300_000
    assert [one.key for one in found.keys.top if one.key not in STRANGE] == []
    few = stats(spark, kept.endpoint, topic, bucket="1h", top_keys=1, start=BEGIN + timedelta(hours=1), end=250)
    assert (few.bucket_ms, len(few.keys.top), few.keys.distinct) == (3_600_000, 1, 4)
    since = BEGIN + timedelta(hours=1)
    check(few, [row for row in rows_of(kept, topic) if row["offset"] < 250 and row["timestamp"] >= since])


def test_a_time_far_off_makes_the_steps_longer(spark: Any, hot: Kept) -> None:
    topic = hot.topic("stats/far")
    times = [BEGIN, datetime(1970, 1, 2, tzinfo=UTC), BEGIN + timedelta(seconds=1)]
    hot.send(topic, pa.table({"value": pa.array([b"a"] * 3), "timestamp": pa.array(times, TIME)}))
    found = stats(spark, hot.endpoint, topic)
    check(found, rows_of(hot, topic))
    assert found.bucket_ms == 364 * 86_400_000


def test_a_topic_without_messages_has_stats_and_a_page(spark: Any, hot: Kept) -> None:
    found = stats(spark, hot.endpoint, hot.topic("stats/empty", 2))
    assert (found.messages, found.over_time, found.sizes, found.keys) == (0, [], None, Keys(0, 0, []))
    assert "There is no message." in page(found)
    with pytest.raises(NotFound):
        stats(spark, hot.endpoint, "stats/nowhere")


def test_lag_and_the_age_of_the_oldest_open_message_are_the_brokers(
    spark: Any, hot: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = hot.topic("stats/lag", 2)
    times = [BEGIN + timedelta(seconds=n) for n in range(10)]
    columns = {"value": pa.array([b"x"] * 10), "timestamp": pa.array(times, TIME)}
    hot.send(topic, pa.table({**columns, "partition": pa.array([n % 2 for n in range(10)], pa.int32())}))
    hot.client.set_group(topic, "idle")
    with cordwood.Consumer(hot.endpoint, topic, group="busy") as consumer:
        for message in consumer.receive(max_messages=10, wait_ms=10_000):
            if message.partition == 0 or message.offset != 2:
                message.ack()
    monkeypatch.setattr("cordwood.spark.pipelines.lags.time", lambda: BEGIN.timestamp() + 100)
    busy, idle = stats(spark, hot.endpoint, topic).groups
    assert (busy.group, busy.lag, [one.lag for one in busy.partitions]) == ("busy", 1, [0, 1])
    assert (idle.group, idle.lag, [one.lag for one in idle.partitions]) == ("idle", 10, [5, 5])
    assert (idle.delay, [one.floor for one in idle.partitions]) == (None, [0, 0])
    assert (idle.oldest_ms, [one.oldest_ms for one in idle.partitions]) == (100_000, [100_000, 99_000])
    assert (busy.oldest_ms, [one.oldest_ms for one in busy.partitions]) == (95_000, [None, 95_000])
    assert busy.delay is not None
    assert (busy.delay.messages, sum(busy.delay.counts)) == (9, 9)


# The page


class Page(HTMLParser):
    """What is in a page: its tables by class, its titles, and what it would fetch."""

    def __init__(self, text: str):
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.fetched: list[str] = []
        self.tags: Counter[str] = Counter()
        self.titles: list[str] = []
        self._open: list[str] = []
        self._rows: list[list[str]] | None = None
        self.feed(text)
        self.close()
        assert not self._open, f"left open: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        given = dict(attrs)
        self.fetched += [f"{tag} {name}" for name in ("src", "href", "data", "action") if name in given]
        if tag == "table":
            self._rows = self.tables.setdefault(str(given["class"]), [])
        if tag == "tr" and self._rows is not None:
            self._rows.append([])
        if tag in ("td", "th") and self._rows is not None:
            self._rows[-1].append("")
        if tag not in ("meta", "br"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes another"
        self._rows = None if tag == "table" else self._rows

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("td", "th") and self._rows:
            self._rows[-1][-1] += data
        if self._open and self._open[-1] == "title":
            self.titles.append(data)


def test_the_page_has_the_same_numbers_and_needs_nothing_else(spark: Any, hot: Kept) -> None:
    topic = hot.topic("stats/page", 2)
    hot.send(topic, sent(500))
    hot.client.set_group(topic, "mailer")
    with cordwood.Consumer(hot.endpoint, topic, group="mailer") as consumer:
        for batch in consumer.batches():
            batch.ack()
            break
    found = stats(spark, hot.endpoint, topic)
    text = page(found)
    read = Page(text)

    def numbers(name: str, first: int = 1) -> list[tuple[int, ...]]:
        return [tuple(int(cell.replace(",", "")) for cell in row[first:]) for row in read.tables[name][1:]]

    assert numbers("over-time") == [(one.messages, one.bytes) for one in found.over_time]
    assert numbers("partitions", 0) == [
        (one.partition, one.start, one.end, one.messages, one.bytes) for one in found.partitions
    ]
    assert [row[0] for row in read.tables["keys"][1:]] == [shown(one.key) for one in found.keys.top]
    assert numbers("keys") == [(one.messages, one.bytes) for one in found.keys.top]
    assert [row[3] for row in read.tables["lag"][1:]] == [str(one.lag) for one in found.groups[0].partitions]
    assert found.sizes is not None
    assert float(read.tables["sizes"][-1][1]) == found.sizes.max
    assert (read.fetched, read.tags["script"], read.tags["link"]) == ([], 0, 0)
    assert "url(" not in text
    assert "@import" not in text
    assert read.tags["b"] == 0, "a key is no markup"
    assert {"Messages over time", "Bytes over time", "Messages by partition", "Messages by key"} <= set(read.titles)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"user:1", "user:1"),
        (b"", "0x"),
        (b"\xff\x00", "0xff00"),
        ("größer".encode(), "größer"),
        (b"a\x1b[31m", "0x611b5b33316d"),
        ("\u202eabc".encode(), "0xe280ae616263"),
        (b"k" * 100, "k" * 59 + "…"),
    ],
)
def test_any_key_is_shown_safely(key: bytes, text: str) -> None:
    assert shown(key) == text


def test_names_are_no_markup() -> None:
    name = "<script>alert(1)</script>"
    keys = Keys(1, 0, [KeyStats(name.encode(), 1, 1)])
    text = page(Stats(name, 0, 1, 1, 0, 0, 1000, [Bucket(0, 1, 1)], [], keys, None, []))
    assert Page(text).tags["script"] == 0


# Pure


@pytest.mark.parametrize(
    ("first", "last", "step"),
    [(0, 0, 10), (0, 1_190, 10), (0, 1_200, 100), (0, 3_600_000, 60_000), (1_700_000_000_000, 1_700_000_000_001, 10)],
)
def test_steps_make_at_most_120_bars(first: int, last: int, step: int) -> None:
    assert buckets.step_ms(first, last) == step
    assert last // step - first // step < buckets.MOST


def test_each_step_divides_the_next() -> None:
    assert all(longer % shorter == 0 for shorter, longer in zip(buckets.STEPS_MS, buckets.STEPS_MS[1:], strict=False))


@pytest.mark.parametrize(("text", "step"), [("auto", None), ("250ms", 250), ("15m", 900_000), ("2d", 172_800_000)])
def test_a_bucket_is_a_number_with_its_unit(text: str, step: int | None) -> None:
    assert buckets.parse(text) == step


@pytest.mark.parametrize("text", ["", "0s", "15", "m", "-1s", "1w", "1.5h"])
def test_other_buckets_are_refused(text: str) -> None:
    with pytest.raises(Refused, match="a bucket is auto"):
        buckets.parse(text)


def test_more_bars_than_anybody_can_look_at_are_refused() -> None:
    buckets.check(1_000, 0, 9_999_999)
    with pytest.raises(Refused, match="10001 buckets of 1000 ms"):
        buckets.check(1_000, 0, 10_000_000)


def test_percentiles_of_acks_are_the_bounds_they_stay_below() -> None:
    said = {"bounds_ms": [10, 100, 1_000], "counts": [50, 40, 9, 1], "count": 100, "sum_ms": 5_000}
    found = delay(said)
    assert found is not None
    assert (found.p50_ms, found.p90_ms, found.p99_ms, found.mean_ms) == (10, 100, 1_000, 50.0)
    late = delay({**said, "counts": [0, 0, 0, 100]})
    assert late is not None
    assert late.p50_ms is None
    assert delay({**said, "count": 0}) is None
    assert delay(None) is None


def test_charts_of_anything_are_drawn() -> None:
    assert chart.over_time("none", [], 1_000, str) == ""
    for bars in ([(0, 0)], [(-(10**17), 5), (10**17, 1)], [(n * 1_000, n) for n in range(5_000)]):
        text = chart.over_time("t", bars, 1_000, str)
        assert 0 < text.count("<rect") <= chart.LONGEST
        assert "nan" not in text
    assert chart.across("t", [("a", 0)], str).count("<rect") == 1


# On the command line


def test_the_command_prints_tables_json_and_writes_the_page(spark: Any, hot: Kept, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from cordwood.cli.main import cli

    topic = hot.topic("stats/command", 2)
    hot.send(topic, sent(200))
    report = tmp_path / "stats.html"
    command = ["spark", "stats", topic, "--endpoint", hot.endpoint, "--top-keys", "2", "--to", "2026-03-01T13:00"]
    told = json.loads(CliRunner().invoke(cli, [*command, "--json", "--report", str(report)]).stdout)
    assert (told["messages"], len(told["keys"]["top"]), told["keys"]["distinct"]) == (180, 2, 4)
    assert Page(report.read_text()).tables["keys"][1:]
    said = CliRunner().invoke(cli, command)
    assert said.exit_code == 0
    assert said.stdout.startswith("stats/command: 180 messages")
    assert "4 keys; " in said.stdout
    assert CliRunner().invoke(cli, [*command, "--bucket", "soon"]).exit_code != 0
