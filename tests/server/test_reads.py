"""The log read over HTTP: from anywhere, in three formats, and its live tail."""

from pathlib import Path

import pytest
from pyarrow import ipc

from tests.server.serving import Serving
from tests.server.streams import Open

ARROW = "application/vnd.apache.arrow.stream"


def test_a_read_begins_at_an_offset_a_time_or_a_named_place(server: Serving) -> None:
    server.topic()
    for timestamp in (1000, 2000, 3000):
        server.produce(str(timestamp), timestamp=timestamp)

    def values(**asked: object) -> list[str]:
        return [line["value"] for line in server.get("/v1/read", topic="clicks", **asked).lines]

    assert values() == ["1000", "2000", "3000"]
    assert values(offset=1) == ["2000", "3000"]
    assert values(offset=1, limit=1) == ["2000"]
    assert values(timestamp=1001) == ["2000", "3000"]
    assert values(from_="earliest", limit=1) == ["1000"]
    assert values(from_="latest") == []
    assert values(from_="time:3000") == ["3000"]
    assert values(from_="1970-01-01T00:00:02Z") == ["2000", "3000"]
    assert values(limit=0) == []
    assert values(offset=99) == []


def test_at_the_end_there_is_an_empty_200_in_every_format(server: Serving) -> None:
    server.topic()
    assert server.get("/v1/read", topic="clicks").body == b""
    assert server.get("/v1/read", {"Accept": "application/json"}, topic="clicks").json == {"messages": []}
    empty = server.get("/v1/read", {"Accept": ARROW}, topic="clicks")
    assert ipc.open_stream(empty.body).read_all().num_rows == 0


def test_all_partitions_are_read_one_after_the_other(server: Serving) -> None:
    server.topic(partitions=3)
    for partition in (2, 0, 1, 2):
        server.produce("x", partition=partition)
    lines = server.get("/read", topic="clicks").lines
    assert [(line["partition"], line["offset"]) for line in lines] == [(0, 0), (1, 0), (2, 0), (2, 1)]
    assert [line["offset"] for line in server.get("/v1/read", topic="clicks", partition=2).lines] == [0, 1]


def test_the_head_says_where_the_read_begins(server: Serving) -> None:
    server.topic(partitions=2)
    server.produce("a", "b", partition=1)
    assert server.get("/v1/read", topic="clicks", partition=1, offset=1).headers["cordwood-start-offset"] == "1"
    assert server.get("/v1/read", topic="clicks", offset=9).headers["cordwood-start-offset"] == "0, 2"


def test_a_read_is_json_when_that_is_asked_for(server: Serving) -> None:
    server.topic()
    body = b'{"value":"x"}\n' * 3000
    server.post("/v1/produce", body, {"Content-Type": "application/x-ndjson"}, topic="clicks")
    wanted = {"Accept": "application/json"}
    assert len(server.get("/v1/read", wanted, topic="clicks").json["messages"]) == 100
    found = server.get("/v1/read", wanted, topic="clicks", limit=2500).json["messages"]
    assert [row["offset"] for row in found] == list(range(2500))
    assert found[0]["attempts"] == 0
    assert server.get("/v1/read", wanted, topic="clicks", limit=10_001).error == "INVALID_ARGUMENT"
    assert server.get("/v1/read", wanted, topic="clicks", follow="true").error == "INVALID_ARGUMENT"


def test_a_long_read_comes_whole_in_order(server: Serving) -> None:
    server.topic(partitions=2)
    body = b"".join(b'{"value":"%d","partition":%d}\n' % (n, n % 2) for n in range(25_000))
    server.post("/v1/produce", body, {"Content-Type": "application/x-ndjson"}, topic="clicks")
    lines = server.get("/v1/read", topic="clicks").lines
    assert [int(line["value"]) for line in lines] == [*range(0, 25_000, 2), *range(1, 25_000, 2)]
    table = ipc.open_stream(server.get("/v1/read", {"Accept": ARROW}, topic="clicks", limit=12_501).body).read_all()
    assert table.column("partition").to_pylist() == [0] * 12_500 + [1]


def test_a_read_sees_what_was_there_when_it_began_and_leases_nothing(server: Serving) -> None:
    server.topic()
    server.produce("a")
    assert server.values() == server.values() == ["a"]
    assert server.lease()[0]["attempts"] == 1
    assert server.values() == ["a"]


def test_follow_goes_on_with_what_comes(server: Serving) -> None:
    server.topic(partitions=2)
    server.produce("a", partition=1)
    with Open(server, "/v1/read", topic="clicks", follow="true") as stream:
        assert stream.line()["value"] == "a"
        for n, partition in enumerate((0, 1, 0)):
            server.produce(str(n), partition=partition)
            assert stream.line()["value"] == str(n)


def test_follow_ends_after_its_limit_or_with_its_topic_or_with_the_server(server: Serving) -> None:
    server.topic()
    with Open(server, "/v1/read", topic="clicks", follow="true", limit=2) as stream:
        server.produce("a", "b")
        assert len(stream.rest().splitlines()) == 2
    with Open(server, "/v1/read", topic="clicks", follow="true", **{"from": "latest"}) as stream:
        server.ask("DELETE", "/v1/topics/clicks")
        assert stream.rest() == b""
    server.topic()
    with Open(server, "/v1/read", {"Accept": ARROW}, topic="clicks", follow="true") as stream:
        server.produce("c")
        server.call(server.listener.stop(60))
        assert ipc.open_stream(stream.rest()).read_all().column("value").to_pylist() == [b"c"]


def test_a_read_of_old_messages_comes_from_the_disk(tmp_path: Path) -> None:
    with Serving(tmp_path, cache_bytes=0) as server:
        server.topic()
        server.produce(*"abc")
    with Serving(tmp_path, cache_bytes=0) as server:
        assert server.values() == ["a", "b", "c"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"offset": 0, "timestamp": 0},
        {"offset": 0, "from": "latest"},
        {"from": "latest", "timestamp": 0},
        {"from": "soon"},
        {"offset": -1},
        {"partition": 1},
        {"limit": -1},
        {"follow": "perhaps"},
        {"ofset": 0},
    ],
)
def test_a_read_that_cannot_be_is_400(server: Serving, wrong: dict[str, object]) -> None:
    server.topic()
    assert server.get("/v1/read", topic="clicks", **wrong).error == "INVALID_ARGUMENT"


def test_a_read_of_an_unknown_topic_is_404(server: Serving) -> None:
    assert server.get("/v1/read", topic="nope").error == "NOT_FOUND"
    assert server.get("/v1/spans", topic="nope").error == "NOT_FOUND"


def test_spans_say_where_a_range_is(server: Serving) -> None:
    server.topic(partitions=2)
    server.produce("a", "b", "c", partition=1)
    assert server.get("/v1/spans", topic="clicks", from_=1, to=9).json == {
        "topic": "clicks",
        "spans": [{"partition": 1, "start": 1, "end": 3, "source": "broker", "bytes": 2}],
    }
    assert server.get("/spans", topic="clicks", partition=0).json["spans"] == []
    assert server.get("/v1/spans", topic="clicks", from_="x").error == "INVALID_ARGUMENT"


def test_a_head_of_a_read_has_no_body(server: Serving) -> None:
    server.topic()
    server.produce("a")
    reply = server.ask("HEAD", "/v1/read", topic="clicks")
    assert (reply.status, reply.body, reply.headers["cordwood-start-offset"]) == (200, b"", "0")
