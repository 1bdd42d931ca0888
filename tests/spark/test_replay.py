"""A replay publishes what it selected once, whoever dies when."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cordwood
from cordwood.errors import NotFound, Refused
from cordwood.record import HEADERS, TIME
from cordwood.spark.extent import DataLost
from cordwood.spark.pipelines import cut as cuts
from cordwood.spark.pipelines.cut import Cut
from cordwood.spark.pipelines.replay import identity, replay
from tests.spark.conftest import Kept
from tests.spark.messages import expected, numbered

HERE = Path(__file__).parent


def texts(kept: Kept, topic: str) -> list[str]:
    return [value.decode() for value in kept.values(topic)]


def cut_of(kept: Kept, topic: str, name: str) -> Cut | None:
    return cuts.find(kept.client, topic, name)


# What is selected


def test_keys_values_and_headers_come_again_in_the_order_of_each_key(spark: Any, kept: Kept) -> None:
    source, target = kept.topic("replay/source", 3), kept.topic("replay/target", 2)
    for first in (0, 500):  # some in the tier, in objects of several sizes, the last perhaps not yet
        numbers = range(first, first + 500)
        large = bytes(8_000)  # so that there are several tasks
        headers = pa.array([[("n", b"%d" % n), ("large", large)] for n in numbers], HEADERS)
        keys = pa.array([b"key-%d" % (n % 7) for n in numbers], pa.binary())
        kept.send(source, numbered(500, first, headers=headers).set_column(1, "key", keys))
        if not first:
            kept.tiered(source)
    found = replay(spark, kept.endpoint, source, target)
    assert (found.state, found.read, found.messages) == ("published", 1_000, 1_000)
    assert sum(run.count for run in found.results) == 1_000
    wanted, came = ({}, {})  # type: dict[bytes, list[Any]], dict[bytes, list[Any]]
    for topic, by_key in ((source, wanted), (target, came)):
        for row in expected(kept.client, topic):
            by_key.setdefault(row[4], []).append((row[5], row[6]))
    assert came == wanted


def test_time_and_sql_choose_and_change(spark: Any, hot: Kept) -> None:
    source, target = hot.topic("replay/sql"), hot.topic("replay/sql-target")
    times = [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in range(10)]
    values = [json.dumps({"hour": hour, "page": "home" if hour % 2 else "cart"}).encode() for hour in range(10)]
    headers = [[("tries", b"1"), ("tries", b"%d" % hour)] for hour in range(10)]
    columns = {"value": pa.array(values, pa.binary()), "timestamp": pa.array(times, TIME)}
    hot.send(source, pa.table({**columns, "headers": pa.array(headers, HEADERS)}))
    found = replay(
        spark,
        hot.endpoint,
        source,
        target,
        start=times[2],
        end=times[9],
        where="get_json_object(text, '$.page') = 'home' and header['tries'] >= '5' and header['none'] is null",
        select="concat('hour ', get_json_object(text, '$.hour')) as value, string(offset) as key, timestamp",
    )
    assert (found.read, found.messages) == (7, 2)
    again = [(one.key, one.value, one.timestamp) for one in hot.client.read(target)]
    assert [(key, value) for key, value, _ in again] == [(b"5", b"hour 5"), (b"7", b"hour 7")]
    assert [time for _, _, time in again] == [next(hot.client.read(source, offset=n)).timestamp for n in (5, 7)]


def test_a_dead_letter_is_published_as_the_message_it_was(spark: Any, hot: Kept) -> None:
    source, target = hot.topic("replay/jobs", 2), hot.topic("replay/jobs-again")
    hot.client.set_group(source, "mailer", max_attempts=1)
    for number in range(4):
        hot.client.produce(source, f"job {number}", key="k", headers={"own": f"{number}"}, partition=number % 2)
    with cordwood.Consumer(hot.endpoint, source, group="mailer") as consumer:
        for message in consumer.receive(max_messages=4, wait_ms=10_000):
            message.nack("timeout" if message.value in (b"job 1", b"job 2") else "no such user")
    dead = f"dlq.{source}"
    found = replay(spark, hot.endpoint, dead, target, where="header['cordwood-error'] = 'timeout'")
    assert (found.read, found.messages) == (4, 2)
    came = {(one.value, one.key, tuple(one.headers)) for one in hot.client.read(target)}
    assert came == {(b"job 1", b"k", (("own", b"1"),)), (b"job 2", b"k", (("own", b"2"),))}
    select = "concat(header['cordwood-group'], ' ', header['cordwood-error']) as value, headers"
    replay(spark, hot.endpoint, dead, target, select=select, where="key_text = 'k' and text = 'job 3'")
    *_, last = hot.client.read(target)
    assert last.value == b"mailer no such user"
    assert dict(last.headers)["cordwood-offset"] == b"1"


def test_a_replay_into_its_own_topic_does_not_feed_on_itself(spark: Any, hot: Kept) -> None:
    topic = hot.topic("replay/self")
    hot.send(topic, numbered(10))
    for name in ("once", "twice"):
        replay(spark, hot.endpoint, topic, topic, name=name, select="concat(text, '!') as value")
    numbers = [str(number) for number in range(10)]
    once = [f"{number}!" for number in numbers]
    assert texts(hot, topic) == [*numbers, *once, *once, *(f"{number}!!" for number in numbers)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"where": "no_such_column = 1"}, "Spark does not understand this: .*no_such_column"),
        ({"where": "text ="}, "Spark does not understand this"),
        ({"select": "key"}, "needs a column 'value'"),
        ({"select": "value, 1 as user"}, "takes no column 'user'"),
        ({"name": "not a name", "select": "value"}, "no reader name"),
    ],
)
def test_what_makes_no_messages_is_refused_before_anything_is_fixed(
    spark: Any, hot: Kept, given: dict[str, str], said: str
) -> None:
    hot.topic("replay/refused")
    with pytest.raises(Refused, match=said):
        replay(spark, hot.endpoint, "replay/refused", "replay/refused", **given)  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        replay(spark, hot.endpoint, "replay/refused", "nowhere")


def test_sql_that_a_message_does_not_go_with_publishes_nothing_and_leaves_nothing(spark: Any, hot: Kept) -> None:
    topic = hot.topic("replay/data")
    hot.send(topic, numbered(3))
    hot.client.produce(topic, "no number")
    sql = {"where": "cast(text as int) >= 0"}
    known = replay(spark, hot.endpoint, topic, topic, where="try_cast(text as int) >= 0", dry_run=True)
    assert known.messages == 3
    for dry_run in (True, False):
        with pytest.raises(Refused, match=r"does not go with this SQL: .*'no number'"):
            replay(spark, hot.endpoint, topic, topic, **sql, dry_run=dry_run)  # type: ignore[arg-type]
    assert len(texts(hot, topic)) == 4
    ids = (hot.client.topic(topic)["id"],) * 2
    assert cut_of(hot, topic, identity(None, (topic, topic, *ids), (None, None), (sql["where"], None))) is None


def test_a_cut_of_which_some_is_gone_is_not_replayed_in_part(
    spark: Any, hot: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = hot.topic("replay/gone")
    hot.send(topic, numbered(3))
    monkeypatch.setattr(cuts, "find", lambda client, topic, name: Cut({0: 0}, {0: 5}, int(4e12)))
    with pytest.raises(DataLost, match="offsets 3 to 5 of replay/gone/0"):
        replay(spark, hot.endpoint, topic, topic)
    assert len(texts(hot, topic)) == 3


# Exactly once


def test_the_same_command_again_publishes_nothing_and_says_so(spark: Any, hot: Kept) -> None:
    source, target = hot.topic("replay/again"), hot.topic("replay/again-target")
    hot.send(source, numbered(10))
    said: list[str] = []
    dry = replay(spark, hot.endpoint, source, target, dry_run=True)
    assert (dry.state, dry.messages, texts(hot, target)) == ("dry run", 10, [])
    assert cut_of(hot, source, dry.name) is None, "a dry run leaves nothing"
    first = replay(spark, hot.endpoint, source, target)
    hot.send(source, numbered(10, 10))
    again = replay(spark, hot.endpoint, source, target, tell=said.append)
    assert (again.state, again.messages, again.results) == ("published before", 10, first.results)
    assert any("published before" in line for line in said)
    assert len(texts(hot, target)) == 10
    assert cut_of(hot, source, first.name) is None, "retention does not wait for what is over"
    assert replay(spark, hot.endpoint, source, target, name="more").messages == 20


def test_a_replay_of_nothing_is_over_too(spark: Any, hot: Kept) -> None:
    source = hot.topic("replay/nothing")
    assert replay(spark, hot.endpoint, source, source).messages == 0
    hot.send(source, numbered(3))
    assert replay(spark, hot.endpoint, source, source).state == "published before"


def test_another_task_is_another_replay() -> None:
    topics = ("a", "b", "id-a", "id-b")
    time = datetime(2026, 1, 1, tzinfo=UTC)
    places: list[Any] = [(None, None), (1, None), (None, 1), (time, None), ({0: 1}, None)]
    sql: list[Any] = [(None, None), ("a", None), (None, "a")]
    found = [identity(name, topics, place, one) for name in (None, "x") for place in places for one in sql]
    assert len(set(found)) == len(found)
    assert identity(None, topics, (time, None), sql[0]) == identity(None, topics, (time.astimezone(), None), sql[0])
    assert identity(None, ("a", "b", "id-a", "made again"), places[0], sql[0]) not in found


def test_a_cut_without_its_second_half_is_none(hot: Kept) -> None:
    topic = hot.topic("replay/half")
    hot.send(topic, numbered(5))
    hot.client.set_reader(topic, "replay/half/to", {0: 3})  # and the driver died
    assert cut_of(hot, topic, "replay/half") is None
    cuts.fix(hot.client, topic, "replay/half", Cut({0: 1}, {0: 5}))
    found = cut_of(hot, topic, "replay/half")
    assert found is not None
    assert (found.starts, found.ends, found.offsets) == ({0: 1}, {0: 5}, 4)
    cuts.forget(hot.client, topic, "replay/half")
    cuts.forget(hot.client, topic, "replay/half")
    assert cut_of(hot, topic, "replay/half") is None


def test_a_cut_older_than_what_the_broker_remembers_is_refused(
    spark: Any, hot: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = hot.topic("replay/old")
    known = replay(spark, hot.endpoint, topic, topic, dry_run=True).name
    cuts.fix(hot.client, topic, known, Cut({0: 0}, {0: 0}))
    monkeypatch.setattr("cordwood.spark.pipelines.replay.time", lambda: 4e9)
    with pytest.raises(Refused, match="more than 168 hours ago"):
        replay(spark, hot.endpoint, topic, topic)


def test_two_at_once_publish_once(spark: Any, hot: Kept) -> None:
    source, target = hot.topic("replay/race"), hot.topic("replay/race-target")
    hot.send(source, numbered(10))
    found: list[Any] = []

    def other(line: str) -> None:
        if line.startswith("staged") and not found:
            found.append(None)
            found[0] = replay(spark, hot.endpoint, source, target)

    mine = replay(spark, hot.endpoint, source, target, tell=other)
    assert mine.results == found[0].results
    assert texts(hot, target) == [str(number) for number in range(10)]


# A driver that is killed

DRIVER = """
import os, signal, sys
from cordwood.spark import session
from cordwood.spark.pipelines.replay import replay

endpoint, when = sys.argv[1:]

def tell(line):
    if line.startswith(when):
        os.kill(os.getpid(), signal.SIGKILL)

settings = {"spark.ui.enabled": "false", "spark.log.level": "FATAL", "spark.driver.host": "127.0.0.1"}
replay(session.start("local[1]", "killed", settings), endpoint, "killed/" + when, "killed/target-" + when, tell=tell)
"""


@pytest.fixture
def driver(hot: Kept, tmp_path: Path) -> Any:
    """A function that runs a replay in a process of its own, which is killed when it says something."""

    def run(when: str) -> int:
        path = os.pathsep.join((str(HERE.parent.parent / "src"), os.environ.get("PYTHONPATH", "")))
        command = [sys.executable, "-c", DRIVER, hot.endpoint, when]
        return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path, timeout=250).returncode

    return run


def test_a_driver_killed_before_it_publishes_leaves_nothing_and_the_next_takes_the_same_cut(
    spark: Any, hot: Kept, driver: Any
) -> None:
    source, target = hot.topic("killed/staged", 2), hot.topic("killed/target-staged", 2)
    hot.send(source, numbered(100))
    assert driver("staged") == -signal.SIGKILL
    assert texts(hot, target) == []
    hot.send(source, numbered(100, 100))  # not in the cut that was fixed
    found = replay(spark, hot.endpoint, source, target)
    assert (found.state, found.read, found.messages) == ("published", 100, 100)
    assert sorted(map(int, texts(hot, target))) == list(range(100))
    assert replay(spark, hot.endpoint, source, target).state == "published before"


def test_a_driver_killed_after_it_published_is_not_repeated(spark: Any, hot: Kept, driver: Any) -> None:
    source, target = hot.topic("killed/published", 2), hot.topic("killed/target-published", 2)
    hot.send(source, numbered(100))
    assert driver("published") == -signal.SIGKILL
    assert sorted(map(int, texts(hot, target))) == list(range(100))
    found = replay(spark, hot.endpoint, source, target)
    assert (found.state, found.messages) == ("published before", 100)
    assert len(texts(hot, target)) == 100
    assert cut_of(hot, source, found.name) is None


# On the command line


def test_the_command_publishes_and_tells(spark: Any, hot: Kept) -> None:
    from click.testing import CliRunner

    from cordwood.cli.main import cli

    source, target = hot.topic("replay/command"), hot.topic("replay/command-target")
    hot.send(source, numbered(10))
    command = ["spark", "replay", source, target, "--from", "2", "--to", "8", "--where", "text > '4'"]
    command += ["--endpoint", hot.endpoint]
    dry = CliRunner().invoke(cli, [*command, "--dry-run"])
    assert (dry.exit_code, dry.stdout) == (0, "3 of 6 messages would be published to replay/command-target\n")
    found = CliRunner().invoke(cli, [*command, "--json"])
    told = json.loads(found.stdout)
    assert (told["state"], told["messages"], told["starts"], told["ends"]) == ("published", 3, {"0": 2}, {"0": 8})
    again = CliRunner().invoke(cli, command)
    assert again.stdout.startswith("3 messages were published to replay/command-target before")
    assert texts(hot, target) == ["5", "6", "7"]
    assert CliRunner().invoke(cli, [*command[:-2], "--from", "yesterday"]).exit_code == 2
