"""Options: Spark's Kafka names, and one clear sentence for each that is wrong."""

import json

import pytest

from cordwood.errors import Refused
from cordwood.spark.options import (
    EARLIEST,
    LATEST,
    READ_OPTIONS,
    WRITE_OPTIONS,
    Bound,
    check_batch,
    check_stream,
    read_options,
    write_options,
)

LEAST = {"endpoint": "http://127.0.0.1:7878", "subscribe": "clicks"}


def test_the_least_is_an_endpoint_and_a_topic() -> None:
    options = read_options(LEAST)
    assert options.topics == ("clicks",)
    assert options.fail_on_data_loss
    assert options.columns == ("topic", "partition", "offset", "timestamp", "key", "value")
    assert (options.start, options.end, options.reader_id, options.min_partitions) == (None, None, None, None)


def test_names_are_compared_without_case() -> None:
    options = read_options({"ENDPOINT": "http://h", "subscribe": " a , b,a", "failondataloss": "FALSE"})
    assert options.topics == ("a", "b")
    assert not options.fail_on_data_loss


def test_an_unknown_option_is_refused_with_all_that_are_known() -> None:
    with pytest.raises(Refused, match="startingofsets") as refused:
        read_options({**LEAST, "startingofsets": "earliest"})
    assert "did you mean 'startingOffsets'?" in str(refused.value)
    assert all(name in str(refused.value) for name in READ_OPTIONS)
    with pytest.raises(Refused, match="did you mean 'endpoint'") as refused:
        write_options({"kafka.bootstrap.servers": "h:9092"})
    assert all(name in str(refused.value) for name in WRITE_OPTIONS)


def test_which_topics_is_said_in_exactly_one_way() -> None:
    with pytest.raises(Refused, match="none is given"):
        read_options({"endpoint": "http://h"})
    with pytest.raises(Refused, match="subscribe and assign"):
        read_options({**LEAST, "assign": '{"clicks":[0]}'})
    assert read_options({"endpoint": "h", "assign": '{"b":[2,0],"a":[1]}'}).assigned == {"b": (0, 2), "a": (1,)}
    assert read_options({"endpoint": "h", "subscribePattern": "shop/.*"}).pattern == "shop/.*"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("subscribePattern", "(", "no regular expression"),
        ("assign", "[1]", "JSON such as"),
        ("assign", '{"a":["0"]}', "JSON such as"),
        ("subscribe", " , ", "list of topics"),
    ],
)
def test_topics_that_are_none_are_refused(name: str, value: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        read_options({"endpoint": "http://h", name: value})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("startingOffsets", "newest", "earliest, latest or an offset for each partition"),
        ("startingOffsets", '{"clicks":{"0":"5"}}', "for each partition"),
        ("startingOffsets", '{"clicks":{"0":-3}}', "below 0"),
        ("startingOffsets", '{"clicks":[0]}', "for each partition"),
        ("startingOffsets", "", "empty"),
        ("startingTimestamp", "yesterday", "milliseconds since 1970"),
        ("startingOffsetsByTimestamp", '{"clicks":{"0":-1}}', "below 0"),
        ("startingOffsetsByTimestampStrategy", "earliest", "error or latest"),
        ("endingOffsets", "earliest", "there is nothing"),
        ("endingOffsets", '{"clicks":{"0":-2}}', "no end"),
        ("maxOffsetsPerTrigger", "0", "whole number above 0"),
        ("maxBytesPerTrigger", "1k", "whole number above 0"),
        ("minPartitions", "-1", "whole number above 0"),
        ("maxRecordsPerPartition", "many", "whole number above 0"),
        ("failOnDataLoss", "no", "true or false"),
        ("includeHeaders", "1", "true or false"),
        ("columns", "value,vlaue", "no column 'vlaue'"),
        ("columns", "key,key", "twice"),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: str, said: str) -> None:
    with pytest.raises(Refused, match=said) as refused:
        read_options({**LEAST, name: value})
    assert name.removesuffix("Timestamp") in str(refused.value)


def test_offsets_are_words_or_a_number_for_each_partition() -> None:
    def start(text: str) -> Bound | None:
        return read_options({**LEAST, "startingOffsets": text}).start

    assert start("earliest") == Bound(everywhere=EARLIEST)
    assert start("latest") == Bound(everywhere=LATEST)
    assert start('{"clicks":{"0":23,"1":-2}}') == Bound(offsets={"clicks": {0: 23, 1: -2}})
    # An offset from a query's progress may be given back as it is.
    assert start('{"clicks":{"0":23,"id":"0a1b"}}') == Bound(offsets={"clicks": {0: 23}})


def test_a_time_counts_before_times_and_those_before_offsets() -> None:
    given = {**LEAST, "endingOffsets": "latest"}
    assert read_options(given).end == Bound(everywhere=LATEST)
    given["endingOffsetsByTimestamp"] = json.dumps({"clicks": {"0": 5}})
    assert read_options(given).end == Bound(times_ms={"clicks": {0: 5}})
    given["endingTimestamp"] = "0"
    assert read_options(given).end == Bound(time_ms=0)


def test_headers_come_when_they_are_asked_for() -> None:
    assert read_options({**LEAST, "includeHeaders": "true"}).columns[-1] == "headers"
    assert read_options({**LEAST, "columns": "headers, key"}).columns == ("headers", "key")


def test_a_batch_begins_before_the_latest_and_has_no_reader() -> None:
    for text in ("latest", '{"clicks":{"0":-1}}'):
        with pytest.raises(Refused, match="latest"):
            check_batch(read_options({**LEAST, "startingOffsets": text}))
    with pytest.raises(Refused, match="readerId"):
        check_batch(read_options({**LEAST, "readerId": "r"}))
    check_batch(read_options(LEAST))


def test_a_stream_has_no_end() -> None:
    with pytest.raises(Refused, match="no end"):
        check_stream(read_options({**LEAST, "endingTimestamp": "5"}))


def test_the_token_is_the_drivers_and_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORDWOOD_TOKEN", "geheim")
    monkeypatch.setenv("CORDWOOD_ENDPOINT", "http://h:1")
    options = read_options({"subscribe": "a"})
    assert (options.token, options.endpoint) == ("geheim", "http://h:1")
    assert "geheim" not in repr(options)


def test_an_endpoint_is_needed() -> None:
    with pytest.raises(Refused, match="'endpoint' is missing"):
        write_options({"topic": "a"})


def test_what_a_streaming_query_brings_along_is_let_through() -> None:
    given = {"endpoint": "http://h", "topic": "a", "checkpointLocation": "/c", "writerId": "w"}
    assert write_options(given).writer_id == "w"
