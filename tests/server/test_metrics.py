"""Metrics that move, in a text that a strict reader accepts."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from cordwood.journal.frame import Kind, encode_header
from cordwood.journal.survey import survey
from cordwood.machine.disk import RealDirectory
from cordwood.server.metrics import Family, Sample, written
from tests.server.serving import Serving

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
LINE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\+Inf|-?[0-9.e+-]+)")

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parse(text: str) -> Samples:
    """Return every sample, after checking all that the text format demands."""
    assert text.endswith("\n")
    found: Samples = {}
    kinds: dict[str, str] = {}
    family = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert family not in kinds, f"{family} comes twice"
            assert len(line.split()) > 3, "a help that helps"
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name == family
            assert kind in ("counter", "gauge", "histogram")
            assert name.endswith("_total") == (kind == "counter")
            kinds[name] = kind
        else:
            match = LINE.fullmatch(line)
            assert match, f"not a sample: {line!r}"
            name = match[1]
            suffixes = ("_bucket", "_sum", "_count") if kinds[family] == "histogram" else ("",)
            assert name in [family + suffix for suffix in suffixes], f"{name} is not of {family}"
            key = name, tuple(sorted((m[1], m[2]) for m in re.finditer(LABEL, match[2] or "")))
            assert key not in found, f"{key} comes twice"
            found[key] = float(match.groups()[-1])
            assert found[key] >= 0
    for name, kind in kinds.items():
        if kind == "histogram":
            for whose in {labels for n, labels in found if n == f"{name}_count"}:
                buckets = [
                    value
                    for (n, labels), value in found.items()
                    if n == f"{name}_bucket" and tuple(one for one in labels if one[0] != "le") == whose
                ]
                assert buckets == sorted(buckets)
                last = (f"{name}_bucket", tuple(sorted((*whose, ("le", "+Inf")))))
                assert found[last] == found[(f"{name}_count", whose)] == buckets[-1]
    return found


def metrics(server: Serving) -> Samples:
    reply = server.get("/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parse(reply.body.decode())


def of(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, tuple(sorted(labels.items()))), 0.0)


def test_messages_move_the_metrics(server: Serving) -> None:
    group = {"topic": "clicks", "group": "mailer"}
    server.topic(partitions=2)
    assert of(metrics(server), "cordwood_topics") == 1
    server.produce("abc", "de", partition=1)
    server.post("/v1/produce", {"value": "x", "idempotency_key": "k"}, topic="clicks", partition=0)
    server.post("/v1/produce", {"value": "x", "idempotency_key": "k"}, topic="clicks", partition=0)
    server.lease(owner="me")
    found = metrics(server)
    assert of(found, "cordwood_messages_produced_total", topic="clicks") == 3
    assert of(found, "cordwood_bytes_produced_total", topic="clicks") == 6
    assert of(found, "cordwood_duplicates_total") == 1
    assert of(found, "cordwood_messages_delivered_total", **group) == 3
    assert of(found, "cordwood_lag", **group, partition="1") == 2
    assert of(found, "cordwood_in_flight", **group, partition="1") == 2
    server.post("/v1/ack", {**group, "partition": 1, "offset": 0})
    server.post("/v1/nack", {**group, "partition": 1, "offset": 1, "delay_ms": 0})
    server.lease(wait_ms=60_000)
    found = metrics(server)
    assert of(found, "cordwood_messages_acked_total", **group) == 1
    assert of(found, "cordwood_ack_delay_seconds_count", **group) == 1
    assert server.get("/v1/groups/clicks/mailer").json["ack_delay"]["count"] == 1
    assert of(found, "cordwood_messages_nacked_total", **group) == 1
    assert of(found, "cordwood_messages_redelivered_total", **group) == 1
    assert of(found, "cordwood_lag", **group, partition="1") == 1
    assert of(found, "cordwood_sync_seconds_count") > 0
    assert of(found, "cordwood_group_frames_sum") >= of(found, "cordwood_group_frames_count") > 0
    assert of(found, "cordwood_connections") == 1
    assert of(found, "cordwood_journal_bytes") > 0
    assert of(found, "cordwood_cache_bytes") > 0
    assert of(found, "process_resident_memory_bytes") > 1 << 20
    assert of(found, "cordwood_writable") == 1


def test_given_up_messages_and_refusals_are_counted(server: Serving) -> None:
    group = {"topic": "clicks", "group": "mailer"}
    server.topic(max_buffered_messages=2)
    server.ask("PATCH", "/v1/groups/clicks/mailer", {"max_attempts": 1})
    server.produce("a", "b")
    assert server.post("/v1/produce", {"topic": "clicks", "value": "c"}).status == 429
    server.lease()
    server.post("/v1/nack", {**group, "partition": 0, "ranges": [[0, 2]]})
    server.post("/v1/groups/clicks/mailer/redrive", {"ranges": [[0, 1]]})
    found = metrics(server)
    assert of(found, "cordwood_rejected_total", reason="partition_buffer_full") == 1
    assert of(found, "cordwood_dead_letters_total", **group) == 2
    assert of(found, "cordwood_messages_redriven_total", **group) == 1
    server.ask("DELETE", "/v1/topics/clicks")
    assert not [key for key in metrics(server) if ("topic", "clicks") in key[1]], "its names do not stay"


def test_what_the_start_cut_off_is_counted(tmp_path: Path) -> None:
    with Serving(tmp_path / "whole") as server:
        server.topic()
        server.produce("a", "b")
        assert of(metrics(server), "cordwood_torn_bytes") == 0
        shutil.copytree(tmp_path / "whole", tmp_path / "torn")  # as a kill leaves it, without the clean mark
    directory = RealDirectory(tmp_path / "torn" / "journal")
    (segment,) = survey(directory).segments
    directory.close()
    last = segment.runs[0]
    assert segment.identity is not None
    half, _ = encode_header(Kind.DATA, last.end, last.end, segment.identity, last.last, 1000, 0)
    with (tmp_path / "torn" / "journal" / segment.name).open("r+b") as file:
        file.seek(last.behind)
        file.write(half)  # of its 1,000 bytes none came to the disk
    with Serving(tmp_path / "torn") as server:
        assert of(metrics(server), "cordwood_torn_bytes") > 0
        assert server.values() == ["a", "b"]


def test_labels_are_escaped() -> None:
    def samples() -> Iterator[Sample]:
        yield Sample((("text", 'a"b\\c\nd'),), 1.5)

    text = written(Family("x", "gauge", "with \\ and\nlines", samples()))
    assert text.splitlines()[0] == "# HELP x with \\\\ and\\nlines"
    assert parse(text) == {("x", (("text", 'a\\"b\\\\c\\nd'),)): 1.5}
