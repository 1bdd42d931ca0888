"""Text that people and programs write: settings, durations, endpoints, Spark's positions and options."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cordwood.cli.duration import Duration
from cordwood.client.endpoint import endpoint
from cordwood.errors import Refused
from cordwood.settings import Settings, load
from cordwood.spark.options import read_options, write_options
from cordwood.spark.position import Position
from tests.fuzz.mutation import mutated
from tests.fuzz.profile import fuzzed

MOST = (1 << 63) - 1  # what the columns, and MessagePack, can hold
NAMES = list(Settings.__dataclass_fields__)
TEXTS = st.one_of(
    st.text(max_size=10),
    st.sampled_from(
        ("0", "-1", "1", "9" * 30, "9" * 5000, "1e3", "inf", "true", "yes", "acked", "always", "٣", "1_0", " 7 ")
    ),
    st.sampled_from(("\ud800", "\0", "", "none", "dlq", "drop")),
)


def within_bounds(found: Settings) -> None:
    for name in NAMES:
        value = getattr(found, name)
        assert isinstance(value, str | bool) or 0 <= value <= MOST, name


@fuzzed(80)
@given(
    st.dictionaries(st.sampled_from([*NAMES, "x"]).map(lambda name: "CORDWOOD_" + name.upper()), TEXTS, max_size=3)
)
@example({"CORDWOOD_RETENTION_BYTES": "9" * 30})  # found: accepted, and no journal could hold it
@example({"CORDWOOD_PORT": "9" * 5000})
def test_variables_are_settings_or_refused(variables: dict[str, str]) -> None:
    try:
        within_bounds(load({}, variables))
    except Refused as error:
        str(error)


@fuzzed(60)
@given(mutated(b'port = 1\ndiscard = "acked"\nretention_bytes = 5\n', b"sync = 'interval'\n# x\n[a]\nb=1979-05-27\n"))
@example(b"port = " + b"9" * 5000)  # found: ValueError
@example(b"a = " + b"[" * 100_000)  # found: RecursionError
@example(b"a = " + b"{a=" * 50_000)
@example(b"retention_bytes = 99999999999999999999")
def test_a_file_is_settings_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "settings.toml"
    path.write_bytes(data)
    try:
        within_bounds(load({}, {}, path))
    except Refused as error:
        str(error)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", Path("a\0b")):
        with pytest.raises(Refused):
            load({}, {}, path)


@fuzzed(80)
@given(TEXTS | st.from_regex(r"[0-9]{1,25}(d|h|m|s|ms)", fullmatch=True))
@example("9" * 5000 + "d")  # found: ValueError
@example("٣d")  # found: taken for 3
@example("1d\n")
@example("999999999999d")  # found: more milliseconds than a number holds
def test_a_duration_is_milliseconds_or_a_usage_error(text: str) -> None:
    try:
        found = Duration().convert(text, None, None)
    except click.BadParameter:
        return
    assert text.isascii()
    assert text.strip() == text
    assert 0 <= found <= MOST


@fuzzed(80)
@given(
    st.text(max_size=30)
    | st.text("http:/[]@#?.%0a1 \r\n\0é", max_size=20).map("http://".__add__)
    | mutated(b"https://broker.example:7878/queue").map(lambda b: b.decode("latin-1"))
)
@example("http://[")  # found: ValueError
@example("http://a:99999")  # found: ValueError
@example("http://a:x")
@example("http://\ud800")
@example("http://h/\r\nX: y")
@example("http://h/a b")
@example("http://h/é")
@example("http://h:0")
def test_an_endpoint_is_one_or_refused(url: str) -> None:
    try:
        found = endpoint(url)
    except Refused as error:
        str(error)
        return
    line = b"GET %b/v1 HTTP/1.1\r\n%b\r\n" % (found.prefix.encode(), found.lines())
    assert line.split(b"\r\n")[0].count(b" ") == 2, "one request, as it was meant"
    assert line.count(b"\r\n") == 3
    assert 0 < found.port < 1 << 16


SPELLINGS = ("t", "0", "1", "+1", "01", "id", "٣", "-1", " 1")
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(1 << 70), 1 << 70),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from(SPELLINGS),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(SPELLINGS) | st.text(max_size=3), inner, max_size=4),
    ),
    max_leaves=8,
)


@fuzzed(120)
@given(
    st.dictionaries(
        st.sampled_from(("t", "a/b", "")),
        st.dictionaries(st.sampled_from(("0", "1", "+1", "01", "id", "٣", "-1", " 1")), JSON, max_size=3) | JSON,
        max_size=3,
    )
    | JSON
)
@example({"t": {"0": float("inf")}})  # found: OverflowError
@example({"t": {"0": 1.5}})  # found: taken for 1
@example({"t": {"0": True}})
@example({"t": {"0": -1}})
@example({"t": {"+1": 5, "1": 6}})  # found: one of the two was dropped
def test_a_position_is_as_it_was_written_or_refused(given_: Any) -> None:
    try:
        found = Position.from_json(given_)
    except Refused:
        return
    assert all(number >= 0 and 0 <= offset <= MOST for (_, number), offset in found.offsets.items())
    again = found.to_json()
    assert Position.from_json(again).to_json() == again
    assert len(found.offsets) == sum(len([n for n in numbers if n != "id"]) for numbers in given_.values())


@fuzzed(40)
@given(
    st.dictionaries(st.tuples(st.text(max_size=5), st.integers(0, 99)), st.integers(0, MOST), max_size=5),
    st.text(max_size=4),
)
def test_a_position_comes_back(offsets: dict[tuple[str, int], int], name: str) -> None:
    position = Position(offsets, {topic: name for topic, _ in offsets})
    assert Position.from_json(json.loads(json.dumps(position.to_json()))) == position


OPTIONS = [
    "endpoint",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "columns",
    "readerId",
    "token",
    "topic",
    "writerId",
]
OPTION = st.one_of(
    TEXTS,
    JSON.map(json.dumps),
    st.sampled_from(
        (
            "http://127.0.0.1:1",
            "earliest",
            "latest",
            '{"t":{"0":5}}',
            '{"t":[0,1]}',
            "[" * 5000,
            '{"t":{"0":1e999}}',
            "(",
            "a,b",
        )
    ),
)


@fuzzed(100)
@given(st.dictionaries(st.sampled_from(OPTIONS), OPTION, min_size=1, max_size=4), st.booleans())
@example({"subscribePattern": "a{99999999999}", "endpoint": "http://127.0.0.1:1"}, False)  # found: OverflowError
@example({"startingOffsets": "[" * 100_000}, True)  # found: RecursionError
def test_options_of_spark_are_read_or_refused(options: dict[str, str], complete: bool) -> None:
    if complete:
        options = {"endpoint": "http://127.0.0.1:1", "subscribe": "t", **options}
    for read in (read_options, write_options):
        try:
            read(options)
        except Refused as error:
            str(error)
