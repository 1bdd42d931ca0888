"""`cordwood spark stats`."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cordwood.cli import show
from cordwood.cli.endpoint import as_json, endpoint, reach
from cordwood.cli.spark.options import master, shown, tell
from cordwood.cli.spark.place import begin, finish

if TYPE_CHECKING:
    from cordwood.spark.pipelines.stats import Stats

_BLOCKS = " ▁▂▃▄▅▆▇█"
WIDE = 100  # of a terminal's columns


@click.command("stats", short_help="Count what is in a topic, over time and by key.")
@click.argument("topic")
@begin
@finish
@click.option("--bucket", default="auto", show_default=True, help="A step in time, such as 15s, 5m, 1h or 1d.")
@click.option(
    "--top-keys", type=click.IntRange(0, 10_000), default=20, show_default=True, help="Keys that are named."
)
@click.option("--report", type=click.Path(path_type=Path), help="Write a page of HTML with charts here, too.")
@master
@endpoint
@as_json
def stats(
    topic: str,
    start: int | datetime | str | None,
    end: int | datetime | str | None,
    bucket: str,
    top_keys: int,
    report: Path | None,
    master: str,
    endpoint: str,
    as_json: bool,
) -> None:
    """Count what is in a topic: over time, by partition, by key and by size; and how far its groups are.

    \b
    Example: cordwood spark stats clicks --from 2026-01-01 --report clicks.html
    """
    from cordwood.spark.pipelines.stats import stats as run
    from cordwood.spark.pipelines.stats_page import page
    from cordwood.spark.session import start as session

    reach(endpoint)
    spark = session(master)
    found = run(spark, endpoint, topic, start=start, end=end, bucket=bucket, top_keys=top_keys, tell=tell, **shown())
    if report is not None:
        report.write_text(page(found), encoding="utf-8")
    if as_json:
        click.echo(json.dumps(found.as_dict()))
    else:
        _print(found)


def _print(found: "Stats") -> None:
    from cordwood.spark.pipelines.chart import clock
    from cordwood.spark.pipelines.stats_page import at_most, duration, shown

    click.echo(f"{found.topic}: {found.messages} messages, {show.bytes_text(found.bytes)} of keys and values")
    if found.sizes is not None:
        sizes = found.sizes
        click.echo(f"a message: p50 {sizes.p50:g} B, p90 {sizes.p90:g} B, p99 {sizes.p99:g} B, max {sizes.max} B")
        click.echo(f"{line({one.time_ms // found.bucket_ms: one.messages for one in found.over_time})}")
        click.echo(f"from {clock(found.over_time[0].time_ms)}, in steps of {duration(found.bucket_ms)}")
    show.table(
        ("partition", "messages", "bytes"), [(one.partition, one.messages, one.bytes) for one in found.partitions]
    )
    click.echo(f"{found.keys.distinct} keys; {found.keys.without} messages have none")
    if found.keys.top:
        show.table(
            ("key", "messages", "bytes"), [(shown(one.key), one.messages, one.bytes) for one in found.keys.top]
        )
    if found.groups:
        rows = [
            (
                one.group,
                one.lag,
                "" if one.oldest_ms is None else duration(one.oldest_ms),
                *(("", "") if one.delay is None else map(at_most, (one.delay.p50_ms, one.delay.p99_ms))),
            )
            for one in found.groups
        ]
        show.table(("group", "lag", "oldest", "time to ack, p50", "p99"), rows)


def line(values: Mapping[int, int]) -> str:
    """Return a chart of one line: a block for each step, or for several, and a space for a step with nothing."""
    first, behind = min(values), max(values) + 1
    share = -(-(behind - first) // WIDE)
    sums = [0] * -(-(behind - first) // share)
    for step, value in values.items():
        sums[(step - first) // share] += value
    most = max(sums)
    return "".join(_BLOCKS[-(-value * 8 // most)] for value in sums)
