"""The live stream: one snapshot a second for all who look, none while nobody does."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cordwood.broker.groups import SHOWN_RANGES
from cordwood.broker.histogram import Histogram
from cordwood.server import live, snapshot
from cordwood.server.live import Pulse
from cordwood.server.snapshot import rate, spread
from tests.real.served import until
from tests.server.serving import Serving
from tests.server.streams import Open
from tests.server.test_failures import FailingDirectory
from tests.server.tokens import token_of


class Looker(Open):
    """A client that looks."""

    def __init__(self, server: Serving, headers: dict[str, str] | None = None):
        super().__init__(server, "/v1/live", headers)
        assert (self.status, self.headers["content-type"]) == (200, "text/event-stream")

    def raw(self) -> bytes:
        """Return the next event as it came."""
        while b"\n\n" not in self._rest:
            piece = self._client.chunk()
            assert piece, "the stream ended"
            self._rest += piece
        event, _, self._rest = self._rest.partition(b"\n\n")
        return event

    def event(self) -> Any:
        """Return the next snapshot."""
        event = self.raw()
        assert event.startswith(b"data: ")
        return json.loads(event[6:])


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "BEAT_S", 0.05)


def pulse(server: Serving) -> Pulse | None:
    """Return what makes snapshots of a broker, if somebody looks."""
    return next((found for desk, found in list(live._pulses.items()) if desk.running is server.running), None)


def lookers(server: Serving) -> int:
    found = pulse(server)
    return 0 if found is None else found.lookers


def test_the_first_snapshot_comes_at_once_and_knows_no_rates_yet(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "BEAT_S", 3600)
    server.topic(partitions=2)
    server.produce("a", "b", partition=1)
    with Looker(server) as looker:
        found = looker.event()
    assert found["rates"] is None
    assert found["sync_ms"] is None
    assert found["journal"]["status"] == "ok"
    assert found["journal"]["bytes"] > 0
    assert found["tier"]["status"] == "none"
    assert found["durability"] == "fsync"
    assert found["topics"] == [{"name": "clicks", "partitions": 2, "messages": 2, "bytes": 2, "produced": 0}]
    assert found["topic_count"] == 1


def test_what_is_produced_delivered_and_acked_is_counted(server: Serving) -> None:
    server.topic()
    with Looker(server) as looker:
        assert looker.event()["rates"] is None
        server.produce("a", "b", "c")
        rows = server.lease(max_messages=2)
        server.post("/v1/ack", {"topic": "clicks", "group": "mailer", "partition": 0, "offset": rows[0]["offset"]})
        seen = {"produced": 0.0, "delivered": 0.0, "acked": 0.0, "topic": 0.0, "group": 0.0}
        while not all(seen.values()):
            last = looker.event()
            for name in ("produced", "delivered", "acked"):
                seen[name] += last["rates"][name]
            seen["topic"] += last["topics"][0]["produced"]
            seen["group"] += sum(group["acked"] for group in last["groups"])
    (group,) = last["groups"]
    assert (group["topic"], group["group"], group["lag"], group["in_flight"]) == ("clicks", "mailer", 2, 1)
    assert last["sync_ms"]["count"] >= 3
    assert 0 < last["sync_ms"]["p50"] <= last["sync_ms"]["p99"]
    assert last["group_frames"]["mean"] >= 1


def test_all_who_look_get_the_same_snapshot(server: Serving) -> None:
    with Looker(server) as one, Looker(server) as two:
        first = {one.raw() for _ in range(10)}
        second = {two.raw() for _ in range(10)}
    assert len(first & second) >= 5, "each was made once"


def test_nothing_is_counted_while_nobody_looks(server: Serving) -> None:
    with Looker(server) as one:
        one.event()
        with Looker(server) as two:
            two.event()
            assert lookers(server) == 2
        until(lambda: lookers(server) == 1, "one left")
        found = pulse(server)
        assert found is not None
        assert found.beats
    until(lambda: not found.lookers, "both left")
    assert not found.beats
    assert server.ask("HEAD", "/v1/live").status == 200
    assert pulse(server) is None, "nothing is kept of who looked"
    with Looker(server) as looker:
        assert looker.event()["rates"] is None, "it begins anew"


def test_only_so_many_may_look(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_LOOKERS", 2)
    with ExitStack() as stack:
        stack.enter_context(Looker(server)).event()
        with Looker(server) as second:
            second.event()
            reply = server.get("/v1/live")
            assert (reply.status, reply.json["reason"]) == (429, "lookers_full")
            assert "retry-after" in reply.headers
        until(lambda: lookers(server) == 1, "one left")
        stack.enter_context(Looker(server)).event()


def test_a_snapshot_lists_only_so_much_and_says_how_much_there_is(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MOST_TOPICS", 2)
    monkeypatch.setattr(snapshot, "MOST_GROUPS", 1)
    for name in "abc":
        server.topic(name)
        assert server.ask("PATCH", f"/v1/groups/{name}/g", {}).status == 200
    with Looker(server) as looker:
        found = looker.event()
    assert ([topic["name"] for topic in found["topics"]], found["topic_count"]) == (["a", "b"], 3)
    assert ([group["topic"] for group in found["groups"]], found["group_count"]) == (["a"], 2)


def test_a_topic_with_very_many_partitions_costs_no_snapshot_its_time(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MOST_PLACES", 5)
    for name in ("wide", "next"):
        server.topic(name, partitions=6)
        for group in "ab":
            assert server.ask("PATCH", f"/v1/groups/{name}/{group}", {}).status == 200
    with Looker(server) as looker:
        found = looker.event()
    assert ([topic["name"] for topic in found["topics"]], found["topic_count"]) == (["wide"], 2)
    assert ([group["group"] for group in found["groups"]], found["group_count"]) == (["a"], 2)


def test_a_journal_that_failed_is_said_to_have_failed(tmp_path: Path) -> None:
    disk = FailingDirectory(tmp_path)
    with Serving(directory=disk) as server, Looker(server) as looker:
        assert looker.event()["journal"]["status"] == "ok"
        disk.broken = True
        assert server.post("/v1/topics", {"name": "lost"}).status == 503
        while (found := looker.event()["journal"])["status"] == "ok":
            pass
    assert found["status"] == "failed"
    assert found["error"]


def test_a_server_that_stops_ends_the_stream_properly(server: Serving) -> None:
    with Looker(server) as looker:
        looker.event()
        server.call(server.listener.stop(60))
        looker.rest()  # which wants the last chunk


def test_the_limits_are_those_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "dashboard.md").read_text()
    assert snapshot.MOST_TOPICS == snapshot.MOST_GROUPS
    assert f"| {live.MOST_LOOKERS}, then 429" in page
    assert f"| {snapshot.MOST_TOPICS} each, and {snapshot.MOST_PLACES:,} partitions" in page
    assert f"the first {SHOWN_RANGES:,} of each partition" in page


def test_a_counter_that_fell_is_no_negative_rate() -> None:
    assert rate(5, 3, 1000) == 2
    assert rate(5, 3, 500) == 4
    assert rate(3, 5, 1000) == 0
    assert rate(3, 3, 0) == 0


def test_quantiles_lie_on_a_line_through_their_bucket() -> None:
    histogram = Histogram((1, 2, 4))
    before = tuple(histogram.counts), histogram.sum
    assert spread(histogram.bounds, before, before) is None
    for value in (0.5, 1.5, 1.5, 3):
        histogram.add(value)
    found = spread(histogram.bounds, (tuple(histogram.counts), histogram.sum), before)
    assert found is not None
    assert (found.count, found.mean, found.p50) == (4, 1.625, 1.5)
    assert 3.9 < found.p99 < 4
    histogram.add(1000, times=96)
    found = spread(histogram.bounds, (tuple(histogram.counts), histogram.sum), before, 1000)
    assert found is not None
    assert (found.p50, found.p99) == (4000, 4000), "above all bounds: the last"


def test_who_may_not_see_all_topics_is_shown_those_it_may(tmp_path: Path) -> None:
    whole, consumer = token_of(tmp_path, "whole", "admin:"), token_of(tmp_path, "some", "consume:orders")
    producer = token_of(tmp_path, "in", "produce:orders")
    with Serving(tmp_path) as server:
        for topic in ("orders", "secret"):
            server.ask("POST", "/v1/topics", {"name": topic}, whole)
            server.ask("PATCH", f"/v1/groups/{topic}/g", {}, whole)
        for who, topics, groups in (
            (whole, ["orders", "secret"], ["orders", "secret"]),
            (consumer, ["orders"], ["orders"]),
            (producer, ["orders"], []),
        ):
            with Looker(server, who) as looker:
                found = looker.event()
            assert [topic["name"] for topic in found["topics"]] == topics
            assert [group["topic"] for group in found["groups"]] == groups
            assert (found["topic_count"], found["group_count"]) == (len(topics), len(groups))
